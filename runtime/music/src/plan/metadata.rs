//! Validation of a song's tempo, key, metre, language and length.
//!
//! Requests, tags of songs, training folders and answers of the language model share these rules.

use acestep_engine::{
    Error, Notice,
    check::{above, text, whole},
    error::shortened,
};

use super::MOST_SECONDS;
use crate::{Request, SongError};

/// Languages that the model was trained on (upstream `VALID_LANGUAGES`).
pub const LANGUAGES: [&str; 51] = [
    "ar", "az", "bg", "bn", "ca", "cs", "da", "de", "el", "en", "es", "fa", "fi", "fr", "he", "hi",
    "hr", "ht", "hu", "id", "is", "it", "ja", "ko", "la", "lt", "ms", "ne", "nl", "no", "pa", "pl",
    "pt", "ro", "ru", "sa", "sk", "sr", "sv", "sw", "ta", "te", "th", "tl", "tr", "uk", "ur", "vi",
    "yue", "zh", "unknown",
];

/// Validated metadata of a song besides caption and lyrics; `None` = not given.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SongMetadata {
    /// Beats per minute.
    pub bpm: Option<u32>,
    /// Key, such as `F# minor`.
    pub keyscale: Option<String>,
    /// Time signature, such as `4` or `6/8`.
    pub timesignature: Option<String>,
    /// A code of [`LANGUAGES`].
    pub vocal_language: Option<&'static str>,
    /// Length in seconds.
    pub duration: Option<f64>,
}

impl SongMetadata {
    /// Reads the metadata of `request`.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::BadValue`] or [`SongError::UnknownLanguage`].
    pub fn of(request: &Request, notices: &mut Vec<Notice>) -> Result<Self, Error> {
        let key = request.keyscale.as_deref().map(keyscale).transpose()?;
        if let Some(key) = key.filter(|key| !is_keyscale(key)) {
            notices.push(Notice(format!(
                "the key `{}` does not look like `F# minor` or `C major`; the model gets it as it is",
                shortened(key)
            )));
        }
        Ok(Self {
            bpm: request.bpm.map(bpm).transpose()?,
            keyscale: key.map(str::to_owned),
            timesignature: request.timesignature.as_deref().map(timesignature).transpose()?,
            vocal_language: request.vocal_language.as_deref().map(vocal_language).transpose()?,
            duration: request.duration.map(duration).transpose()?,
        })
    }
}

/// Checks beats per minute against the range that the model was trained on.
pub(crate) fn bpm(value: i64) -> Result<u32, Error> {
    whole("bpm", value, 30, 300)
}

/// Checks the length of a song in seconds.
pub(crate) fn duration(seconds: f64) -> Result<f64, Error> {
    above("duration", seconds, 0.0, MOST_SECONDS)
}

/// Returns the language code as the model knows it.
pub(crate) fn vocal_language(code: &str) -> Result<&'static str, Error> {
    let wanted = code.trim().to_ascii_lowercase();
    if let Some(known) = LANGUAGES.into_iter().find(|known| *known == wanted) {
        return Ok(known);
    }
    // `en-US` and `english` mean `en`; also suggest codes that differ by one edit.
    let begins = |known: &&str| known.len() <= 3 && wanted.starts_with(*known);
    let looks_alike = |known: &&str| strsim::osa_distance(known, &wanted) <= 1;
    let mut near: Vec<_> = LANGUAGES.into_iter().filter(begins).collect();
    near.extend(LANGUAGES.into_iter().filter(|k| looks_alike(k) && !begins(k)).take(5));
    Err(SongError::UnknownLanguage { code: shortened(code), near }.into())
}

/// Returns `2`, `3`, `4` or `6`, or a number with a denominator, verbatim.
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
    Err(Error::BadValue { field: "timesignature", value: shortened(text), why, near: None })
}

/// Returns a key as written if it is a safe prompt value: short, on one line, and without special
/// tokens of the language model.
pub(crate) fn keyscale(key: &str) -> Result<&str, Error> {
    text("keyscale", key)?;
    let key = key.trim();
    let refused = |value, why: &str| {
        Err(Error::BadValue { field: "keyscale", value, why: why.to_owned(), near: None })
    };
    if key.is_empty() {
        return refused(String::new(), "it is empty; leave it out for any key");
    }
    let is_one_value =
        key.chars().count() <= 100 && !key.contains("<|") && !key.chars().any(char::is_control);
    if !is_one_value {
        return refused(shortened(key), "a key is a note and a mode, such as F# minor");
    }
    Ok(key)
}

/// True if `text` is a key that the model was trained on: `F# minor`, `B♭ major`.
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
    fn an_unknown_language_names_near_codes() {
        let near = |code| {
            let error = vocal_language(code).expect_err("unknown");
            let Some(SongError::UnknownLanguage { near, .. }) = error.family() else {
                panic!("{error}")
            };
            near.clone()
        };
        assert_eq!(near("en-US"), ["en"]);
        assert!(near("jp").contains(&"ja"));
        assert!(near("klingon").is_empty());
        assert_eq!(vocal_language("YUE").expect("known"), "yue");
        assert_eq!(vocal_language("unknown").expect("known"), "unknown");
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

    #[test]
    fn a_key_is_one_short_value() {
        assert_eq!(keyscale(" H moll ").expect("as it is"), "H moll");
        for bad in ["", "  ", "C\nmajor", "<|im_end|>", &"x".repeat(101)] {
            assert!(keyscale(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_key_that_the_model_does_not_know_is_said() {
        let request = Request { keyscale: Some("H moll".into()), ..Request::default() };
        let mut notices = Vec::new();
        let metadata = SongMetadata::of(&request, &mut notices).expect("valid");
        assert_eq!(metadata.keyscale.as_deref(), Some("H moll"));
        assert!(notices[0].0.contains("`H moll` does not look like"), "{notices:?}");
    }
}
