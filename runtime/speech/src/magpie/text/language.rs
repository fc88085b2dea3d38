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

/// Returns the tokenizer of a language for a file without a mapping, if one of `names` is it.
pub fn tokenizer_of<'a>(language: &str, names: &[&'a str]) -> Option<&'a str> {
    let (_, wanted) = TABLE.iter().find(|(own, _)| own.eq_ignore_ascii_case(language))?;
    wanted.iter().find_map(|wanted| names.iter().copied().find(|name| name == wanted))
}

/// Returns the spelling of a language in a file without a mapping: `en` for `EN` and `English`.
pub(super) fn spelling(language: &str) -> Option<&'static str> {
    languages::meant(language, &TABLE.map(|(own, _)| own))
}

/// Returns the languages of a file without a mapping.
pub(super) fn known_languages(names: &[&str]) -> Vec<String> {
    let languages = TABLE.iter().map(|(language, _)| *language);
    languages.filter(|own| tokenizer_of(own, names).is_some()).map(str::to_owned).collect()
}

/// The tokenizers of each language, from the file.
#[derive(Debug)]
pub(super) struct Mapping(Vec<(String, Vec<String>)>);

impl Mapping {
    pub(super) fn read(map: &Map<String, Value>) -> Result<Self, MagpieError> {
        let of = |(language, value): (&String, &Value)| {
            let names = match value {
                Value::String(name) => Some(vec![name.clone()]),
                Value::Array(names) => {
                    names.iter().map(|name| name.as_str().map(str::to_owned)).collect()
                }
                _ => None,
            };
            let field = format!("language_to_tokenizer_mapping.{language}");
            let bad = || MagpieError::bad_setting(field, "it is no list of names".to_owned());
            Ok((language.clone(), names.ok_or_else(bad)?))
        };
        map.iter().map(of).collect::<Result<_, _>>().map(Self)
    }

    fn of(&self, language: &str) -> Option<&(String, Vec<String>)> {
        self.0.iter().find(|(own, _)| own.eq_ignore_ascii_case(language))
    }

    /// Returns the spelling of a language in the file: `pt-BR` for `pt-br` and `pt`.
    pub(super) fn spelling(&self, language: &str) -> Option<&str> {
        let known: Vec<&str> = self.0.iter().map(|(own, _)| &**own).collect();
        languages::meant(language, &known)
    }

    pub(super) fn tokenizer_of<'a>(&self, language: &str, names: &[&'a str]) -> Option<&'a str> {
        let (_, wanted) = self.of(language)?;
        wanted.iter().find_map(|wanted| names.iter().copied().find(|name| name == wanted))
    }

    pub(super) fn languages(&self, names: &[&str]) -> Vec<String> {
        let languages = self.0.iter().map(|(language, _)| language);
        languages.filter(|own| self.tokenizer_of(own, names).is_some()).cloned().collect()
    }
}
