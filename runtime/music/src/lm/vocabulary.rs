//! Special tokens of the vocabulary.

use std::{cell::OnceCell, ops::Range};

use acestep_model::Tokenizer;

use super::constrain::genres::TokenTexts;

/// Number of valid codes: indices into the codebook.
///
/// Released tokenizers have 65535 code tokens; those from here on have no entry in the codebook.
pub const MOST_CODES: u32 = 64_000;

/// Error for a tokenizer that does not fit the language model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what most fields hold")]
pub enum VocabularyError {
    /// A special token is missing.
    #[error("the tokenizer has no token `{content}`")]
    Missing { content: String },
    /// A required text cannot be written token by token.
    #[error("the tokenizer has no single token for any beginning of {text:?}")]
    Unwritable { text: String },
    /// The code tokens are not contiguous.
    #[error(
        "the tokenizer's codes do not follow one another: `<|audio_code_0|>` is token {first}, \
         `<|audio_code_{code}|>` is {found}"
    )]
    ScatteredCodes { first: u32, code: u32, found: u32 },
}

/// A tokenizer with its special tokens.
///
/// Source: upstream `_precompute_tokens`.
pub struct Vocabulary<'a> {
    tokenizer: &'a dyn Tokenizer,
    /// `"\n"`, which ends a field.
    pub newline: u32,
    /// `<|im_end|>`, which ends the answer.
    pub end: u32,
    /// `<|endoftext|>`, which pads the shorter rows of a batch and also ends the answer.
    pub pad: u32,
    /// `` ` ``, which would begin a code block in a caption.
    pub backtick: u32,
    /// `</think>`, which may be several tokens.
    pub think_end: Vec<u32>,
    size: u32,
    codes: Range<u32>,
    texts: OnceCell<TokenTexts>,
}

impl<'a> Vocabulary<'a> {
    /// Looks up the special tokens; of the rest it reads only the codes.
    ///
    /// # Errors
    /// If a special token is missing, or the ids of the codes are not contiguous.
    pub fn new(tokenizer: &'a dyn Tokenizer) -> Result<Self, VocabularyError> {
        // As upstream, take the last token of such a text.
        let last = |text: &str| {
            let unwritable = || VocabularyError::Unwritable { text: text.to_owned() };
            tokenizer.encode(text).last().copied().ok_or_else(unwritable)
        };
        // `<think>` is written as one token.
        special(tokenizer, "<think>")?;
        Ok(Self {
            tokenizer,
            newline: last("\n")?,
            end: special(tokenizer, "<|im_end|>")?,
            pad: special(tokenizer, "<|endoftext|>")?,
            backtick: last("`")?,
            think_end: tokenizer.encode("</think>"),
            size: tokenizer.vocabulary() as u32,
            codes: codes(tokenizer)?,
            texts: OnceCell::new(),
        })
    }

    /// Returns the tokenizer.
    pub fn tokenizer(&self) -> &'a dyn Tokenizer {
        self.tokenizer
    }

    /// Returns the number of tokens.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Returns the tokens of the codes: code `n` is the `n`-th of them.
    pub fn codes(&self) -> Range<u32> {
        self.codes.clone()
    }

    /// Returns the code of `token`, if it is a code.
    pub fn code_of_token(&self, token: u32) -> Option<u32> {
        self.codes.contains(&token).then(|| token - self.codes.start)
    }

    /// True if `token` ends the answer.
    pub fn is_last(&self, token: u32) -> bool {
        token == self.end || token == self.pad
    }

    /// Returns the text of every token, built on first use: only the genres need it.
    pub(super) fn texts(&self) -> &TokenTexts {
        self.texts.get_or_init(|| TokenTexts::new(self.tokenizer))
    }
}

/// Returns the id of a token, which must be in the vocabulary.
fn special(tokenizer: &dyn Tokenizer, content: &str) -> Result<u32, VocabularyError> {
    let missing = || VocabularyError::Missing { content: content.to_owned() };
    tokenizer.id_of(content).ok_or_else(missing)
}

/// Returns the ids of `<|audio_code_0|>` and the following codes, at most [`MOST_CODES`].
fn codes(tokenizer: &dyn Tokenizer) -> Result<Range<u32>, VocabularyError> {
    let content = |code: u32| format!("<|audio_code_{code}|>");
    let first = special(tokenizer, &content(0))?;
    let mut codes = first..first + 1;
    // A tokenizer cannot have more codes than ids.
    for code in 1..MOST_CODES.min(tokenizer.vocabulary() as u32) {
        match tokenizer.id_of(&content(code)) {
            None => {}
            Some(id) if id == codes.end && id == first + code => codes.end += 1,
            Some(found) => return Err(VocabularyError::ScatteredCodes { first, code, found }),
        }
    }
    Ok(codes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_goldens::{Words, tokenizer};

    const SPECIAL: [&str; 6] =
        ["\n", "`", "<|im_end|>", "<|endoftext|>", "<think>", "<|audio_code_0|>"];

    fn refusal(words: Vec<&'static str>) -> String {
        Vocabulary::new(&Words(words)).err().expect("a refusal").to_string()
    }

    /// Golden: `prefix_trees_tiny.json` and the ids in the checkpoint's `tokenizer.json`.
    #[test]
    fn the_tiny_vocabulary_has_512_codes_at_its_end() {
        let tokenizer = tokenizer();
        let vocabulary = Vocabulary::new(&tokenizer).expect("complete");
        assert_eq!((vocabulary.newline, vocabulary.end, vocabulary.pad), (198, 422, 420));
        assert_eq!(vocabulary.think_end.len(), 1);
        assert_eq!(vocabulary.codes(), 446..958);
        assert_eq!(vocabulary.code_of_token(445), None);
        assert_eq!(vocabulary.code_of_token(449), Some(3));
    }

    #[test]
    fn what_a_tokenizer_lacks_is_named() {
        for lacking in SPECIAL {
            let error = refusal(SPECIAL.into_iter().filter(|word| *word != lacking).collect());
            let named = [format!("`{lacking}`"), format!("{lacking:?}")];
            assert!(named.iter().any(|name| error.contains(name)), "{error}");
        }
    }

    #[test]
    fn codes_that_do_not_follow_one_another_are_refused() {
        for (more, message) in [
            (["x", "<|audio_code_1|>"], "is token 5, `<|audio_code_1|>` is 7"),
            (["<|audio_code_2|>", "<|audio_code_1|>"], "is token 5, `<|audio_code_1|>` is 7"),
            (["x", "<|audio_code_2|>"], "is token 5, `<|audio_code_2|>` is 7"),
        ] {
            let error = refusal([&SPECIAL[..], &more[..]].concat());
            assert!(error.contains(message), "{error}");
        }
    }
}
