//! Requirements for an answer.

use std::{collections::BTreeMap, sync::Arc};

use super::{Field, genres::GenreVocabulary};

/// The kind of answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// A plan.
    Cot,
    /// Audio codes. If the prompt has no plan, a plan comes first.
    Codes,
    /// A plan, then free text (the lyrics).
    Understand,
}

/// Values from the user, which are forced into the answer.
pub type UserValues = BTreeMap<Field, String>;

/// Requirements for one answer.
#[derive(Debug, Clone)]
pub struct Rules {
    /// The kind of answer.
    pub phase: Phase,
    /// False to apply only the temperatures below.
    pub enabled: bool,
    /// True to leave out the caption.
    pub skip_caption: bool,
    /// True to leave out the genres.
    pub skip_genres: bool,
    /// True to leave out the language.
    pub skip_language: bool,
    /// True to end after the plan, with the end token instead of `</think>`.
    pub stop_at_reasoning: bool,
    /// Length of the song in seconds: determines the number of codes, and the duration in a plan.
    /// Upstream's standard flow sets it only in the codes phase.
    pub target_seconds: Option<f64>,
    /// Values from the user.
    pub user: UserValues,
    /// Divisor of the plan's scores, in addition to the sampler's own temperature.
    pub metadata_temperature: Option<f32>,
    /// Divisor of the scores of codes and lyrics, in addition to the sampler's own temperature.
    pub codes_temperature: Option<f32>,
    /// Genres to choose from; `None` = the value is free text, even audio codes.
    pub genres: Option<Arc<GenreVocabulary>>,
}

impl Rules {
    /// Creates rules for all fields but genres, without values from the user.
    pub fn new(phase: Phase) -> Self {
        Self {
            phase,
            enabled: true,
            skip_caption: false,
            skip_genres: true,
            skip_language: false,
            stop_at_reasoning: false,
            target_seconds: None,
            user: UserValues::default(),
            metadata_temperature: None,
            codes_temperature: None,
            genres: None,
        }
    }

    /// Returns the target length, if it is positive.
    pub(super) fn target_seconds(&self) -> Option<f64> {
        self.target_seconds.filter(|&seconds| seconds > 0.0)
    }

    /// Returns the required number of codes: five per second, rounded down.
    pub fn target_codes(&self) -> Option<usize> {
        self.target_seconds().map(|seconds| (seconds * 5.0) as usize)
    }
}
