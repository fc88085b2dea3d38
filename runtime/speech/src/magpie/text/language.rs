//! The tokenizer of a language.
//!
//! Source: NeMo 3.0.0, `magpietts.py`, `_get_tokenizer_name_for_language`, which falls back to English.
//! Here a language without a tokenizer is an error.

use serde_json::{Map, Value};

use crate::{languages, magpie::MagpieError};

/// The tokenizers that each language may have, the best first.
const TABLE: [(&str, &[&str]); 9] = [
    ("en", &["english_phoneme", "english"]),
    ("de", &["german_phoneme", "german"]),
    ("es", &["spanish_phoneme", "spanish"]),
    ("fr", &["french_chartokenizer", "french"]),
    ("it", &["italian_phoneme", "italian"]),
    ("vi", &["vietnamese_phoneme", "vietnamese"]),
    ("zh", &["mandarin_phoneme", "mandarin", "chinese"]),
    ("hi", &["hindi_chartokenizer", "hindi"]),
    ("ja", &["japanese_phoneme", "japanese"]),
];

/// The tokenizers of each language.
#[derive(Debug)]
pub(super) struct Mapping(Vec<(String, Vec<String>)>);

impl Mapping {
    /// Reads the mapping of a file; a file without one has the mapping of the reference.
    pub(super) fn read(map: Option<&Map<String, Value>>) -> Result<Self, MagpieError> {
        let Some(map) = map else {
            let of = |(language, names): &(&str, &[&str])| {
                ((*language).to_owned(), names.iter().map(|name| (*name).to_owned()).collect())
            };
            return Ok(Self(TABLE.iter().map(of).collect()));
        };
        let of = |(language, value): (&String, &Value)| {
            let names = match value {
                Value::String(name) => Some(vec![name.clone()]),
                Value::Array(names) => {
                    names.iter().map(|name| name.as_str().map(str::to_owned)).collect()
                }
                _ => None,
            };
            let field = format!("language_to_tokenizer_mapping.{language}");
            let bad = || MagpieError::bad_setting(field, "it is no list of names");
            Ok((language.clone(), names.ok_or_else(bad)?))
        };
        map.iter().map(of).collect::<Result<_, _>>().map(Self)
    }

    /// Returns the spelling of a language: `pt-BR` for `pt-br` and `pt`, `en` for `English`.
    pub(super) fn spelling(&self, language: &str) -> Option<&str> {
        let known: Vec<&str> = self.0.iter().map(|(own, _)| &**own).collect();
        languages::meant(language, &known)
    }

    /// Returns the tokenizer of a language, if one of `names` is it.
    pub(super) fn tokenizer_of<'a>(&self, language: &str, names: &[&'a str]) -> Option<&'a str> {
        let (_, wanted) = self.0.iter().find(|(own, _)| own.eq_ignore_ascii_case(language))?;
        wanted.iter().find_map(|wanted| names.iter().copied().find(|name| name == wanted))
    }

    pub(super) fn languages(&self, names: &[&str]) -> Vec<String> {
        let languages = self.0.iter().map(|(language, _)| language);
        languages.filter(|own| self.tokenizer_of(own, names).is_some()).cloned().collect()
    }
}
