//! Audio codes as text: five per second, each the index of one FSQ vector.
//!
//! Two notations are read: upstream's `<|audio_code_17|><|audio_code_4|>`, with any text between
//! the codes, and a list such as `17,4`.
//!
//! Source: upstream `audio_codes.py`, `_parse_audio_code_string`.

use acestep_engine::{Error, error::shortened};

use crate::{SongError, python};

/// The largest code that upstream reads: the released codebook has 8 x 8 x 8 x 5 x 5 x 5 entries.
const UPSTREAM_LAST: u32 = 63_999;

pub(crate) const OPEN: &str = "<|audio_code_";
const CLOSE: &str = "|>";

/// Parses codes in either notation; does not check them against the size of a codebook.
///
/// # Errors
/// [`SongError::BadCode`] for a list item that is not a code; [`Error::BadValue`] for a text that
/// is not empty and contains no code.
pub fn parse(text: &str) -> Result<Vec<u32>, Error> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    if !text.contains(OPEN) {
        return parse_list(text);
    }
    let codes: Vec<_> = markup(text).collect();
    if codes.is_empty() {
        return Err(Error::BadValue {
            field: "audio_codes",
            value: shortened(text),
            why: "it has no <|audio_code_N|> in it".into(),
            near: None,
        });
    }
    Ok(codes)
}

/// Parses every `<|audio_code_N|>`, at most 63999 each: upstream's `_parse_audio_code_string`.
pub fn parse_markup(text: &str) -> Vec<u32> {
    markup(text).map(|code| code.min(UPSTREAM_LAST)).collect()
}

/// Returns every `<|audio_code_N|>` in `text` and skips any text between them, as upstream does.
/// Digits of any script count, as in Python's `\d`; numbers above u32 become `u32::MAX`.
fn markup(text: &str) -> impl Iterator<Item = u32> {
    // Each piece after an opening begins with the number, if there is one.
    text.split(OPEN).skip(1).filter_map(|piece| {
        let (digits, _) = piece.split_once(CLOSE)?;
        Some(python::digits(digits)?.parse().unwrap_or(u32::MAX))
    })
}

/// Parses ASCII digits as a code; numbers above u32 become `u32::MAX`.
fn code(digits: &str) -> Option<u32> {
    let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| digits.parse().unwrap_or(u32::MAX))
}

/// Parses a list of codes, separated by commas or white space.
///
/// # Errors
/// [`SongError::BadCode`] for the first item that is not a whole number.
fn parse_list(text: &str) -> Result<Vec<u32>, Error> {
    let text = text.trim().trim_end_matches(',');
    text.split([',', '\n'])
        .flat_map(|item| {
            let mut words = item.split_whitespace().peekable();
            // Two commas in a row mean a missing item, which must be an error.
            let missing = words.peek().is_none().then_some("");
            words.chain(missing)
        })
        .enumerate()
        .map(|(i, item)| {
            code(item)
                .ok_or_else(|| SongError::BadCode { index: i + 1, item: shortened(item) }.into())
        })
        .collect()
}

/// Formats codes as a list, which both [`parse`] and acestep.cpp read.
pub fn to_list(codes: &[u32]) -> String {
    codes.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// Formats codes as the text that the language model reads and writes.
pub fn to_markup(codes: &[u32]) -> String {
    codes.iter().map(|code| format!("{OPEN}{code}{CLOSE}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_goldens::golden_cases;

    /// Golden: `dit_prompts.json`, `_parse_audio_code_string`.
    #[test]
    fn markup_is_read_as_upstream_reads_it() {
        let cases = golden_cases("a/logic/dit_prompts.json", "parse_audio_code_string");
        assert_eq!(cases.len(), 5);
        for case in &cases {
            let text = case["in"].as_str().expect("a text");
            let expected: Vec<u32> =
                serde_json::from_value(case["out"].clone()).expect("a list of codes");
            assert_eq!(parse_markup(text), expected, "{text}");
        }
    }

    #[test]
    fn only_upstreams_reading_ends_at_the_released_codebook() {
        let text = "<|audio_code_64000|><|audio_code_3|><|audio_code_99999999999|>";
        assert_eq!(parse(text).expect("codes"), [64_000, 3, u32::MAX]);
        assert_eq!(parse_markup(text), [63_999, 3, 63_999]);
    }

    #[test]
    fn broken_markup_is_skipped_but_codes_after_it_are_not() {
        let text = "<|audio_code_1<|audio_code_2|><|audio_code_|><|audio_code_+3|><|audio_code_4|>";
        assert_eq!(parse_markup(text), [2, 4]);
    }

    #[test]
    fn lists_are_separated_by_commas_or_space() {
        assert_eq!(parse("43316, 18426,0").expect("codes"), [43_316, 18_426, 0]);
        assert_eq!(parse("1 2\n3\n").expect("codes"), [1, 2, 3]);
        assert_eq!(parse("1,2,").expect("codes"), [1, 2]);
        assert_eq!(parse("1,4294967296").expect("codes"), [1, u32::MAX]);
        assert_eq!(parse(" ").expect("nothing"), Vec::<u32>::new());
    }

    #[test]
    fn junk_in_a_list_is_named_with_its_place() {
        for (text, message) in [
            ("1,x2,3", "audio code 2 is `x2`, but a code is a whole number such as 17"),
            ("1,,2", "audio code 2 is ``, but a code is a whole number such as 17"),
            ("1,-2", "audio code 2 is `-2`, but a code is a whole number such as 17"),
        ] {
            assert_eq!(parse(text).expect_err("junk").to_string(), message);
        }
    }

    #[test]
    fn a_text_whose_markup_holds_no_code_is_an_error() {
        assert!(matches!(parse("<|audio_code_x|>"), Err(Error::BadValue { .. })));
    }

    #[test]
    fn what_is_written_is_read_back() {
        let codes = [0, 63_999, 17];
        assert_eq!(parse(&to_list(&codes)).expect("codes"), codes);
        assert_eq!(to_markup(&codes), "<|audio_code_0|><|audio_code_63999|><|audio_code_17|>");
        assert_eq!(parse(&to_markup(&codes)).expect("codes"), codes);
    }
}
