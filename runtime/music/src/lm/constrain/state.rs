//! States of the machine and their order.

use super::Rules;
use crate::named::named;

named! {
    /// A field of the plan, in the order of the model's answers. Its name is the text before the value; the space
    /// after it belongs to the value's first token.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Field {
        /// Beats per minute.
        Bpm = "bpm:",
        /// Description of the sound.
        Caption = "caption:",
        /// Length in seconds.
        Duration = "duration:",
        /// Genres.
        Genres = "genres:",
        /// Key and mode.
        Keyscale = "keyscale:",
        /// Language of the vocals.
        Language = "language:",
        /// Beats per bar.
        Timesignature = "timesignature:",
    }
}

impl Field {
    /// Returns the name without its colon.
    pub fn key(self) -> &'static str {
        self.name().trim_end_matches(':')
    }

    fn is_skipped(self, rules: &Rules) -> bool {
        match self {
            Self::Caption => rules.skip_caption,
            Self::Genres => rules.skip_genres,
            Self::Language => rules.skip_language,
            Self::Bpm | Self::Duration | Self::Keyscale | Self::Timesignature => false,
        }
    }

    /// Returns the state after the field's value.
    ///
    /// This works for a skipped field too, because the model can begin one by itself after the
    /// caption. Upstream has no next state there and repeats newlines up to the length limit.
    pub(super) fn next(self, rules: &Rules) -> State {
        // ANCHOR: next_field
        let mut following = Self::ALL.into_iter().filter(|field| *field > self);
        following.find(|field| !field.is_skipped(rules)).map_or(State::ThinkEndTag, State::Name)
        // ANCHOR_END: next_field
    }
}

/// The part of the answer that is being written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// `<think>`.
    ThinkTag,
    /// The newline after it.
    NewlineAfterThink,
    /// The name of a field.
    Name(Field),
    /// Value of a field, and the newline after it.
    Value(Field),
    /// `</think>`.
    ThinkEndTag,
    /// Audio codes.
    Codes,
    /// Free text: lyrics, or nothing.
    Completed,
}

impl State {
    /// Returns the text of this state, if it is fixed.
    pub(super) fn fixed_text(self) -> Option<&'static str> {
        match self {
            Self::ThinkTag => Some("<think>"),
            Self::NewlineAfterThink => Some("\n"),
            Self::Name(field) => Some(field.name()),
            Self::ThinkEndTag => Some("</think>"),
            Self::Value(_) | Self::Codes | Self::Completed => None,
        }
    }

    /// Returns all states with a fixed text.
    pub(super) fn fixed() -> impl Iterator<Item = Self> {
        [Self::ThinkTag, Self::NewlineAfterThink, Self::ThinkEndTag]
            .into_iter()
            .chain(Field::ALL.into_iter().map(Self::Name))
    }
}
