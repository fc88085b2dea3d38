//! What an answer has to be.

use std::sync::Arc;

use super::{Field, genres::GenreVocabulary};

/// What the model is to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// A plan.
    Cot,
    /// Audio codes after a plan that the prompt holds; a plan first if it holds none.
    Codes,
    /// A plan and then free text, the lyrics.
    Understand,
}

/// Values that the user gave: the model reads them as if it had written them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserValues {
    /// Beats per minute.
    pub bpm: Option<String>,
    /// What it sounds like.
    pub caption: Option<String>,
    /// Seconds.
    pub duration: Option<String>,
    /// Genres.
    pub genres: Option<String>,
    /// Key and mode.
    pub keyscale: Option<String>,
    /// Language of the vocals.
    pub language: Option<String>,
    /// Beats in a bar.
    pub timesignature: Option<String>,
}

impl UserValues {
    /// The value of `field`, if one was given.
    pub fn of(&self, field: Field) -> Option<&str> {
        match field {
            Field::Bpm => &self.bpm,
            Field::Caption => &self.caption,
            Field::Duration => &self.duration,
            Field::Genres => &self.genres,
            Field::Keyscale => &self.keyscale,
            Field::Language => &self.language,
            Field::Timesignature => &self.timesignature,
        }
        .as_deref()
    }
}

/// What one answer has to be.
#[derive(Debug, Clone)]
pub struct Rules {
    /// What to write.
    pub phase: Phase,
    /// Without: only the temperatures below apply.
    pub enabled: bool,
    /// Leave out the caption.
    pub skip_caption: bool,
    /// Leave out the genres.
    pub skip_genres: bool,
    /// Leave out the language.
    pub skip_language: bool,
    /// End where the plan ends. The end token then stands in place of `</think>`.
    pub stop_at_reasoning: bool,
    /// Seconds of sound: fixes the number of codes, and the duration where a plan is written.
    /// Upstream's standard flow gives it to the codes phase only.
    pub target_seconds: Option<f64>,
    /// What is given.
    pub user: UserValues,
    /// Divides the scores of the plan, besides the sampler's own temperature.
    pub metadata_temperature: Option<f32>,
    /// Divides the scores of codes and lyrics, besides the sampler's own temperature.
    pub codes_temperature: Option<f32>,
    /// Genres to choose from; without them the model writes what it likes, audio codes included.
    pub genres: Option<Arc<GenreVocabulary>>,
}

impl Rules {
    /// Everything but genres is asked of the model, and nothing given.
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

    /// The seconds asked for, if that is a length at all.
    pub(super) fn target_seconds(&self) -> Option<f64> {
        self.target_seconds.filter(|&seconds| seconds > 0.0)
    }

    /// How many codes there must be: five a second, rounded down.
    pub fn target_codes(&self) -> Option<usize> {
        self.target_seconds().map(|seconds| (seconds * 5.0) as usize)
    }
}
