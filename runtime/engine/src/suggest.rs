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
    fn a_slip_leads_to_the_first_name_that_may_be_meant() {
        let models = "turbo turbo-shift1 turbo-shift3 xl-turbo xl-base xl-sft";
        for (typed, names, expected) in [
            ("trubo", "turbo base sft", Some("turbo")),
            ("dti", "dit vae", Some("dit")),
            ("COVR", "text2music cover cover-nofsq", Some("cover")),
            ("fp16", "auto f32 bf16 f16 q8", Some("f16")),
            ("gpu", "auto cpu cuda wgpu", Some("wgpu")),
            ("lm-17b", "lm-1.7b lm-0.6b lm-4b", Some("lm-1.7b")),
            ("turbo-shift2", models, Some("turbo-shift1")),
            ("xl", models, Some("xl-turbo")),
            ("XL-B", models, Some("xl-base")),
            ("Xl-Sft", models, Some("xl-sft")),
            ("x", models, None),
            ("", "turbo base sft demo", None),
            ("x", "turbo base sft demo", None),
            ("no/such", "turbo base sft demo", None),
            ("rock", "turbo base sft demo", None),
        ] {
            assert_eq!(nearest(typed, names.split(' ')), expected, "{typed}");
        }
    }
}
