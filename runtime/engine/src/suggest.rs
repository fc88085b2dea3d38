//! Suggests a name for a misspelt one.
//!
//! Similarity is Jaro-Winkler (1990): it counts common letters near their position, with more
//! weight at the beginning. One inserted, missing, wrong or swapped letter always counts as
//! similar, because in a word of three letters two swapped ones are most of the word.

/// Minimum similarity; below it, names have little more in common than some letters.
const ALIKE: f64 = 0.8;

/// Returns the name most similar to `typed`, ignoring case, or `None` if no name is similar. A name
/// that begins with `typed` wins over similar ones; among equals the first wins.
pub fn nearest<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed = typed.to_lowercase();
    let of_each = |name: &'a str| (likeness(&typed, &name.to_lowercase()), name);
    let alike = names.into_iter().map(of_each).filter(|(likeness, _)| *likeness > ALIKE);
    let best = alike.reduce(|best, next| if next.0 > best.0 { next } else { best });
    best.map(|(_, name)| name)
}

fn likeness(typed: &str, name: &str) -> f64 {
    // A single letter is the beginning of too many names.
    if typed.chars().count() > 1 && name.starts_with(typed) {
        return if name == typed { 2.0 } else { 1.0 };
    }
    let likeness = strsim::jaro_winkler(typed, name);
    // Names of one or two letters are all one edit apart.
    let is_slip = typed.chars().count() > 2 && strsim::osa_distance(typed, name) <= 1;
    if is_slip { likeness.max(0.9) } else { likeness }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_leads_to_the_name_that_was_meant() {
        let near = |typed, names: &[&'static str]| nearest(typed, names.iter().copied());
        assert_eq!(near("trubo", &["turbo", "base", "sft"]), Some("turbo"));
        assert_eq!(near("dti", &["dit", "vae"]), Some("dit"));
        assert_eq!(near("COVR", &["text2music", "cover", "cover-nofsq"]), Some("cover"));
        assert_eq!(near("fp16", &["auto", "f32", "bf16", "f16", "q8"]), Some("f16"));
        assert_eq!(near("gpu", &["auto", "cpu", "cuda", "wgpu"]), Some("wgpu"));
        assert_eq!(near("lm-17b", &["lm-1.7b", "lm-0.6b", "lm-4b"]), Some("lm-1.7b"));
    }

    #[test]
    fn of_equals_it_is_the_first() {
        let names = ["turbo", "turbo-shift1", "turbo-shift3", "xl-turbo", "xl-base", "xl-sft"];
        assert_eq!(nearest("turbo-shift2", names), Some("turbo-shift1"));
        assert_eq!(nearest("xl", names), Some("xl-turbo"));
        assert_eq!(nearest("XL-B", names), Some("xl-base"));
        assert_eq!(nearest("Xl-Sft", names), Some("xl-sft"));
        assert_eq!(nearest("x", names), None);
    }

    #[test]
    fn what_is_like_nothing_leads_nowhere() {
        for typed in ["", "x", "no/such", "rock"] {
            assert_eq!(nearest(typed, ["turbo", "base", "sft", "demo"]), None, "{typed}");
        }
    }
}
