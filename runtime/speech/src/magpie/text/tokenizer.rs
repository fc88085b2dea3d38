//! One tokenizer of a model.

use serde_json::Value;
use unicode_normalization::UnicodeNormalization as _;

use super::{
    Encoded, Tools, charsets,
    config::{ABSENT, TokenizerConfig, Version},
    dictionary::Case,
    ipa::Ipa,
    japanese::{self, JapaneseWord},
    list::List,
    mandarin::{Mandarin, pinyin_in},
    punctuation::punctuation,
};
use crate::magpie::{MagpieError, error::Tool};

/// Ids of the tokenizer of bytes: three marks, 256 bytes, 125 places that texts do not use.
const BYTE_IDS: u32 = 384;
/// The id of the first byte.
const FIRST_BYTE: u32 = 3;
/// The id after the last byte.
const END_OF_BYTES: u32 = 1;

/// A tokenizer.
#[derive(Debug)]
pub(super) enum Tokenizer {
    /// UTF-8, with an end of its own.
    Bytes,
    /// A list of symbols.
    Symbols { kind: Box<Kind>, list: List },
    /// Only the number of ids: the file has no texts of this tokenizer.
    Absent(u32),
    /// The reason why its settings cannot be used, and the number of ids if the file tells it.
    Unread { size: Option<u32>, why: String },
}

/// The way from text to symbols.
#[derive(Debug)]
pub(super) enum Kind {
    Ipa(Ipa),
    Characters,
    Mandarin(Mandarin),
    /// The case of its Latin letters.
    Japanese(Case),
}

impl Tokenizer {
    /// Reads the tokenizer `name`. One whose settings cannot be used refuses only its own texts.
    pub(super) fn read(
        name: &str,
        value: &Value,
        version: &Version,
        artefact: &dyn Fn(&str) -> Result<String, MagpieError>,
    ) -> Self {
        let read = TokenizerConfig::read(name, value, version).and_then(|config| {
            Self::of_config(&config, artefact).map_err(|error| error.of_tokenizer(name))
        });
        read.unwrap_or_else(|error| {
            let vocabulary = value.get("vocabulary").and_then(Value::as_str);
            let tokens = vocabulary.and_then(|file| artefact(file).ok());
            let size = tokens.map(|tokens| tokens.split('\n').count() as u32);
            Self::Unread { size, why: error.to_string() }
        })
    }

    fn of_config(
        config: &TokenizerConfig,
        artefact: &dyn Fn(&str) -> Result<String, MagpieError>,
    ) -> Result<Self, MagpieError> {
        let given = config.vocabulary.as_ref().map(|file| artefact(file)).transpose()?;
        let given: Option<Vec<String>> =
            given.map(|text| text.split('\n').map(str::to_owned).collect());
        let (kind, tokens) = match config.class() {
            "AutoTokenizer" => {
                let model = config.pretrained_model.as_deref().unwrap_or_default();
                if !model.contains("byt5") {
                    let why = format!("`{model}` is not a tokenizer of bytes");
                    return Err(MagpieError::bad_setting("pretrained_model", why));
                }
                return Ok(Self::Bytes);
            }
            ABSENT => {
                let bad = || MagpieError::bad_setting("size", "it is absent");
                return Ok(Self::Absent(config.size.ok_or_else(bad)?));
            }
            "IPATokenizer" => {
                let ipa = Ipa::read(config, artefact)?;
                // A parsed dictionary lacks symbols: it has one pronunciation of each word.
                let tokens = given.map_or_else(|| ipa.tokens(config), Ok)?;
                (Kind::Ipa(ipa), tokens)
            }
            "ArabicCharsTokenizer" | "HindiCharsTokenizer" => {
                (Kind::Characters, given.map_or_else(|| charsets::tokens(config), Ok)?)
            }
            "ChinesePhonemesTokenizer" => {
                let (mandarin, tokens) = Mandarin::read(config, artefact, given.as_deref())?;
                (Kind::Mandarin(mandarin), given.unwrap_or(tokens))
            }
            "JapanesePhonemeTokenizer" => {
                let case = charsets::case_in_japanese(config)?;
                let marks = punctuation(Some("ja-JP"))?;
                let tokens = given.unwrap_or_else(|| charsets::kana(config, case, &marks));
                (Kind::Japanese(case), tokens)
            }
            other => {
                let why = format!("tokenizers of the class `{other}` are not supported");
                return Err(MagpieError::bad_setting("_target_", why));
            }
        };
        // Only texts of phonemes keep each of several spaces.
        let merges = !matches!(kind, Kind::Ipa(_));
        let list = List::new(tokens, config.pad_with_space, merges);
        Ok(Self::Symbols { kind: Box::new(kind), list })
    }

    /// Number of ids; `None` if nothing tells it.
    pub(super) fn size(&self) -> Option<u32> {
        match self {
            Self::Bytes => Some(BYTE_IDS),
            Self::Symbols { list, .. } => Some(list.tokens().len() as u32),
            Self::Absent(size) => Some(*size),
            Self::Unread { size, .. } => *size,
        }
    }

    pub(super) fn is_read(&self) -> bool {
        match self {
            Self::Bytes | Self::Symbols { .. } => true,
            Self::Absent(_) | Self::Unread { .. } => false,
        }
    }

    pub(super) fn tokens(&self) -> Option<&[String]> {
        match self {
            Self::Bytes | Self::Absent(_) | Self::Unread { .. } => None,
            Self::Symbols { list, .. } => Some(list.tokens()),
        }
    }

    /// Returns the ids of a text in `language`, from 0.
    pub(super) fn encode(
        &self,
        language: &str,
        text: &str,
        tools: Tools<'_>,
    ) -> Result<Encoded, MagpieError> {
        let (kind, list) = match self {
            Self::Bytes => {
                let bytes = text.bytes().map(|byte| u32::from(byte) + FIRST_BYTE);
                let ids = bytes.chain([END_OF_BYTES]).collect();
                return Ok(Encoded { ids, dropped: Vec::new() });
            }
            Self::Absent(_) => {
                let language = language.to_owned();
                return Err(MagpieError::Language { language, known: Vec::new() });
            }
            Self::Unread { why, .. } => {
                let (language, why) = (language.to_owned(), why.clone());
                return Err(MagpieError::LanguageSettings { language, why });
            }
            Self::Symbols { kind, list } => (&**kind, list),
        };
        let lacks = |missing| MagpieError::LanguageTool { language: language.to_owned(), missing };
        match kind {
            Kind::Ipa(ipa) => Ok(list.encode(ipa.symbols(text)?)),
            Kind::Characters => {
                let unified = text.nfc().map(|c| if c == '’' { '\'' } else { c });
                Ok(list.encode(unified.map(String::from)))
            }
            Kind::Mandarin(mandarin) if !mandarin.is_complete() => Err(lacks(Tool::Syllables)),
            Kind::Mandarin(mandarin) => {
                let pinyin = tools.pinyin.ok_or_else(|| lacks(Tool::Pinyin))?;
                Ok(of_syllables(list, mandarin.symbols(text, pinyin)))
            }
            Kind::Japanese(case) => {
                let analyser = tools.open_jtalk.ok_or_else(|| lacks(Tool::Japanese))?;
                // The reference reads lower case first. So letters of mixed case are lower ones too.
                let words = analyser.words(&case.of(&text.to_lowercase()))?;
                self.words(language, &words)
            }
        }
    }

    /// Returns the ids of the words of an analyser of Japanese, from 0.
    pub(super) fn words(
        &self,
        language: &str,
        words: &[JapaneseWord],
    ) -> Result<Encoded, MagpieError> {
        let other = || MagpieError::NotJapanese { language: language.to_owned() };
        match self {
            Self::Symbols { kind, list } => {
                let Kind::Japanese(case) = **kind else { return Err(other()) };
                let marks = punctuation(Some("ja-JP"))?;
                Ok(list.encode(japanese::kana(words, &marks, case)))
            }
            Self::Unread { .. } => self.encode(language, "", Tools::default()),
            Self::Bytes | Self::Absent(_) => Err(other()),
        }
    }

    /// Returns the ids of phonemes in `language`, from 0: the tokens themselves, side by side. In Mandarin
    /// pinyin such as `ni3` stands for its phonemes.
    pub(super) fn phonemes(&self, language: &str, text: &str) -> Result<Encoded, MagpieError> {
        let none = |units| Err(MagpieError::NoPhonemes { language: language.to_owned(), units });
        match self {
            Self::Bytes => none("bytes"),
            Self::Absent(_) | Self::Unread { .. } => self.encode(language, text, Tools::default()),
            Self::Symbols { kind, list } => match &**kind {
                Kind::Characters => none("letters"),
                Kind::Mandarin(mandarin) => {
                    let text: String = text.nfc().collect();
                    if !mandarin.is_complete() && pinyin_in(&text).is_some() {
                        let (language, missing) = (language.to_owned(), Tool::Syllables);
                        return Err(MagpieError::LanguageTool { language, missing });
                    }
                    Ok(of_syllables(list, mandarin.of_phonemes(&text, list)))
                }
                Kind::Ipa(_) | Kind::Japanese(_) => Ok(list.encode(list.symbols(text))),
            },
        }
    }
}

/// Returns the ids of symbols, without unknown syllables.
fn of_syllables(list: &List, (symbols, unknown): (Vec<String>, Vec<String>)) -> Encoded {
    let mut encoded = list.encode(symbols);
    unknown.into_iter().for_each(|item| encoded.leave_out(item));
    encoded
}
