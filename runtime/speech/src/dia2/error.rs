//! Errors that only this family has.

use acestep_engine::error::{FamilyError, ScoreError};

use crate::error::BAD_SCORES;

/// An error of a script, a voice or a model; inside [`acestep_engine::Error::Family`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what most fields hold")]
pub enum Dia2Error {
    /// A break whose time is not a number.
    #[error("`{tag}` has no number of seconds")]
    BreakTime {
        /// The break as it is written.
        tag: String,
    },
    /// Words with times that cannot be used.
    #[error("the words in `{field}` cannot be used: {why}")]
    Words { field: &'static str, why: String },
    /// The recordings leave no room for speech.
    #[error("the recordings are {frames} frames long, and {most} is the most")]
    TooLong { frames: usize, most: usize },
    /// Logits that no id can be chosen from.
    #[error("the scores of step {step} cannot be used: {why}")]
    Scores { step: usize, why: ScoreError },
    /// A snapshot of another model, or with other settings.
    #[error("this voice was made with another model: {why}")]
    ForeignSnapshot { why: String },
}

impl FamilyError for Dia2Error {
    fn hint(&self) -> Option<String> {
        let text = match self {
            Self::BreakTime { .. } => "write a break as `<break time=\"1.5s\"/>`",
            Self::Words { .. } => {
                "pass a JSON list such as `[{\"text\": \"Hello\", \"start\": 0.08, \"end\": 0.36}]`, or \
                 the words that Whisper, WhisperX or the Montreal Forced Aligner write as JSON"
            }
            Self::TooLong { .. } => "pass shorter recordings: 5 to 10 seconds for each speaker",
            Self::Scores { .. } => BAD_SCORES,
            Self::ForeignSnapshot { .. } => {
                "make the voice again from the recordings, with this model"
            }
        };
        Some(text.to_owned())
    }

    fn is_usage(&self) -> bool {
        !matches!(self, Self::Scores { .. })
    }
}
