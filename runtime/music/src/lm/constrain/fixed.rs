//! Fixed texts, token by token.

use acestep_model::Tokenizer;

use super::State;
use crate::lm::vocabulary::VocabularyError;

/// The next token of each fixed text, for each start position.
///
/// It is the token with the longest prefix of the rest. This can differ from the tokenizer's result
/// for the whole text: Qwen's splits `bpm:` into `b`, `pm`, `:`, but this gives `bp`, `m`, `:`. The
/// model was trained on the former, but upstream feeds it the latter, and so do we.
#[derive(Debug, Clone)]
pub(super) struct FixedTexts(Vec<(State, Vec<u32>)>);

impl FixedTexts {
    /// # Errors
    /// If no token begins with a character of a text; a byte-level tokenizer has them all.
    pub(super) fn new(tokenizer: &dyn Tokenizer) -> Result<Self, VocabularyError> {
        let texts = State::fixed().filter_map(|state| Some((state, state.fixed_text()?)));
        texts
            .map(|(state, text)| {
                let unwritable = || VocabularyError::Unwritable { text: text.to_owned() };
                let next = |at| longest_token(tokenizer, &text[at..]).ok_or_else(unwritable);
                Ok((state, (0..text.len()).map(next).collect::<Result<_, _>>()?))
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Returns the next token of `state` after `written` characters, all ASCII.
    pub(super) fn next(&self, state: State, written: usize) -> Option<u32> {
        let (_, tokens) = self.0.iter().find(|(fixed, _)| *fixed == state)?;
        tokens.get(written).copied()
    }
}

/// Returns the token of the longest prefix of `text`, which is ASCII.
// ANCHOR: longest_token
fn longest_token(tokenizer: &dyn Tokenizer, text: &str) -> Option<u32> {
    (1..=text.len()).rev().find_map(|end| match tokenizer.encode(&text[..end])[..] {
        [token] => Some(token),
        _ => None,
    })
}
// ANCHOR_END: longest_token
