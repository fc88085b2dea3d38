//! Text to ids, by the tokenizer of a language.
//!
//! A model has the tokenizers of several languages. The ids of one follow those of the one before, in
//! the order of `model_config.yaml`; behind all of them come a beginning, which is never used, and an
//! end, which every text gets.
//!
//! | tokenizer | languages |
//! |---|---|
//! | `ipa` | words by dictionary: English, Spanish, German, Portuguese, Hindi |
//! | `charsets` | characters: Arabic, Hindi |
//! | bytes | French, Italian, Vietnamese, Korean |
//! | `mandarin`, `pinyin` | syllables with tones |
//! | `japanese`, `open_jtalk` | kana with pitch, from the words of an analyser |
//!
//! Source: NeMo 3.0.0, `tts_tokenizers.py`.

mod characters;
mod charsets;
mod config;
mod dictionary;
mod ipa;
mod japanese;
mod language;
mod list;
mod mandarin;
mod open_jtalk;
mod pinyin;
mod punctuation;
#[cfg(test)]
mod tests;
mod tokenizer;

use crate::magpie::MagpieError;

pub use config::TextConfig;
pub use japanese::JapaneseWord;
pub use open_jtalk::OpenJTalk;
pub use pinyin::Pinyin;

use config::Version;
use language::Mapping;
use tokenizer::Tokenizer;

/// The most symbols that are remembered as left out: each new one is compared with all of them.
pub(super) const MOST_DROPPED: usize = 1000;

/// The ids of a text, without the end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Encoded {
    /// The ids.
    pub ids: Vec<u32>,
    /// Symbols that the model does not know and that are left out, each once.
    pub dropped: Vec<String>,
}

/// Things that some languages need, and that a model does not have.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tools<'a> {
    /// The syllables of Chinese words.
    pub pinyin: Option<&'a Pinyin>,
    /// The analyser of Japanese.
    pub open_jtalk: Option<&'a OpenJTalk>,
}

/// The tokenizers of a model.
#[derive(Debug)]
pub struct Tokenizers {
    tokenizers: Vec<Named>,
    mapping: Mapping,
    size: u32,
}

#[derive(Debug)]
struct Named {
    name: String,
    offset: u32,
    tokenizer: Tokenizer,
}

impl Named {
    /// True if nothing tells its number of ids.
    fn is_open(&self) -> bool {
        self.tokenizer.size().is_none()
    }

    fn shifted(&self, mut encoded: Encoded) -> Encoded {
        encoded.ids.iter_mut().for_each(|id| *id += self.offset);
        encoded
    }
}

impl Tokenizers {
    /// Reads the tokenizers of a model; `artefact` returns the text of a file by its name in the
    /// settings.
    ///
    /// A tokenizer with a setting that is missing or that is not supported refuses only its own texts.
    ///
    /// # Errors
    /// A `language_to_tokenizer_mapping` that has other values than names.
    pub fn read(
        config: &TextConfig,
        artefact: &dyn Fn(&str) -> Result<String, MagpieError>,
    ) -> Result<Self, MagpieError> {
        let version = Version::read(config.nemo_version.as_deref());
        // The settings name members of the archive as `nemo:member`.
        let artefact = &|name: &str| artefact(name.strip_prefix("nemo:").unwrap_or(name));
        let mapping = Mapping::read(config.language_to_tokenizer_mapping.as_ref())?;
        let (mut tokenizers, mut size) = (Vec::new(), 0);
        for (name, value) in &config.text_tokenizers {
            let tokenizer = Tokenizer::read(name, value, &version, artefact);
            let offset = size;
            size += tokenizer.size().unwrap_or(0);
            tokenizers.push(Named { name: name.clone(), offset, tokenizer });
        }
        Ok(Self { tokenizers, mapping, size })
    }

    /// The id of the end: the last of all.
    pub fn end(&self) -> u32 {
        self.size + 1
    }

    /// Number of ids, with the beginning and the end: the rows of the text embedding.
    pub fn rows(&self) -> usize {
        self.size as usize + 2
    }

    /// Returns each tokenizer's name and number of ids, for a message.
    pub fn sizes(&self) -> String {
        let of = |named: &Named| match named.tokenizer.size() {
            Some(size) => format!("{} {size}", named.name),
            None => format!("{} unknown", named.name),
        };
        self.tokenizers.iter().map(of).collect::<Vec<_>>().join(", ")
    }

    /// Fits the ids to the rows of a model's text embedding: tokenizers that cannot be read have the ids that
    /// the others leave.
    ///
    /// # Errors
    /// [`MagpieError::Vocabulary`].
    pub fn fitted(mut self, rows: usize) -> Result<Self, MagpieError> {
        let first = self.tokenizers.iter().position(Named::is_open);
        let last = self.tokenizers.iter().rposition(Named::is_open);
        let open = self.tokenizers.iter().filter(|named| named.is_open()).count();
        let left = rows.checked_sub(self.rows());
        // Each of them has at least one id.
        let left = left.filter(|left| if open == 0 { *left == 0 } else { *left >= open });
        let Some(left) = left.and_then(|left| u32::try_from(left).ok()) else {
            let sizes = self.sizes();
            return Err(MagpieError::Vocabulary { rows, ours: self.rows(), sizes });
        };
        if let (Some(first), Some(last)) = (first, last) {
            let (before, behind) = self.tokenizers.split_at_mut(last + 1);
            behind.iter_mut().for_each(|named| named.offset += left);
            if let Tokenizer::Unread { why, .. } = &before[first].tokenizer {
                let why = why.clone();
                // Nothing tells the places of ids between two of them.
                for between in before[first + 1..].iter_mut().filter(|named| !named.is_open()) {
                    between.tokenizer = Tokenizer::Unread { size: None, why: why.clone() };
                }
            }
        }
        self.size += left;
        Ok(self)
    }

    /// Returns the tokens of each tokenizer that has a list.
    #[doc(hidden)]
    pub fn tokens(&self) -> impl Iterator<Item = (&str, u32, Option<&[String]>)> {
        self.tokenizers.iter().map(|named| (&*named.name, named.offset, named.tokenizer.tokens()))
    }

    /// Returns the languages that the model speaks, as far as this program can read them.
    pub fn languages(&self) -> Vec<String> {
        let names: Vec<_> = self.tokenizers.iter().map(|named| &*named.name).collect();
        let mut languages = self.mapping.languages(&names);
        languages.retain(|own| self.of_language(own).is_ok_and(|own| own.tokenizer.is_read()));
        languages
    }

    /// Returns a language as the model spells it, `pt-BR` for `pt-br` and `de` for `German`; an unknown one as
    /// it stands.
    pub fn spelling<'a>(&'a self, language: &'a str) -> &'a str {
        self.mapping.spelling(language).unwrap_or(language)
    }

    /// Returns the ids of a text.
    ///
    /// # Errors
    /// [`MagpieError::Language`] for a language that the model does not have;
    /// [`MagpieError::LanguageTool`] and [`MagpieError::LanguageSettings`] for one that this program cannot
    /// read.
    pub fn encode(
        &self,
        language: &str,
        text: &str,
        tools: Tools<'_>,
    ) -> Result<Encoded, MagpieError> {
        let own = self.of_language(language)?;
        Ok(own.shifted(own.tokenizer.encode(language, text, tools)?))
    }

    /// Returns the ids of phonemes: the tokens of the language side by side, such as `həˈloʊ`. In Mandarin
    /// they are phonemes and `#1` to `#5`, or pinyin such as `ni3 hao3`; in Japanese kana with `0` or `1`
    /// before each mora.
    ///
    /// # Errors
    /// [`MagpieError::Language`]; [`MagpieError::NoPhonemes`] for a language of bytes or letters.
    pub fn phonemes(&self, language: &str, phonemes: &str) -> Result<Encoded, MagpieError> {
        let own = self.of_language(language)?;
        Ok(own.shifted(own.tokenizer.phonemes(language, phonemes)?))
    }

    /// Returns the ids of the words of OpenJTalk's front end.
    ///
    /// # Errors
    /// [`MagpieError::Language`]; [`MagpieError::NotJapanese`] for another language.
    pub fn words(&self, language: &str, words: &[JapaneseWord]) -> Result<Encoded, MagpieError> {
        let own = self.of_language(language)?;
        Ok(own.shifted(own.tokenizer.words(language, words)?))
    }

    /// Checks that texts of a language can be read.
    ///
    /// # Errors
    /// As [`Self::encode`].
    pub fn check(&self, language: &str, tools: Tools<'_>) -> Result<(), MagpieError> {
        self.encode(language, "", tools).map(drop)
    }

    fn of_language(&self, language: &str) -> Result<&Named, MagpieError> {
        let names: Vec<_> = self.tokenizers.iter().map(|named| &*named.name).collect();
        let name = self.mapping.tokenizer_of(language, &names);
        let position = name.and_then(|name| names.iter().position(|other| *other == name));
        let absent =
            || MagpieError::Language { language: language.to_owned(), known: self.languages() };
        position.map(|index| &self.tokenizers[index]).ok_or_else(absent)
    }
}
