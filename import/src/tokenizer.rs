//! The text encoder's tokenizer: Qwen's byte-level BPE, which appends one `<|endoftext|>`.
//!
//! Read from `tokenizer.json`, or assembled from `vocab.json` and `merges.txt` if that is missing.
//! The language model's tokenizer is read in the same way.
//!
//! Source: Qwen3-Embedding-0.6B `tokenizer.json`; Hugging Face tokenizers.

use std::path::PathBuf;

use rayon::prelude::*;
use tokenizers::{
    DecoderWrapper, Model as _, NormalizerWrapper, PostProcessorWrapper, PreTokenizerWrapper,
    SplitDelimiterBehavior, Tokenizer, TokenizerImpl,
    models::bpe::BPE,
    pre_tokenizers::{
        byte_level::ByteLevel,
        sequence::Sequence,
        split::{Split, SplitPattern},
    },
};

use crate::{Directory, Error, Network};

mod assemble;

pub(crate) use assemble::ADDED_TOKENS;

/// Token that the text encoder appends; the first token after the base vocabulary.
pub(crate) const END_OF_TEXT: &str = "<|endoftext|>";

/// Number of audio code tokens in the released models; 64000 of them are used.
pub(crate) const AUDIO_CODES: usize = 65_535;

/// The first audio code token, which no other tokenizer has.
pub(crate) const AUDIO_CODE_0: &str = "<|audio_code_0|>";

pub(crate) fn audio_code(code: usize) -> String {
    format!("<|audio_code_{code}|>")
}

/// The tokenizer of the text encoder.
#[derive(Debug)]
pub struct TextTokenizer {
    inner: Tokenizer,
    end_of_text: u32,
}

impl TextTokenizer {
    /// Reads the tokenizer in `directory`.
    ///
    /// # Errors
    /// [`Error::MissingFile`]; [`Error::BadTokenizer`] if it cannot be read or does not append
    /// exactly one `<|endoftext|>`.
    pub fn open(directory: &Directory) -> Result<Self, Error> {
        let (path, inner) = read(directory, Owner::TextEncoder)?;
        let bad = |reason| Owner::TextEncoder.error(path.clone(), reason);
        let end_of_text = inner
            .token_to_id(END_OF_TEXT)
            .ok_or_else(|| bad(format!("it has no token `{END_OF_TEXT}`")))?;
        let this = Self { inner, end_of_text };
        let empty = this.encode("").map_err(bad)?;
        if empty != [end_of_text] {
            return Err(bad(format!(
                "it turns the empty text into {empty:?} instead of [{end_of_text}] (`{END_OF_TEXT}`)"
            )));
        }
        Ok(this)
    }

    /// Returns the token ids of `text` with `<|endoftext|>` last; truncation to `max_tokens` keeps
    /// it.
    ///
    /// # Panics
    /// If `max_tokens` is 0: there is no room for `<|endoftext|>`.
    ///
    /// # Errors
    /// The tokenizer's error, as text.
    pub fn token_ids(&self, text: &str, max_tokens: usize) -> Result<Vec<u32>, String> {
        assert!(max_tokens > 0, "a limit of 0 tokens leaves no place for `{END_OF_TEXT}`");
        let mut ids = self.encode(text)?;
        if ids.len() > max_tokens {
            ids.truncate(max_tokens - 1);
            ids.push(self.end_of_text);
        }
        Ok(ids)
    }

    /// Decodes `ids`, including special tokens. An unknown id has no text, and an incomplete
    /// character is U+FFFD.
    ///
    /// # Errors
    /// The tokenizer's error, as text.
    pub fn text_of(&self, ids: &[u32]) -> Result<String, String> {
        self.inner.decode(ids, false).map_err(|error| error.to_string())
    }

    /// Returns the id of `<|endoftext|>`, which is also the padding token.
    pub fn end_of_text(&self) -> u32 {
        self.end_of_text
    }

    /// Returns the number of ids: the largest id plus one.
    pub fn vocabulary(&self) -> usize {
        vocabulary(&self.inner)
    }

    fn encode(&self, text: &str) -> Result<Vec<u32>, String> {
        let encoding = self.inner.encode_fast(text, true).map_err(|error| error.to_string())?;
        Ok(encoding.get_ids().to_vec())
    }
}

/// Network of a tokenizer; both networks share one vocabulary but use it differently.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Owner {
    /// Appends `<|endoftext|>`.
    TextEncoder,
    /// Appends nothing, and has as many audio codes as the embedding table has `rows` for.
    LanguageModel { rows: usize },
    /// Appends nothing. Its added tokens are listed in `tokenizer_config.json`.
    Talker { fix_mistral_regex: bool },
    /// Appends nothing. Read from `tokenizer.json` alone.
    Dialogue,
}

impl Owner {
    /// Returns the error for the file at `path`.
    pub(crate) fn error(self, path: PathBuf, reason: String) -> Error {
        let part = match self {
            Self::TextEncoder => Network::TextEncoder.name(),
            Self::LanguageModel { .. } => Network::LanguageModel.name(),
            Self::Talker { .. } => "talker",
            Self::Dialogue => "dialogue model",
        };
        Error::BadTokenizer { path, part, reason }
    }
}

/// Reads the tokenizer in `directory`, and returns it with the path of its file.
pub(crate) fn read(directory: &Directory, owner: Owner) -> Result<(PathBuf, Tokenizer), Error> {
    let (file, inner) = if directory.has("tokenizer.json") {
        let file = "tokenizer.json";
        (file, parse(&directory.text(file)?))
    } else if directory.has("vocab.json") && directory.has("merges.txt") {
        ("vocab.json", Ok(assemble::tokenizer(directory, owner)?))
    } else if let Directory::Foreign(foreign) = directory {
        return Err((foreign.missing)(foreign));
    } else {
        let alternatives = ", and so are `vocab.json` and `merges.txt`".to_owned();
        return Err(Error::MissingFile { path: directory.path("tokenizer.json"), alternatives });
    };
    let path = directory.path(file);
    let bad = |reason| owner.error(path.clone(), reason);
    let mut inner = inner.map_err(bad)?;
    // Ignore truncation and padding of the file; the caller decides about lengths.
    inner.with_padding(None);
    inner.with_truncation(None).map_err(|error| bad(error.to_string()))?;
    if let Owner::Talker { fix_mistral_regex: true } = owner {
        let pattern = SplitPattern::Regex(assemble::SPLIT_FIXED.to_owned());
        let split = Split::new(pattern, SplitDelimiterBehavior::Isolated, false)
            .map_err(|error| bad(error.to_string()))?;
        let bytes = ByteLevel::new(false, false, false);
        inner.with_pre_tokenizer(Some(Sequence::new(vec![split.into(), bytes.into()])));
    }
    Ok((path, inner))
}

/// A tokenizer whose model is a BPE.
type Bpe = TokenizerImpl<
    BPE,
    NormalizerWrapper,
    PreTokenizerWrapper,
    PostProcessorWrapper,
    DecoderWrapper,
>;

/// Reads a `tokenizer.json`. The type that takes every model copies the vocabulary twice: Qwen's takes 0.2 s in
/// place of 0.13.
fn parse(text: &str) -> Result<Tokenizer, String> {
    let other = |_| Tokenizer::from_bytes(text);
    serde_json::from_str::<Bpe>(text).map(Tokenizer::from).or_else(other).map_err(|e| e.to_string())
}

/// Returns the number of ids of `tokenizer`: the largest id plus one.
pub(crate) fn vocabulary(tokenizer: &Tokenizer) -> usize {
    let (model, count) = (tokenizer.get_model(), tokenizer.get_vocab_size(false));
    // A vocabulary without gaps is told by looking at each id, which is faster than to copy its texts.
    let own = match (0..count as u32).into_par_iter().all(|id| model.id_to_token(id).is_some()) {
        true => count,
        false => model.get_vocab().into_values().max().map_or(0, |id| id as usize + 1),
    };
    let added = tokenizer.get_added_tokens_decoder();
    added.into_keys().max().map_or(own, |id| own.max(id as usize + 1))
}

#[cfg(test)]
mod tests;
