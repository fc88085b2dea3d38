//! Tables that are built once per vocabulary.

use std::collections::BTreeMap;

use super::{
    Field,
    fixed::FixedTexts,
    tries::{self, Trie},
};
use crate::lm::vocabulary::{Vocabulary, VocabularyError};

/// Tables for all machines of a vocabulary.
pub struct Grammar<'a> {
    pub(super) vocabulary: &'a Vocabulary<'a>,
    pub(super) fixed: FixedTexts,
    tries: BTreeMap<Field, Trie>,
    /// Tokens of the digits.
    pub(super) digits: [u32; 10],
}

impl<'a> Grammar<'a> {
    /// Builds the tables. Durations in plans are 10 to `max_seconds`; upstream's limit is 600.
    ///
    /// # Errors
    /// If the tokenizer cannot write a name or a digit.
    pub fn new(vocabulary: &'a Vocabulary<'a>, max_seconds: u32) -> Result<Self, VocabularyError> {
        let tokenizer = vocabulary.tokenizer();
        let mut digits = [0; 10];
        for (digit, token) in ('0'..='9').zip(&mut digits) {
            let text = digit.to_string();
            *token = *tokenizer.encode(&text).last().ok_or(VocabularyError::Unwritable { text })?;
        }
        let fixed = FixedTexts::new(tokenizer)?;
        Ok(Self { vocabulary, fixed, tries: tries::of_fields(vocabulary, max_seconds), digits })
    }

    /// Returns the vocabulary.
    pub fn vocabulary(&self) -> &'a Vocabulary<'a> {
        self.vocabulary
    }

    /// Returns each prefix of a value of `field` with the tokens that may follow it, both in
    /// ascending order; `None` for a text field. The newline follows a complete value.
    pub fn beginnings(&self, field: Field) -> Option<Vec<(Vec<u32>, Vec<u32>)>> {
        self.trie(field).map(Trie::prefixes)
    }

    /// Returns the prefix tree of `field`; `None` for a text field.
    pub(super) fn trie(&self, field: Field) -> Option<&Trie> {
        self.tries.get(&field)
    }
}
