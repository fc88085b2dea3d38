//! Texts that the model has no choice about, token by token.

use acestep_model::Tokenizer;

use super::State;
use crate::lm::vocabulary::VocabularyError;

/// Which token each fixed text goes on with, from each of its characters.
///
/// It is the one that stands for the longest beginning of the rest. That is not always how the
/// tokenizer cuts the whole text: Qwen's takes `bpm:` for `b`, `pm`, `:`, but this gives `bp`, `m`,
/// `:`. The model has learnt the former, but upstream feeds it the latter; so do we.
#[derive(Debug, Clone)]
pub(super) struct FixedTexts(Vec<(State, Vec<u32>)>);

impl FixedTexts {
    /// # Errors
    /// If a text has a character that no token begins with: a tokenizer over bytes has them all.
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

    /// The token that `state` goes on with after `written` characters, all ASCII.
    pub(super) fn next(&self, state: State, written: usize) -> Option<u32> {
        let (_, tokens) = self.0.iter().find(|(fixed, _)| *fixed == state)?;
        tokens.get(written).copied()
    }
}

/// The token that is the longest beginning of `text`, which is ASCII.
// ANCHOR: longest_token
fn longest_token(tokenizer: &dyn Tokenizer, text: &str) -> Option<u32> {
    (1..=text.len()).rev().find_map(|end| match tokenizer.encode(&text[..end])[..] {
        [token] => Some(token),
        _ => None,
    })
}
// ANCHOR_END: longest_token
