//! A request for speech, with the reference's names.

use serde::{Deserialize, Serialize};

use super::text::Word;

/// Names of the fields.
pub const FIELDS: &[&str] = &[
    "text",
    "ids",
    "phonemes",
    "open_jtalk",
    "voice",
    "language",
    "seed",
    "use_cfg",
    "cfg_scale",
    "temperature",
    "topk",
    "max_decoder_steps",
    "apply_attention_prior",
    "exact_prior",
    "ignore_finished_sentence_tracking",
    "use_local_transformer",
];

/// A request for speech; every field but the text is optional.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Request {
    /// The text to speak. Phonemes may stand between `|`.
    pub text: String,
    /// The ids of the text in place of the text, without its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ids: Option<Vec<u32>>,
    /// The phonemes of the text in place of the text: tokens of the language side by side.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phonemes: Option<String>,
    /// The words of a Japanese text in place of the text, from OpenJTalk's front end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_jtalk: Option<Vec<Word>>,
    /// A voice of the model, by its name or number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub voice: Option<String>,
    /// The language, by its code in the model; English if it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// The seed of the draws.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The settings that differ from the model's.
    #[serde(flatten)]
    pub sampling: Sampling,
}

impl Request {
    /// True if its text is to be read: nothing stands in its place.
    pub fn is_text(&self) -> bool {
        self.ids.is_none() && self.phonemes.is_none() && self.open_jtalk.is_none()
    }
}

/// Settings of a run; `None` for the model's own.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sampling {
    /// False: the conditional logits alone decide.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub use_cfg: Option<bool>,
    /// Scale of guidance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cfg_scale: Option<f32>,
    /// Divisor of the logits; 0 for the likeliest code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
    /// Number of likeliest codes to draw from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topk: Option<u32>,
    /// Most frames of a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_decoder_steps: Option<u32>,
    /// False: nothing keeps attention near the text that is spoken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apply_attention_prior: Option<bool>,
    /// True to compute all rows again in each step, as the reference does: slower.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exact_prior: Option<bool>,
    /// False: the end may not come before the text is spoken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignore_finished_sentence_tracking: Option<bool>,
    /// False: all codes of a step are drawn at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub use_local_transformer: Option<bool>,
}
