//! Ranges and choices, each refused with the option, the value and what is allowed.

use crate::{Error, error::shortened, near::nearest};

/// Languages the model was trained on (upstream `VALID_LANGUAGES`).
pub const LANGUAGES: [&str; 51] = [
    "ar", "az", "bg", "bn", "ca", "cs", "da", "de", "el", "en", "es", "fa", "fi", "fr", "he", "hi",
    "hr", "ht", "hu", "id", "is", "it", "ja", "ko", "la", "lt", "ms", "ne", "nl", "no", "pa", "pl",
    "pt", "ro", "ru", "sa", "sk", "sr", "sv", "sw", "ta", "te", "th", "tl", "tr", "uk", "ur", "vi",
    "yue", "zh", "unknown",
];

/// Most characters of a text: a hundred times what any network reads, and few enough for the
/// tokenizer, whose search for words gives up on tens of millions.
pub const MOST_CHARACTERS: usize = 1_000_000;

/// Refuses a text that no tokenizer should be given.
///
/// # Errors
/// [`Error::OutOfRange`] for more than [`MOST_CHARACTERS`].
pub fn text(flag: &'static str, text: &str) -> Result<(), Error> {
    // Bytes first: they are known.
    if text.len() <= MOST_CHARACTERS {
        return Ok(());
    }
    match text.chars().count() {
        ..=MOST_CHARACTERS => Ok(()),
        length => Err(Error::OutOfRange {
            flag,
            value: format!("({length} characters)"),
            range: format!("at most {MOST_CHARACTERS} characters"),
        }),
    }
}

/// A real number in `low..=high`; NaN is in no range.
///
/// # Errors
/// [`Error::OutOfRange`].
pub fn real(flag: &'static str, value: f64, low: f64, high: f64) -> Result<f64, Error> {
    if (low..=high).contains(&value) {
        return Ok(value);
    }
    Err(Error::OutOfRange { flag, value: value.to_string(), range: format!("{low} to {high}") })
}

/// A real number above `low`, at most `high`.
pub(crate) fn above(flag: &'static str, value: f64, low: f64, high: f64) -> Result<f64, Error> {
    if value > low && value <= high {
        return Ok(value);
    }
    let range = format!("above {low}, at most {high}");
    Err(Error::OutOfRange { flag, value: value.to_string(), range })
}

/// A whole number in `low..=high`.
///
/// # Errors
/// [`Error::OutOfRange`].
pub fn whole(flag: &'static str, value: i64, low: u32, high: u32) -> Result<u32, Error> {
    match u32::try_from(value) {
        Ok(value) if (low..=high).contains(&value) => Ok(value),
        _ => {
            let range = format!("a whole number from {low} to {high}");
            Err(Error::OutOfRange { flag, value: value.to_string(), range })
        }
    }
}

/// What is said of a song that is to be sung and not to be sung.
pub const VOICE_AND_NONE: &str =
    "`--instrumental` and lyrics exclude each other: leave one of them out";

/// Beats a minute that the model was trained on.
pub(crate) fn bpm(value: i64) -> Result<u32, Error> {
    whole("bpm", value, 30, 300)
}

/// The value of a name; the first is the default.
pub(crate) fn choice<T: Copy>(
    flag: &'static str,
    name: Option<&str>,
    choices: &[(&str, T)],
) -> Result<T, Error> {
    let Some(name) = name else { return Ok(choices[0].1) };
    choices.iter().find(|(known, _)| *known == name).map(|&(_, value)| value).ok_or_else(|| {
        let names: Vec<_> = choices.iter().map(|&(known, _)| known).collect();
        let why = format!("use {}", one_of(&names));
        let near = nearest(name, names.iter().copied()).map(str::to_owned);
        Error::BadValue { flag, value: shortened(name), why, near }
    })
}

/// `a, b or c`.
pub(crate) fn one_of(names: &[&str]) -> String {
    match names {
        [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        names => names.concat(),
    }
}

/// The language's code as the model knows it.
pub(crate) fn language(code: &str) -> Result<&'static str, Error> {
    let wanted = code.trim().to_ascii_lowercase();
    if let Some(known) = LANGUAGES.into_iter().find(|known| *known == wanted) {
        return Ok(known);
    }
    // `en-US` and `english` mean `en`; else whatever looks alike.
    let begins = |known: &&str| known.len() <= 3 && wanted.starts_with(*known);
    let looks_alike = |known: &&str| strsim::osa_distance(known, &wanted) <= 1;
    let mut near: Vec<_> = LANGUAGES.into_iter().filter(begins).collect();
    near.extend(LANGUAGES.into_iter().filter(|k| looks_alike(k) && !begins(k)).take(5));
    Err(Error::UnknownLanguage { code: shortened(code), near })
}

/// `2`, `3`, `4` or `6`, or such with a denominator, verbatim.
pub(crate) fn timesignature(text: &str) -> Result<String, Error> {
    let text = text.trim();
    let beats = match text.split_once('/') {
        Some((beats, unit)) if ["2", "4", "8", "16"].contains(&unit) => beats,
        Some(_) => "",
        None => text,
    };
    let known = if text.contains('/') {
        matches!(beats.parse::<u32>(), Ok(1..=32))
    } else {
        matches!(beats, "2" | "3" | "4" | "6")
    };
    if known {
        return Ok(text.to_owned());
    }
    let why = "use 2, 3, 4 or 6, or a fraction such as 6/8".into();
    Err(Error::BadValue { flag: "timesignature", value: shortened(text), why, near: None })
}

/// Whether `text` is a key the model was trained on: `F# minor`, `B♭ major`.
pub fn is_keyscale(text: &str) -> bool {
    let Some((note, mode)) = text.split_once(' ') else { return false };
    let mut note = note.chars();
    let letter = note.next().is_some_and(|c| ('A'..='G').contains(&c));
    letter
        && ["", "#", "b", "♯", "♭"].contains(&note.as_str())
        && ["major", "minor"].contains(&mode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_infinity_and_huge_numbers_are_in_no_range() {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, -1.0] {
            assert!(real("normalization-db", value, 0.0, 1.0).is_err(), "{value}");
            assert!(above("duration", value, 0.0, 600.0).is_err(), "{value}");
        }
        assert_eq!(
            above("duration", f64::NAN, 0.0, 600.0).expect_err("NaN").to_string(),
            "`--duration NaN` is out of range: above 0, at most 600"
        );
        assert_eq!(
            whole("bpm", i64::MAX, 30, 300).expect_err("huge").to_string(),
            "`--bpm 9223372036854775807` is out of range: a whole number from 30 to 300"
        );
    }

    /// In characters, of which each may be several bytes.
    #[test]
    fn a_text_has_at_most_a_million_characters() {
        assert!(text("lyrics", &"語".repeat(MOST_CHARACTERS)).is_ok());
        let error = text("lyrics", &" ".repeat(MOST_CHARACTERS + 1)).expect_err("too long");
        assert_eq!(
            error.to_string(),
            "`--lyrics (1000001 characters)` is out of range: at most 1000000 characters"
        );
    }

    #[test]
    fn an_unknown_language_names_near_codes() {
        let near = |code| match language(code) {
            Err(Error::UnknownLanguage { near, .. }) => near,
            other => panic!("{other:?}"),
        };
        assert_eq!(near("en-US"), ["en"]);
        assert!(near("jp").contains(&"ja"));
        assert!(near("klingon").is_empty());
        assert_eq!(language("YUE").expect("known"), "yue");
        assert_eq!(language("unknown").expect("known"), "unknown");
    }

    #[test]
    fn metres_pass_verbatim_or_are_refused() {
        for good in ["2", "3", "4", "6", "4/4", "6/8", "7/8", "12/8"] {
            assert_eq!(timesignature(good).expect("a metre"), good);
        }
        for bad in ["", "5", "0/4", "4/3", "/4", "4/", "four", "4/4/4", "-3/4"] {
            assert!(timesignature(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn keys_are_a_note_and_a_mode() {
        assert!(["C major", "F# minor", "B♭ major", "Eb minor"].into_iter().all(is_keyscale));
        assert!(
            !["C", "c major", "H minor", "C  major", "C## major", ""].into_iter().any(is_keyscale)
        );
    }
}
