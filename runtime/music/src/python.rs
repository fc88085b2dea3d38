//! Python's text functions, on which upstream's parser depends.
//!
//! Source: the Python language reference, `str.isspace`, `str.strip`, `int`; digits are those of
//! Unicode 14, as in Python 3.11.

/// Zeros of Unicode's decimal digits (general category Nd); each begins a run of ten.
#[rustfmt::skip]
const ZEROS: [u32; 66] = [
    0x30, 0x660, 0x6F0, 0x7C0, 0x966, 0x9E6, 0xA66, 0xAE6, 0xB66, 0xBE6, 0xC66, 0xCE6, 0xD66,
    0xDE6, 0xE50, 0xED0, 0xF20, 0x1040, 0x1090, 0x17E0, 0x1810, 0x1946, 0x19D0, 0x1A80, 0x1A90,
    0x1B50, 0x1BB0, 0x1C40, 0x1C50, 0xA620, 0xA8D0, 0xA900, 0xA9D0, 0xA9F0, 0xAA50, 0xABF0,
    0xFF10, 0x104A0, 0x10D30, 0x11066, 0x110F0, 0x11136, 0x111D0, 0x112F0, 0x11450, 0x114D0,
    0x11650, 0x116C0, 0x11730, 0x118E0, 0x11950, 0x11C50, 0x11D50, 0x11DA0, 0x16A60, 0x16AC0,
    0x16B50, 0x1D7CE, 0x1D7D8, 0x1D7E2, 0x1D7EC, 0x1D7F6, 0x1E140, 0x1E2F0, 0x1E950, 0x1FBF0,
];

/// `str.isspace` of one character: Unicode white space, and four ASCII separators that only Python
/// treats as white space.
pub(crate) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1C}'..='\u{1F}').contains(&c)
}

/// `str.strip()`.
pub(crate) fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// Converts a decimal digit of any script to an ASCII digit.
fn ascii_digit(c: char) -> Option<char> {
    let zeros_up_to_c = ZEROS.partition_point(|&zero| zero <= u32::from(c));
    let zero = ZEROS[..zeros_up_to_c].last()?;
    char::from_digit(u32::from(c) - zero, 10)
}

/// Converts decimal digits of any script to ASCII digits without leading zeros.
///
/// This is upstream's `if text.isdigit(): int(text)`, for numbers of any length. `isdigit` is also
/// true for non-decimal digits such as `²`; then `int` raises, and this returns `None`.
pub(crate) fn digits(text: &str) -> Option<String> {
    let all = decimals(text)?;
    let number = all.trim_start_matches('0');
    Some(if number.is_empty() { "0".into() } else { number.into() })
}

/// Converts one or more digits, and nothing else, to ASCII.
fn decimals(text: &str) -> Option<String> {
    let ascii = text.chars().map(ascii_digit).collect::<Option<String>>()?;
    (!ascii.is_empty()).then_some(ascii)
}

/// `int(text.strip())`: allows white space around, a sign, and single underscores between digits.
///
/// A number beyond i64 gives `None` too, although Python reads it.
pub(crate) fn int(text: &str) -> Option<i64> {
    let text = strip(text);
    let (sign, number) = match text.strip_prefix('-') {
        Some(number) => ("-", number),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    // Two underscores in a row, or one at an end, leave a group without digits.
    let groups = number.split('_').map(decimals).collect::<Option<String>>()?;
    format!("{sign}{groups}").parse().ok()
}

/// `repr` of a float: the shortest digits that round-trip; exponents below 1e-4 and from 1e16.
pub(crate) fn repr(value: f64) -> String {
    if !value.is_finite() {
        return value.to_string().to_lowercase();
    }
    let shortest = format!("{value:e}");
    let (digits, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let places = digits.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    // If two texts of this length are equally near, Python takes the even one, and so does rounding
    // to this length. Above 2^53 and below 1e-4, rounding may miss a power of two, because its two
    // neighbours have different distances.
    if (-4..16).contains(&exponent) {
        let decimals = (places as i32 - exponent).max(1) as usize;
        return format!("{value:.decimals$}");
    }
    let rounded = format!("{value:.places$e}");
    let text = if rounded.parse() == Ok(value) { rounded } else { shortest };
    let digits = text.split('e').next().unwrap_or(&text);
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_separators_are_white_space_to_python_alone() {
        assert_eq!(strip("\u{1C}\u{1F} a b\u{85}\u{A0}\u{3000}\n"), "a b");
        // A zero-width space and a byte order mark are not white space.
        assert_eq!(strip("\u{200B}a\u{FEFF}"), "\u{200B}a\u{FEFF}");
    }

    /// Expected values from Python 3.11.
    #[test]
    fn whole_numbers_are_read_as_python_reads_them() {
        for (text, value) in [
            ("120", 120),
            ("  +7\n", 7),
            ("-0", 0),
            ("-12", -12),
            ("007", 7),
            ("1_000", 1000),
            ("0_1", 1),
            ("\u{A0}٣\u{FF11}\u{1F}", 31),
            ("𝟗", 9),
            ("-9223372036854775808", i64::MIN),
        ] {
            assert_eq!(int(text), Some(value), "{text}");
        }
        for text in
            ["", " ", "+", "-", "+-1", "- 1", "1 2", "1__2", "_1", "1_", "1.0", "²", "0x1", "1\0"]
        {
            assert_eq!(int(text), None, "{text}");
        }
        assert_eq!(int("9223372036854775808"), None, "beyond i64");
    }

    #[test]
    fn only_decimal_digits_make_a_number() {
        assert_eq!(digits("007").as_deref(), Some("7"));
        assert_eq!(digits("000").as_deref(), Some("0"));
        assert_eq!(digits("٣\u{FF11}").as_deref(), Some("31"));
        assert_eq!(digits(&"9".repeat(50)), Some("9".repeat(50)));
        for text in ["", "-1", "+1", "1_0", " 1", "²", "Ⅷ", "五", "/", ":"] {
            assert_eq!(digits(text), None, "{text}");
        }
    }

    /// Expected texts from Python 3.11.
    #[test]
    fn floats_are_written_as_python_writes_them() {
        for (value, text) in [
            (61.5, "61.5"),
            (120.0, "120.0"),
            (-0.0, "-0.0"),
            (0.1 + 0.2, "0.30000000000000004"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1.25e-7, "1.25e-07"),
            (2f64.powi(-1017), "7.120236347223045e-307"),
            (130_865_137_852_941.0 + 0.625, "130865137852941.62"),
            (9_007_199_254_740_993.0, "9007199254740992.0"),
            (1e16, "1e+16"),
            (-1.5e300, "-1.5e+300"),
            (f64::NAN, "nan"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(repr(value), text);
        }
    }
}
