//! One tokenizer of a model.

use unicode_normalization::UnicodeNormalization as _;

use super::{
    Encoded, Tools, charsets,
    config::{ABSENT, TokenizerConfig},
    ipa::Ipa,
    japanese::{self, Word},
    list::List,
    mandarin::Mandarin,
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
}

/// The way from text to symbols.
#[derive(Debug)]
pub(super) enum Kind {
    Ipa(Ipa),
    Characters,
    Mandarin(Mandarin),
    Japanese,
}

impl Tokenizer {
    pub(super) fn read(
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
                    return Err(MagpieError::bad_setting("pretrained_model".to_owned(), why));
                }
                return Ok(Self::Bytes);
            }
            ABSENT => {
                let bad = || MagpieError::bad_setting("size".to_owned(), "it is absent".to_owned());
                return Ok(Self::Absent(config.size.ok_or_else(bad)?));
            }
            "IPATokenizer" => {
                let ipa = Ipa::read(config, artefact)?;
                let tokens = match &given {
                    // A parsed dictionary lacks symbols: it has one pronunciation of each word.
                    Some(tokens) => tokens.clone(),
                    None => ipa.tokens(config)?,
                };
                (Kind::Ipa(ipa), tokens)
            }
            "ArabicCharsTokenizer" | "HindiCharsTokenizer" => {
                (Kind::Characters, charsets::tokens(config)?)
            }
            "ChinesePhonemesTokenizer" => {
                let (mandarin, tokens) = Mandarin::read(config, artefact, given.as_deref())?;
                (Kind::Mandarin(mandarin), tokens)
            }
            "JapanesePhonemeTokenizer" => {
                (Kind::Japanese, charsets::kana(config, &punctuation(Some("ja-JP"))?)?)
            }
            other => {
                let why = format!("tokenizers of the class `{other}` are not supported");
                return Err(MagpieError::bad_setting("_target_".to_owned(), why));
            }
        };
        // Only texts of phonemes keep each of several spaces.
        let merges = !matches!(kind, Kind::Ipa(_));
        let list = List::new(given.unwrap_or(tokens), config.pad_with_space, merges);
        Ok(Self::Symbols { kind: Box::new(kind), list })
    }

    /// Number of ids.
    pub(super) fn size(&self) -> u32 {
        match self {
            Self::Bytes => BYTE_IDS,
            Self::Symbols { list, .. } => list.tokens().len() as u32,
            Self::Absent(size) => *size,
        }
    }

    pub(super) fn tokens(&self) -> Option<&[String]> {
        match self {
            Self::Bytes | Self::Absent(_) => None,
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
                let (symbols, unknown) = mandarin.symbols(text, pinyin);
                let mut encoded = list.encode(symbols);
                unknown.into_iter().for_each(|item| encoded.leave_out(item));
                Ok(encoded)
            }
            Kind::Japanese => {
                let analyser = tools.open_jtalk.ok_or_else(|| lacks(Tool::Japanese))?;
                let marks = punctuation(Some("ja-JP"))?;
                Ok(list.encode(japanese::kana(&analyser.words(text)?, &marks)))
            }
        }
    }

    /// Returns the ids of the words of an analyser; `None` if this is no tokenizer of Japanese.
    pub(super) fn words(&self, words: &[Word]) -> Result<Option<Encoded>, MagpieError> {
        match self {
            Self::Symbols { kind, list } if matches!(**kind, Kind::Japanese) => {
                let marks = punctuation(Some("ja-JP"))?;
                Ok(Some(list.encode(japanese::kana(words, &marks))))
            }
            _ => Ok(None),
        }
    }

    /// Returns the ids of phonemes in `language`, from 0: the tokens themselves, side by side.
    pub(super) fn phonemes(&self, language: &str, text: &str) -> Result<Encoded, MagpieError> {
        let none = |units| Err(MagpieError::NoPhonemes { language: language.to_owned(), units });
        match self {
            Self::Bytes => none("bytes"),
            Self::Absent(_) => self.encode(language, text, Tools::default()),
            Self::Symbols { kind, list } => match **kind {
                Kind::Characters => none("letters"),
                Kind::Ipa(_) | Kind::Mandarin(_) | Kind::Japanese => Ok(list.spelled(text)),
            },
        }
    }
}
