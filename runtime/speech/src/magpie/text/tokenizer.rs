//! One tokenizer of a model.

use std::collections::HashMap;

use unicode_normalization::UnicodeNormalization as _;

use super::{
    Encoded, charsets, config::TokenizerConfig, ipa::Ipa, mandarin::Mandarin, pinyin::Pinyin,
    punctuation::punctuation,
};
use crate::magpie::MagpieError;

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
        let (kind, tokens) = match config.class() {
            "AutoTokenizer" => {
                let model = config.pretrained_model.as_deref().unwrap_or_default();
                if !model.contains("byt5") {
                    let why = format!("`{model}` is not a tokenizer of bytes");
                    return Err(MagpieError::bad_setting("pretrained_model".to_owned(), why));
                }
                return Ok(Self::Bytes);
            }
            "IPATokenizer" => {
                let (ipa, tokens) = Ipa::read(config, artefact)?;
                (Kind::Ipa(ipa), tokens)
            }
            "ArabicCharsTokenizer" | "HindiCharsTokenizer" => {
                (Kind::Characters, charsets::tokens(config)?)
            }
            "ChinesePhonemesTokenizer" => {
                let (mandarin, tokens) = Mandarin::read(config, artefact)?;
                (Kind::Mandarin(mandarin), tokens)
            }
            "JapanesePhonemeTokenizer" => {
                (Kind::Japanese, charsets::kana(config, &punctuation(Some("ja-JP"))?))
            }
            other => {
                let why = format!("tokenizers of the class `{other}` are not supported");
                return Err(MagpieError::bad_setting("_target_".to_owned(), why));
            }
        };
        // Only texts of phonemes keep each of several spaces.
        let merges = !matches!(kind, Kind::Ipa(_));
        let list = List::new(tokens, config.pad_with_space, merges);
        Ok(Self::Symbols { kind: Box::new(kind), list })
    }

    /// Number of ids.
    pub(super) fn size(&self) -> u32 {
        match self {
            Self::Bytes => BYTE_IDS,
            Self::Symbols { list, .. } => list.tokens.len() as u32,
        }
    }

    pub(super) fn tokens(&self) -> Option<&[String]> {
        match self {
            Self::Bytes => None,
            Self::Symbols { list, .. } => Some(&list.tokens),
        }
    }

    /// Returns the ids of a text, from 0.
    pub(super) fn encode(
        &self,
        text: &str,
        pinyin: Option<&Pinyin>,
    ) -> Result<Encoded, MagpieError> {
        let Self::Symbols { kind, list } = self else {
            let bytes = text.bytes().map(|byte| u32::from(byte) + FIRST_BYTE);
            let ids = bytes.chain([END_OF_BYTES]).collect();
            return Ok(Encoded { ids, dropped: Vec::new() });
        };
        match &**kind {
            Kind::Ipa(ipa) => Ok(list.encode(ipa.symbols(text)?)),
            Kind::Characters => {
                let unified = text.nfc().map(|c| if c == '’' { '\'' } else { c });
                Ok(list.encode(unified.map(String::from)))
            }
            Kind::Mandarin(mandarin) => {
                let pinyin = pinyin.ok_or(MagpieError::LanguageTool {
                    language: "zh",
                    missing: "a table of pinyin",
                    is_pinyin: true,
                })?;
                let (symbols, unknown) = mandarin.symbols(text, pinyin);
                let mut encoded = list.encode(symbols);
                for item in unknown {
                    encoded.drop(item);
                }
                Ok(encoded)
            }
            Kind::Japanese => Err(MagpieError::LanguageTool {
                language: "ja",
                missing: "an analyser of Japanese",
                is_pinyin: false,
            }),
        }
    }
}

impl Encoded {
    fn drop(&mut self, symbol: String) {
        if !self.dropped.contains(&symbol) {
            self.dropped.push(symbol);
        }
    }
}

/// A list of tokens.
#[derive(Debug)]
pub(super) struct List {
    tokens: Vec<String>,
    /// The last position of each token: some lists have a token twice.
    ids: HashMap<String, u32>,
    has_space_around: bool,
    merges_spaces: bool,
}

impl List {
    fn new(tokens: Vec<String>, has_space_around: bool, merges_spaces: bool) -> Self {
        let ids = tokens.iter().cloned().zip(0..).collect();
        Self { tokens, ids, has_space_around, merges_spaces }
    }

    /// Returns the ids of symbols; unknown ones and spaces at the end are left out.
    pub(super) fn encode(&self, symbols: impl IntoIterator<Item = String>) -> Encoded {
        let space = self.ids.get(" ").copied();
        let mut encoded = Encoded::default();
        for symbol in symbols {
            match self.ids.get(&symbol).copied() {
                id if id == space && id.is_some() && self.merges_spaces => {
                    let last = encoded.ids.last().copied();
                    if last.is_some() && last != space {
                        encoded.ids.extend(id);
                    }
                }
                Some(id) => encoded.ids.push(id),
                None => encoded.drop(symbol),
            }
        }
        while !encoded.ids.is_empty() && encoded.ids.last().copied() == space {
            encoded.ids.pop();
        }
        if let Some(space) = space.filter(|_| self.has_space_around && !encoded.ids.is_empty()) {
            encoded.ids.insert(0, space);
            encoded.ids.push(space);
        }
        encoded
    }
}
