//! A request for speech, with upstream's names.

use serde::{Deserialize, Serialize};

use crate::fields::fields;

fields! {
    /// A request for speech; every field but the text is optional.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct Request {
        /// The text to speak.
        pub text: String,
        /// A named speaker of the model, or a kept voice.
        pub voice: Option<String>,
        /// The language, by its name in the model or its code, or `auto`.
        pub language: Option<String>,
        /// The manner of speaking, or the voice in words.
        pub instruct: Option<String>,
        /// True if the talker reads the whole text before the first frame.
        pub non_streaming_mode: Option<bool>,
        /// Most tokens of a text that is spoken in one piece; a longer one is cut at sentences.
        pub max_text_tokens_per_segment: Option<u32>,
        /// The seed of the draws.
        pub seed: Option<u64>,
        +
        /// The sampling settings that differ from the checkpoint's.
        pub sampling: Sampling,
    }

    /// Sampling settings; `None` for the checkpoint's own.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct Sampling {
        /// False: the talker takes the likeliest code.
        pub do_sample: Option<bool>,
        /// Number of likeliest codes to draw from; 0 for all.
        pub top_k: Option<u32>,
        /// Probability mass of the likeliest codes to draw from; 1 for all.
        pub top_p: Option<f32>,
        /// Divisor of the talker's logits, above 0.
        pub temperature: Option<f32>,
        /// Penalty of first codes that were written before; 1 for none.
        pub repetition_penalty: Option<f32>,
        /// False: the code predictor takes the likeliest code.
        pub subtalker_dosample: Option<bool>,
        /// As `top_k`, for the code predictor.
        pub subtalker_top_k: Option<u32>,
        /// As `top_p`, for the code predictor.
        pub subtalker_top_p: Option<f32>,
        /// As `temperature`, for the code predictor.
        pub subtalker_temperature: Option<f32>,
        /// Limit on first codes of a segment: at most one frame less is made.
        pub max_new_tokens: Option<u32>,
    }
}
