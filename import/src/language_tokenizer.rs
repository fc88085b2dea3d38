//! The language model's tokenizer: the text encoder's vocabulary and a token for each audio code.
//!
//! Nothing is appended. Special tokens in a text are one id each, and decoding writes them out
//! again.
//!
//! Source: acestep-5Hz-lm-1.7B `tokenizer.json`, whose last token is `<|audio_code_65534|>`.

use acestep_model as model;
use tokenizers::{DecoderWrapper, ModelWrapper, Tokenizer, pre_tokenizers::byte_level::ByteLevel};

use crate::{
    Directory, Error,
    tokenizer::{AUDIO_CODE_0, Owner, read, vocabulary},
};

/// The tokenizer of a language model.
#[derive(Debug)]
pub struct LanguageTokenizer {
    inner: Tokenizer,
    vocabulary: usize,
}

impl LanguageTokenizer {
    /// Reads the tokenizer in `directory`, for a network whose embedding table has `rows` rows.
    ///
    /// Without a tokenizer.json, the number of audio codes is the number of remaining rows.
    ///
    /// # Errors
    /// [`Error::MissingFile`]; [`Error::BadTokenizer`] if it cannot be read, is no byte-level BPE,
    /// has no audio codes, or has more ids than rows.
    pub fn open(directory: &Directory, rows: usize) -> Result<Self, Error> {
        let owner = Owner::LanguageModel { rows };
        Self::open_as(directory, owner, rows, Some(AUDIO_CODE_0))
    }

    /// Reads the tokenizer of a talker, for a network whose text table has `rows` rows.
    ///
    /// # Errors
    /// As [`Self::open`], without audio codes.
    pub fn open_of_talker(
        directory: &Directory,
        rows: usize,
        fix_mistral_regex: bool,
    ) -> Result<Self, Error> {
        Self::open_as(directory, Owner::Talker { fix_mistral_regex }, rows, None)
    }

    /// Reads the `tokenizer.json` of a dialogue model, for a network whose text table has `rows` rows.
    /// Its vocabulary may lack bytes that its training texts never had: they have no ids.
    pub(crate) fn open_of_dialogue(directory: &Directory, rows: usize) -> Result<Self, Error> {
        let file = "tokenizer.json";
        if !directory.has(file) {
            let path = directory.path(file);
            return Err(Error::MissingFile { path, alternatives: String::new() });
        }
        Self::open_as(directory, Owner::Dialogue, rows, None)
    }

    /// Reads the tokenizer of `owner`, which must have the token `needed`.
    fn open_as(
        directory: &Directory,
        owner: Owner,
        rows: usize,
        needed: Option<&str>,
    ) -> Result<Self, Error> {
        let (path, inner) = read(directory, owner)?;
        let bad = |reason| Err(owner.error(path, reason));
        // With these checks, encoding and decoding cannot fail later.
        let plain = matches!(inner.get_model(), ModelWrapper::BPE(bpe)
            if bpe.unk_token.is_none() && bpe.dropout.is_none());
        if !plain || !matches!(inner.get_decoder(), Some(DecoderWrapper::ByteLevel(_))) {
            return bad("it is not a byte-level BPE as Qwen's".to_owned());
        }
        let id_of = |letter: &char| inner.token_to_id(letter.encode_utf8(&mut [0; 4]));
        let may_lack_bytes = matches!(owner, Owner::Dialogue);
        if !may_lack_bytes && ByteLevel::alphabet().iter().any(|letter| id_of(letter).is_none()) {
            return bad("it has no token for some single byte".to_owned());
        }
        if let Some(token) = needed.filter(|token| inner.token_to_id(token).is_none()) {
            return bad(format!("it has no token `{token}`"));
        }
        let vocabulary = vocabulary(&inner);
        if vocabulary > rows {
            return bad(format!(
                "it has {vocabulary} ids, but the network has {rows} rows for them"
            ));
        }
        Ok(Self { inner, vocabulary })
    }
}

impl model::Tokenizer for LanguageTokenizer {
    fn encode(&self, text: &str) -> Vec<u32> {
        let encoding = self.inner.encode_fast(text, false);
        encoding.expect("a BPE without an unknown token has ids for every text").get_ids().into()
    }

    fn decode(&self, ids: &[u32]) -> String {
        self.inner.decode(ids, false).expect("a byte-level decoder has a text for all bytes")
    }

    fn id_of(&self, content: &str) -> Option<u32> {
        // This lookup is fast, and it is used for every audio code.
        if let Some(id) = self.inner.get_added_vocabulary().get_vocab().get(content) {
            return Some(*id);
        }
        match self.encode(content)[..] {
            [id] => Some(id),
            _ => None,
        }
    }

    fn vocabulary(&self) -> usize {
        self.vocabulary
    }
}

#[cfg(test)]
mod tests;
