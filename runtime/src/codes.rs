//! Audio codes as text: five a second, each the index of one FSQ vector.
//!
//! Two spellings are read: upstream's `<|audio_code_17|><|audio_code_4|>`, between which anything
//! may stand, and a list such as `17,4`.
//!
//! Source: upstream `audio_codes.py`, `_parse_audio_code_string`.

use crate::{Error, error::shortened};

/// The largest code: 8 x 8 x 8 x 5 x 5 x 5 levels.
pub const MAX_CODE: u32 = 63_999;

const OPEN: &str = "<|audio_code_";
const CLOSE: &str = "|>";

/// Codes as read, and what had to be changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Parsed {
    /// Every code in order, at most [`MAX_CODE`].
    pub codes: Vec<u32>,
    /// How many were larger and were lowered to it, as upstream does.
    pub clamped: usize,
}

/// Reads codes in either spelling.
///
/// # Errors
/// [`Error::BadCode`] for an item of a list that is no code; [`Error::BadValue`] for a text that
/// is not empty and has no code in it.
pub fn parse(text: &str) -> Result<Parsed, Error> {
    if text.trim().is_empty() {
        return Ok(Parsed::default());
    }
    if !text.contains(OPEN) {
        return Ok(Parsed { codes: parse_list(text)?, clamped: 0 });
    }
    let parsed = parse_markup(text);
    if parsed.codes.is_empty() {
        return Err(Error::BadValue {
            flag: "audio-codes",
            value: shortened(text),
            why: "it has no <|audio_code_N|> in it".into(),
        });
    }
    Ok(parsed)
}

/// Every `<|audio_code_N|>` in `text`; whatever stands between them is skipped, as upstream does.
pub fn parse_markup(text: &str) -> Parsed {
    let mut parsed = Parsed::default();
    // Each piece after an opening begins with the number, if it is one.
    for piece in text.split(OPEN).skip(1) {
        let Some((digits, _)) = piece.split_once(CLOSE) else { continue };
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            continue;
        }
        // A number too long for u32 is too large as well.
        let code = digits.parse().unwrap_or(u32::MAX);
        parsed.clamped += usize::from(code > MAX_CODE);
        parsed.codes.push(code.min(MAX_CODE));
    }
    parsed
}

/// A list of codes, separated by commas or white space.
///
/// # Errors
/// [`Error::BadCode`] names the first item that is not a whole number from 0 to [`MAX_CODE`].
pub fn parse_list(text: &str) -> Result<Vec<u32>, Error> {
    let text = text.trim().trim_end_matches(',');
    text.split([',', '\n'])
        .flat_map(|item| {
            let mut words = item.split_whitespace().peekable();
            // Two commas in a row: an item is missing, which must not go unnoticed.
            let missing = words.peek().is_none().then_some("");
            words.chain(missing)
        })
        .enumerate()
        .map(|(i, item)| match item.parse() {
            Ok(code) if code <= MAX_CODE => Ok(code),
            _ => Err(Error::BadCode { index: i + 1, item: shortened(item), max: MAX_CODE }),
        })
        .collect()
}

/// Codes as a list, the spelling that both [`parse`] and acestep.cpp read.
pub fn to_list(codes: &[u32]) -> String {
    codes.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_goldens::golden_json;

    /// Golden: `dit_prompts.json`, `_parse_audio_code_string`.
    #[test]
    fn markup_is_read_as_upstream_reads_it() {
        let golden = golden_json("a/logic/dit_prompts.json");
        let cases = golden["parse_audio_code_string"].as_array().expect("cases");
        assert_eq!(cases.len(), 5);
        for case in cases {
            let text = case["in"].as_str().expect("a text");
            let expected: Vec<u32> =
                serde_json::from_value(case["out"].clone()).expect("a list of codes");
            assert_eq!(parse_markup(text).codes, expected, "{text}");
        }
    }

    #[test]
    fn clamped_codes_are_counted() {
        let parsed = parse("<|audio_code_64000|><|audio_code_3|><|audio_code_99999999999|>");
        let expected = Parsed { codes: vec![63_999, 3, 63_999], clamped: 2 };
        assert_eq!(parsed.expect("codes"), expected);
    }

    #[test]
    fn broken_markup_is_skipped_but_codes_after_it_are_not() {
        let text = "<|audio_code_1<|audio_code_2|><|audio_code_|><|audio_code_+3|><|audio_code_4|>";
        assert_eq!(parse_markup(text).codes, [2, 4]);
    }

    #[test]
    fn lists_are_separated_by_commas_or_space() {
        assert_eq!(parse("43316, 18426,0").expect("codes").codes, [43_316, 18_426, 0]);
        assert_eq!(parse("1 2\n3\n").expect("codes").codes, [1, 2, 3]);
        assert_eq!(parse("1,2,").expect("codes").codes, [1, 2]);
        assert_eq!(parse(" ").expect("nothing"), Parsed::default());
    }

    #[test]
    fn junk_in_a_list_is_named_with_its_place() {
        for (text, message) in [
            ("1,x2,3", "audio code 2 is `x2`, not a whole number from 0 to 63999"),
            ("64000", "audio code 1 is `64000`, not a whole number from 0 to 63999"),
            ("1,,2", "audio code 2 is ``, not a whole number from 0 to 63999"),
            ("1,-2", "audio code 2 is `-2`, not a whole number from 0 to 63999"),
        ] {
            assert_eq!(parse(text).expect_err("junk").to_string(), message);
        }
    }

    #[test]
    fn a_text_whose_markup_holds_no_code_is_an_error() {
        assert!(matches!(parse("<|audio_code_x|>"), Err(Error::BadValue { .. })));
    }

    #[test]
    fn a_list_is_read_back() {
        let codes = [0, 63_999, 17];
        assert_eq!(parse(&to_list(&codes)).expect("codes").codes, codes);
    }
}
