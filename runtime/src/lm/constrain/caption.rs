//! The caption, which is free text until the model begins the next field.
//!
//! A caption may go on for several lines, each indented. Where a line begins with something else,
//! the model is left alone until it has written a colon, and the machine then goes to the value of
//! the field that was named. So fields can be left out, which upstream allows; a name that is none
//! is followed by `duration:`.

use super::{Field, State};
use crate::lm::{sample::Scores, vocabulary::Vocabulary};

/// A caption may have that many tokens before it must end.
const MOST_TOKENS: usize = 512;

/// How far the caption is.
#[derive(Debug, Clone, Default)]
pub(super) struct Caption {
    tokens: usize,
    /// The last token ended a line.
    after_newline: bool,
    /// The next field's name as far as it is written, once the caption is over.
    ending: Option<String>,
}

impl Caption {
    /// Forbids what a caption cannot have.
    pub(super) fn constrain(&mut self, vocabulary: &Vocabulary<'_>, scores: &mut Scores) {
        // ANCHOR: caption_ends
        if std::mem::take(&mut self.after_newline) {
            // Upstream decides by the likeliest token, whichever is drawn afterwards.
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
        // Code tokens from 64000 on stay allowed, as upstream lets them.
        scores.forbid_all(vocabulary.codes());
    }

    /// Takes note of a token; says where to go on if the next field's name is complete.
    pub(super) fn advance(&mut self, text: &str) -> Option<State> {
        self.tokens += 1;
        self.after_newline = text.contains('\n');
        let name = self.ending.as_mut()?;
        name.push_str(text);
        if !text.contains(':') {
            return None;
        }
        let name = name.trim().trim_end_matches(':').trim().to_lowercase();
        let after = [
            Field::Duration,
            Field::Genres,
            Field::Keyscale,
            Field::Language,
            Field::Timesignature,
        ];
        let named = after.into_iter().find(|field| field.name().trim_end_matches(':') == name);
        Some(named.map_or(State::Name(Field::Duration), State::Value))
    }
}
