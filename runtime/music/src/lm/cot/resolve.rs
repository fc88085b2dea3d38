//! Detection of unquoted texts that YAML 1.1 would read as another type.
//!
//! Source: the types of <https://yaml.org/type/> (null, bool, int, float, timestamp, merge, value)
//! as PyYAML 6.0.3 reads them: a float's exponent needs a sign, so `1e3` is a text.

use std::sync::LazyLock;

use regex::Regex;

/// Null, booleans, the merge key and the default key.
const WORDS: [&str; 24] = [
    "~", "null", "Null", "NULL", "yes", "Yes", "YES", "no", "No", "NO", "true", "True", "TRUE",
    "false", "False", "FALSE", "on", "On", "ON", "off", "Off", "OFF", "<<", "=",
];

/// Whole numbers (binary, octal, decimal, hexadecimal, base 60), floats, dates, dates with times.
static NUMBERS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?x)^(?:
          [-+]?(?: 0b[01_]+ | 0x[0-9a-fA-F_]+ | 0[0-7_]* | [1-9][0-9_]*(?::[0-5]?[0-9])* )
        | [-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+][0-9]+)?
        | [-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*
        | \.[0-9][0-9_]*(?:[eE][-+][0-9]+)?
        | [-+]?\.(?:inf|Inf|INF)
        | \.(?:nan|NaN|NAN)
        | [0-9]{4}-[0-9]{2}-[0-9]{2}
        | [0-9]{4}-[0-9]{1,2}-[0-9]{1,2} (?:[Tt]|[\x20\t]+) [0-9]{1,2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]*)?
          (?: [\x20\t]* (?: Z | [-+][0-9]{1,2}(?::[0-9]{2})? ) )?
        )$",
    )
    .expect("the pattern is a constant")
});

/// True if `text` needs quotes to stay a text. The empty text is null in YAML.
pub(super) fn is_not_a_text(text: &str) -> bool {
    text.is_empty() || WORDS.contains(&text) || NUMBERS.is_match(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values from PyYAML 6.0.3.
    #[test]
    fn numbers_dates_and_words_are_not_texts() {
        let others = ", ~, No, OFF, =, <<, 0, -12, +1_000, 017, 0b1_0, -0xFf, 190:20:30, 1., 12.5, \
                      -1_0.5e+3, .5, .5e-1, 1:30.5, -.INF, .nan, 2024-01-01, \
                      2024-1-2 3:04:05.6 +7:30, 2001-12-14t21:59:43.10-05:00, 0_, -0";
        for text in others.split(", ") {
            assert!(is_not_a_text(text), "{text}");
        }
        let texts = "nO, y, n, none, 1e3, 1.5e3, 08, 0b2, 0x, 0xg, 1:60, -.5, +.nan, ., -, +, _1, \
                     2024-1-1, 2024-01-01 3:04, 1-2, 12:30:45:, ==, <";
        for text in texts.split(", ") {
            assert!(!is_not_a_text(text), "{text}");
        }
    }
}
