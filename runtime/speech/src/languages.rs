//! Names and codes of languages: a model has one of them, and a user may type the other.
//!
//! Codes are of ISO 639-1, with a region as in BCP 47: `de`, `zh-CN`.

/// Codes, each with its English name.
const NAMES: &str = "ar arabic bn bengali cs czech da danish de german el greek en english \
    es spanish fa persian fi finnish fr french he hebrew hi hindi hu hungarian id indonesian \
    it italian ja japanese ko korean nl dutch no norwegian pl polish pt portuguese ro romanian \
    ru russian sv swedish th thai tr turkish uk ukrainian vi vietnamese zh chinese zh mandarin";

/// Returns the one language of `known` that `typed` means, in any case. Two regions are two languages:
/// `pt-PT` is not `pt-BR`, but `pt` and `portuguese` are.
pub(crate) fn meant<'a>(typed: &str, known: &[&'a str]) -> Option<&'a str> {
    let typed = typed.to_lowercase();
    let as_typed = known.iter().copied().find(|own| own.to_lowercase() == typed);
    if as_typed.is_some() {
        return as_typed;
    }
    let (code, region) = parts(&typed);
    let mut all = known.iter().copied().filter(|own| {
        let own = own.to_lowercase();
        let (own_code, own_region) = parts(&own);
        let is_open = region.is_none() || own_region.is_none();
        own_code == code && (is_open || own_region == region)
    });
    // Of several regions the user chooses one.
    all.next().filter(|_| all.next().is_none())
}

/// Returns the code and the region of a language in small letters; its name if it has no code here.
fn parts(language: &str) -> (&str, Option<&str>) {
    let (language, region) = match language.split_once(['-', '_']) {
        Some((code, region)) if code.len() == 2 => (code, Some(region)),
        _ => (language, None),
    };
    let names: Vec<&'static str> = NAMES.split_whitespace().collect();
    let named = names.chunks(2).find(|pair| pair[1] == language);
    (named.map_or(language, |pair| pair[0]), region)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_and_a_name_are_the_same_language() {
        let names = ["auto", "chinese", "english", "german", "portuguese"];
        for (typed, own) in [
            ("de", Some("german")),
            ("DE", Some("german")),
            ("German", Some("german")),
            ("zh-CN", Some("chinese")),
            ("zh-Hans-CN", Some("chinese")),
            ("Mandarin", Some("chinese")),
            ("en_US", Some("english")),
            ("pt-PT", Some("portuguese")),
            ("fr", None),
            ("xx", None),
            ("", None),
            ("german-at", None),
        ] {
            assert_eq!(meant(typed, &names), own, "{typed}");
        }
        let codes = ["en", "de", "zh", "pt-BR", "ar-AE", "ar-SA"];
        for (typed, own) in [
            ("german", Some("de")),
            ("EN-gb", Some("en")),
            ("pt", Some("pt-BR")),
            ("Portuguese", Some("pt-BR")),
            ("pt_br", Some("pt-BR")),
            ("pt-PT", None),
            ("ar-sa", Some("ar-SA")),
            ("arabic", None),
        ] {
            assert_eq!(meant(typed, &codes), own, "{typed}");
        }
    }
}
