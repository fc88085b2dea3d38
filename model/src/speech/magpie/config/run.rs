//! Settings of a run, by their keys.

use serde::Deserialize;

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
    #[serde(alias = "prior_epsilon")]
    pub attention_prior_epsilon: f64,
    /// Positions that attention may move ahead.
    #[serde(alias = "lookahead_window_size")]
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
        }
    }
}
