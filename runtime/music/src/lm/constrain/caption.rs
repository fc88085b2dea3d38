//! The caption, which is free text until the model begins the next field.
//!
//! A caption may have several lines; later lines are indented. If a line begins with another
//! character, the model writes freely up to a colon. The machine then continues with the value of
//! the named field. So fields can be left out, as in upstream. After an unknown name comes
//! `duration:`.

use super::{Field, State};
use crate::lm::{sample::Scores, vocabulary::Vocabulary};

/// Most tokens of a caption.
const MOST_TOKENS: usize = 512;

/// Progress within the caption.
#[derive(Debug, Clone, Default)]
pub(super) struct Caption {
    tokens: usize,
    /// True if the last token ended a line.
    after_newline: bool,
    /// Name of the next field so far; `None` within the caption.
    ending: Option<String>,
}

impl Caption {
    /// Forbids tokens that a caption cannot have.
    pub(super) fn constrain(&mut self, vocabulary: &Vocabulary<'_>, scores: &mut Scores) {
        // ANCHOR: caption_ends
        if std::mem::take(&mut self.after_newline) {
            // As in upstream, the most likely token decides, even if another one is drawn.
            let text = scores.best().map(|token| vocabulary.tokenizer().decode(&[token]));
            let indents = |c: char| c == ' ' || c == '\t';
            if text.and_then(|text| text.chars().next()).is_some_and(|c| !indents(c)) {
                self.ending = Some(String::new());
            }
        }
        // ANCHOR_END: caption_ends
        if self.ending.is_some() {
            return;
        }
        if self.tokens >= MOST_TOKENS {
            scores.allow_only(&[vocabulary.newline]);
            return;
        }
        scores.forbid(vocabulary.backtick);
        // As in upstream, code tokens from 64000 on stay allowed.
        scores.forbid_all(vocabulary.codes());
    }

    /// Advances by a token; returns the next state if the next field's name is complete.
    pub(super) fn advance(&mut self, text: &str) -> Option<State> {
        self.tokens += 1;
        self.after_newline = text.contains('\n');
        let name = self.ending.as_mut()?;
        name.push_str(text);
        if !text.contains(':') {
            return None;
        }
        let name = name.trim().trim_end_matches(':').trim().to_lowercase();
        let mut after = Field::ALL.into_iter().filter(|field| *field > Field::Caption);
        let named = after.find(|field| field.key() == name);
        Some(named.map_or(State::Name(Field::Duration), State::Value))
    }
}
