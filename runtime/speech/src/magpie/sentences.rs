//! Long texts in sentences. Each is spoken with the sentence before in mind.
//!
//! Source: NeMo 3.0.0, `magpietts_inference_utils.py`: `split_by_sentence`, `chunk_text_for_inference`.

/// Number of words, or characters, from which a text is cut.
const THRESHOLDS: [(&str, usize); 9] = [
    ("en", 45),
    ("es", 73),
    ("fr", 69),
    ("de", 50),
    ("it", 53),
    ("vi", 50),
    ("zh", 100),
    ("hi", 50),
    ("ja", 80),
];
/// The number of the other languages.
const USUAL_THRESHOLD: usize = 45;

/// Abbreviations after which a full stop does not end a sentence.
const TITLES: [&str; 14] =
    ["mr", "mrs", "ms", "dr", "prof", "sr", "jr", "rev", "gov", "gen", "col", "lt", "sgt", "capt"];

/// Returns the texts that are spoken one after the other: the text itself, unless its `units` are many.
pub fn chunks(text: &str, units: usize, language: &str) -> Vec<String> {
    match is_long(units, language) {
        true => sentences(text, language),
        false => vec![text.to_owned()],
    }
}

/// Returns true if a text of so many units is cut.
pub fn is_long(units: usize, language: &str) -> bool {
    let own = THRESHOLDS.iter().find(|(own, _)| *own == language);
    units >= own.map_or(USUAL_THRESHOLD, |(_, threshold)| *threshold)
}

/// Returns the number of words; of characters that are not blank in Chinese and Japanese.
pub fn units(text: &str, language: &str) -> usize {
    match language {
        "zh" | "ja" => text.chars().filter(|c| !c.is_whitespace()).count(),
        _ => text.split_whitespace().count(),
    }
}

/// Returns the sentences of a text, each with an upper-case beginning.
pub fn sentences(text: &str, language: &str) -> Vec<String> {
    let own_ends = match language {
        "zh" | "ja" => "。？！…",
        "hi" => "।॥",
        _ => "",
    };
    let text: String = text.replace('-', " ").replace('*', "");
    let mut sentences = Vec::new();
    let mut start = 0;
    let mut characters = text.char_indices().peekable();
    while let Some((at, c)) = characters.next() {
        let is_before_blank = characters.peek().is_none_or(|(_, next)| next.is_whitespace());
        let is_end = own_ends.contains(c) || ".?!".contains(c) && is_before_blank;
        if !is_end || c == '.' && ends_with_title(&text[start..at]) {
            continue;
        }
        let end = at + c.len_utf8();
        sentences.push(&text[start..end]);
        start = end;
    }
    sentences.push(&text[start..]);
    let trimmed = sentences.into_iter().map(str::trim).filter(|sentence| !sentence.is_empty());
    trimmed.map(with_upper_case).collect()
}

fn ends_with_title(text: &str) -> bool {
    let word = text.split_whitespace().next_back().unwrap_or_default().to_lowercase();
    TITLES.contains(&&*word)
}

fn with_upper_case(sentence: &str) -> String {
    let mut rest = sentence.chars();
    match rest.next() {
        Some(first) if !first.is_uppercase() => {
            first.to_uppercase().collect::<String>() + rest.as_str()
        }
        _ => sentence.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::magpie::golden::logic;

    #[test]
    fn sentences_and_counts_are_those_of_the_reference() {
        let golden = logic("chunking.json");
        let of = |case: &Value, key: &str| case[key].as_str().expect("a text").to_owned();
        let mut cases = 0;
        for case in golden["split"].as_array().expect("cases") {
            let (language, text) = (of(case, "language"), of(case, "text"));
            assert_eq!(Value::from(sentences(&text, &language)), case["sentences"], "{text}");
            cases += 1;
        }
        for case in golden["count"].as_array().expect("cases") {
            let (language, text) = (of(case, "language"), of(case, "text"));
            // The reference asks an analyser for the words of Japanese.
            if language != "ja" {
                assert_eq!(Value::from(units(&text, &language)), case["count"], "{text}");
            }
            cases += 1;
        }
        for case in golden["exceeds"].as_array().expect("cases") {
            let units = case["units"].as_u64().expect("a number") as usize;
            assert_eq!(Value::from(is_long(units, &of(case, "language"))), case["split"], "{case}");
            cases += 1;
        }
        assert_eq!(cases, 30);
    }

    #[test]
    fn only_a_long_text_is_changed() {
        let text = "one-two. three";
        assert_eq!(chunks(text, 2, "en"), [text]);
        let long = format!("{}. end", ["word"; 44].join(" "));
        assert_eq!(chunks(&long, 45, "en").len(), 2);
        assert_eq!(chunks(&long, 45, "en")[1], "End");
    }
}
