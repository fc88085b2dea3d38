//! A request for speech, with the reference's names.

use acestep_model::speech::magpie::EosDetection;
use serde::Deserialize;

use super::text::JapaneseWord;
use crate::fields::fields;

fields! {
    /// A request for speech; every field but the text is optional.
    #[derive(Debug, Clone, Default, PartialEq, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct Request {
        /// The text to speak.
        pub text: String,
        /// The ids of the text in place of the text, without its end.
        pub ids: Option<Vec<u32>>,
        /// The phonemes of the text in place of the text: tokens of the language side by side.
        pub phonemes: Option<String>,
        /// The words of a Japanese text in place of the text, from OpenJTalk's front end.
        pub open_jtalk: Option<Vec<JapaneseWord>>,
        /// A voice of the model, by its name or number.
        pub voice: Option<String>,
        /// The language, by its code or name; English if it is absent.
        pub language: Option<String>,
        /// The seed of the draws.
        pub seed: Option<u64>,
        +
        /// The settings that differ from the model's.
        pub sampling: Sampling,
    }

    /// Settings of a run; `None` for the model's own.
    #[derive(Debug, Clone, Default, PartialEq, Deserialize)]
    #[serde(default)]
    pub struct Sampling {
        /// False: the conditional logits alone decide.
        pub use_cfg: Option<bool>,
        /// Scale of guidance.
        pub cfg_scale: Option<f32>,
        /// Divisor of the logits; 0 for the likeliest code.
        pub temperature: Option<f32>,
        /// Number of likeliest codes to draw from.
        pub topk: Option<u32>,
        /// Most frames of a sentence.
        pub max_decoder_steps: Option<u32>,
        /// False: nothing keeps attention near the text that is spoken.
        pub apply_attention_prior: Option<bool>,
        /// The prior of places far from the text that is spoken: above 0, at most 1.
        pub attention_prior_epsilon: Option<f32>,
        /// Places of the text that attention may move ahead, up to 1000.
        pub attention_prior_lookahead_window: Option<u32>,
        /// Steps of a sentence before the prior starts.
        pub start_prior_after_n_audio_steps: Option<u32>,
        /// True to compute all rows again in each step, as the reference does: slower.
        pub exact_prior: Option<bool>,
        /// False: the end may not come before the text is spoken.
        pub ignore_finished_sentence_tracking: Option<bool>,
        /// The rule for the end of speech.
        pub eos_detection_method: Option<EosDetection>,
        /// Frames of a sentence before its end may come.
        pub min_generated_frames: Option<u32>,
        /// False: all codes of a step are drawn at once.
        pub use_local_transformer: Option<bool>,
    }
}

impl Request {
    /// True if its text is to be read: nothing stands in its place.
    pub fn is_text(&self) -> bool {
        self.ids.is_none() && self.phonemes.is_none() && self.open_jtalk.is_none()
    }
}
