//! Checks of ranges and choices; errors state the field, the value and the allowed values.

use crate::{Error, error::shortened, suggest::nearest};

/// Most characters of a text: a hundred times what any network reads, but few enough for the
/// tokenizer, whose word search fails on tens of millions.
pub const MOST_CHARACTERS: usize = 1_000_000;

/// Refuses a text that is too long for a tokenizer.
///
/// # Errors
/// [`Error::OutOfRange`] for more than [`MOST_CHARACTERS`].
pub fn text(field: &'static str, text: &str) -> Result<(), Error> {
    // The byte length is cheap and an upper bound.
    if text.len() <= MOST_CHARACTERS {
        return Ok(());
    }
    match text.chars().count() {
        ..=MOST_CHARACTERS => Ok(()),
        length => Err(Error::OutOfRange {
            field,
            value: format!("({length} characters)"),
            range: format!("at most {MOST_CHARACTERS} characters"),
        }),
    }
}

/// Checks that a real number is in `low..=high`; NaN is in no range.
///
/// # Errors
/// [`Error::OutOfRange`].
pub fn real(field: &'static str, value: f64, low: f64, high: f64) -> Result<f64, Error> {
    if (low..=high).contains(&value) {
        return Ok(value);
    }
    Err(Error::OutOfRange { field, value: typed(value), range: format!("{low} to {high}") })
}

/// Checks that a real number is above `low` and at most `high`. One that f32 rounds to `low` is not above it.
///
/// # Errors
/// [`Error::OutOfRange`].
pub fn above(field: &'static str, value: f64, low: f64, high: f64) -> Result<f64, Error> {
    if f64::from(value as f32) > low && value <= high {
        return Ok(value);
    }
    let range = format!("above {low}, at most {high}");
    Err(Error::OutOfRange { field, value: typed(value), range })
}

/// Most characters of a number in a message without an exponent.
const MOST_DIGITS: usize = 20;

/// Returns a number as it was typed: many fields are f32.
fn typed(value: f64) -> String {
    let short = value as f32;
    let (of_f32, of_f64) = (short.to_string(), value.to_string());
    let is_f32 = f64::from(short) == value;
    // The f32 2147483648 is written as 2147483600.
    let text = if is_f32 && of_f32.len() < of_f64.len() { of_f32 } else { of_f64 };
    match text.len() {
        ..=MOST_DIGITS => text,
        _ if is_f32 => format!("{short:e}"),
        _ => format!("{value:e}"),
    }
}

/// Checks that a whole number is in `low..=high`.
///
/// # Errors
/// [`Error::OutOfRange`].
pub fn whole(field: &'static str, value: i64, low: u32, high: u32) -> Result<u32, Error> {
    match u32::try_from(value) {
        Ok(value) if (low..=high).contains(&value) => Ok(value),
        _ => {
            let range = format!("a whole number from {low} to {high}");
            Err(Error::OutOfRange { field, value: value.to_string(), range })
        }
    }
}

/// Refuses a list of more than `most` values, which a message calls `values`.
///
/// # Errors
/// [`Error::OutOfRange`].
pub fn length(field: &'static str, length: usize, values: &str, most: usize) -> Result<(), Error> {
    if length <= most {
        return Ok(());
    }
    let value = format!("({length} {values})");
    Err(Error::OutOfRange { field, value, range: format!("at most {most}") })
}

/// Returns the value of a name; without a name, the first value.
pub fn choice<T: Copy>(
    field: &'static str,
    name: Option<&str>,
    choices: &[(&str, T)],
) -> Result<T, Error> {
    let Some(name) = name else { return Ok(choices[0].1) };
    choices.iter().find(|(known, _)| *known == name).map(|&(_, value)| value).ok_or_else(|| {
        let names: Vec<_> = choices.iter().map(|&(known, _)| known).collect();
        let why = format!("use {}", one_of(&names));
        let near = nearest(name, names.iter().copied()).map(str::to_owned);
        Error::BadValue { field, value: shortened(name), why, near }
    })
}

/// Joins names as `a, b or c`.
pub fn one_of(names: &[&str]) -> String {
    match names {
        [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        names => names.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_infinity_and_huge_numbers_are_in_no_range() {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, -1.0] {
            assert!(real("normalization_db", value, 0.0, 1.0).is_err(), "{value}");
            assert!(above("duration", value, 0.0, 600.0).is_err(), "{value}");
        }
        assert_eq!(
            above("duration", f64::NAN, 0.0, 600.0).expect_err("NaN").to_string(),
            "`duration: NaN` is out of range: above 0, at most 600"
        );
        let f32 = f64::from(100.1_f32);
        for (value, text) in [
            (100.1, "100.1"),
            (f32, "100.1"),
            (2_147_483_648.0, "2147483648"),
            (1e300, "1e300"),
            (f64::from(1e20_f32), "1e20"),
        ] {
            assert_eq!(
                real("temperature", value, 0.0, 100.0).expect_err("too high").to_string(),
                format!("`temperature: {text}` is out of range: 0 to 100")
            );
        }
        let zero = above("shift", 1e-300, 0.0, 1.0).expect_err("0 in f32").to_string();
        assert_eq!(zero, "`shift: 1e-300` is out of range: above 0, at most 1");
        assert_eq!(
            whole("bpm", i64::MAX, 30, 300).expect_err("huge").to_string(),
            "`bpm: 9223372036854775807` is out of range: a whole number from 30 to 300"
        );
    }

    /// The limit counts characters, which may have several bytes each.
    #[test]
    fn a_text_has_at_most_a_million_characters() {
        assert!(text("lyrics", &"語".repeat(MOST_CHARACTERS)).is_ok());
        let error = text("lyrics", &" ".repeat(MOST_CHARACTERS + 1)).expect_err("too long");
        assert_eq!(
            error.to_string(),
            "`lyrics: (1000001 characters)` is out of range: at most 1000000 characters"
        );
    }
}
