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
pub use japanese::Word;
pub use language::tokenizer_of;
pub use open_jtalk::OpenJTalk;
pub use pinyin::Pinyin;

use config::{TokenizerConfig, Version};
use language::Mapping;
use tokenizer::Tokenizer;

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
    mapping: Option<Mapping>,
    size: u32,
}

#[derive(Debug)]
struct Named {
    name: String,
    offset: u32,
    tokenizer: Tokenizer,
}

impl Named {
    fn shifted(&self, mut encoded: Encoded) -> Encoded {
        encoded.ids.iter_mut().for_each(|id| *id += self.offset);
        encoded
    }
}

impl Tokenizers {
    /// Reads the tokenizers of a model; `artefact` returns the text of a file by its name in the
    /// settings.
    ///
    /// # Errors
    /// The errors of `artefact`; a setting that is missing or that is not supported.
    pub fn read(
        config: &TextConfig,
        artefact: &dyn Fn(&str) -> Result<String, MagpieError>,
    ) -> Result<Self, MagpieError> {
        let version = Version::read(config.nemo_version.as_deref());
        // The settings name members of the archive as `nemo:member`.
        let artefact = &|name: &str| artefact(name.strip_prefix("nemo:").unwrap_or(name));
        let mapping =
            config.language_to_tokenizer_mapping.as_ref().map(Mapping::read).transpose()?;
        let (mut tokenizers, mut size) = (Vec::new(), 0);
        for (name, value) in &config.text_tokenizers {
            let own = TokenizerConfig::read(name, value, &version)?;
            let tokenizer =
                Tokenizer::read(&own, artefact).map_err(|error| error.of_tokenizer(name))?;
            let offset = size;
            size += tokenizer.size();
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
        let of = |named: &Named| format!("{} {}", named.name, named.tokenizer.size());
        self.tokenizers.iter().map(of).collect::<Vec<_>>().join(", ")
    }

    /// Checks the number of ids against the rows of a model's text embedding.
    ///
    /// # Errors
    /// [`MagpieError::Vocabulary`].
    pub fn check_rows(&self, rows: usize) -> Result<(), MagpieError> {
        match self.rows() == rows {
            true => Ok(()),
            false => {
                let sizes = self.sizes();
                Err(MagpieError::Vocabulary { rows, ours: self.rows(), sizes })
            }
        }
    }

    /// Returns the tokens of each tokenizer that has a list.
    #[doc(hidden)]
    pub fn tokens(&self) -> impl Iterator<Item = (&str, u32, Option<&[String]>)> {
        self.tokenizers.iter().map(|named| (&*named.name, named.offset, named.tokenizer.tokens()))
    }

    /// Returns the languages that the model speaks, as far as this program can read them.
    pub fn languages(&self) -> Vec<String> {
        let names: Vec<_> = self.tokenizers.iter().map(|named| &*named.name).collect();
        match &self.mapping {
            Some(mapping) => mapping.languages(&names),
            None => language::known_languages(&names),
        }
    }

    /// Returns the ids of a text.
    ///
    /// # Errors
    /// [`MagpieError::Language`] for a language that the model does not have;
    /// [`MagpieError::LanguageTool`] for one that this program cannot read.
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
    /// they are phonemes and `#1` to `#5`, in Japanese kana with `0` or `1` before each mora.
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
    pub fn words(&self, language: &str, words: &[Word]) -> Result<Encoded, MagpieError> {
        let own = self.of_language(language)?;
        let other = || MagpieError::NotJapanese { language: language.to_owned() };
        Ok(own.shifted(own.tokenizer.words(words)?.ok_or_else(other)?))
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
        let name = match &self.mapping {
            Some(mapping) => mapping.tokenizer_of(language, &names),
            None => language::tokenizer_of(language, &names),
        };
        let position = name.and_then(|name| names.iter().position(|other| *other == name));
        let absent =
            || MagpieError::Language { language: language.to_owned(), known: self.languages() };
        position.map(|index| &self.tokenizers[index]).ok_or_else(absent)
    }
}
