//! Settings of a run, by their keys.

use serde::{Deserialize, Deserializer};

/// Settings of a run, with the defaults of the reference.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default)]
pub struct InferenceParameters {
    /// Most frames of a chunk of text.
    pub max_decoder_steps: usize,
    /// Temperature of the draws.
    pub temperature: f64,
    /// Number of codes that can be drawn.
    pub topk: usize,
    /// Scale of guidance.
    pub cfg_scale: f64,
    /// True if a prior steers cross attention.
    pub apply_attention_prior: bool,
    /// The prior of other positions.
    pub attention_prior_epsilon: f64,
    /// Positions that attention may move ahead.
    pub attention_prior_lookahead_window: usize,
    /// Layers whose attention shows the position in the text; `None` for all.
    pub estimate_alignment_from_layers: Option<Vec<usize>>,
    /// Layers with the prior; `None` for all.
    pub apply_prior_to_layers: Option<Vec<usize>>,
    /// Steps without the prior at the start.
    pub start_prior_after_n_audio_steps: usize,
    /// True if the end is not delayed until the text is read.
    pub ignore_finished_sentence_tracking: bool,
    /// The rule for the end of speech.
    pub eos_detection_method: EosDetection,
    /// Frames before the end may come.
    pub min_generated_frames: usize,
    #[serde(deserialize_with = "given")]
    prior_epsilon: Option<f64>,
    #[serde(deserialize_with = "given")]
    lookahead_window_size: Option<usize>,
}

/// Reads a value that is not null.
fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

impl InferenceParameters {
    /// Moves the values of old names, which win in the reference, to the new ones. Returns the name of the
    /// lookahead in the file.
    pub(super) fn unify_names(&mut self) -> &'static str {
        if let Some(epsilon) = self.prior_epsilon.take() {
            self.attention_prior_epsilon = epsilon;
        }
        match self.lookahead_window_size.take() {
            Some(window) => {
                self.attention_prior_lookahead_window = window;
                "lookahead_window_size"
            }
            None => "attention_prior_lookahead_window",
        }
    }
}

/// The codebooks and draws in which the code of the end ends the speech.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are those of the reference")]
pub enum EosDetection {
    ArgmaxAny,
    ArgmaxOrMultinomialAny,
    ArgmaxAll,
    ArgmaxOrMultinomialAll,
    ArgmaxZeroCb,
    ArgmaxOrMultinomialZeroCb,
}

impl Default for InferenceParameters {
    fn default() -> Self {
        Self {
            max_decoder_steps: 500,
            temperature: 0.7,
            topk: 80,
            cfg_scale: 2.5,
            apply_attention_prior: true,
            attention_prior_epsilon: 0.1,
            attention_prior_lookahead_window: 5,
            estimate_alignment_from_layers: None,
            apply_prior_to_layers: None,
            start_prior_after_n_audio_steps: 0,
            ignore_finished_sentence_tracking: true,
            eos_detection_method: EosDetection::ArgmaxOrMultinomialAny,
            min_generated_frames: 4,
            prior_epsilon: None,
            lookahead_window_size: None,
        }
    }
}
