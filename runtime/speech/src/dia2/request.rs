//! A request for a dialogue.

use serde::{Deserialize, Serialize};

use super::streams::Streams;
use crate::fields::fields;

fields! {
    /// A request for a dialogue; every field but the script is optional.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct Request {
        /// The script, with `[S1]` and `[S2]` before what each speaker says.
        pub script: String,
        /// The scale of classifier-free guidance; 1 for none.
        pub cfg_scale: Option<f32>,
        /// Number of ids that guidance leaves to draw from; 0 for all.
        pub cfg_filter_k: Option<u32>,
        /// Divisor of all logits; 0 for the likeliest ids.
        pub temperature: Option<f32>,
        /// Number of likeliest ids to draw from; 0 for all.
        pub top_k: Option<u32>,
        /// As `temperature`, for the text alone.
        pub text_temperature: Option<f32>,
        /// As `top_k`, for the text alone.
        pub text_top_k: Option<u32>,
        /// As `temperature`, for the codes alone.
        pub audio_temperature: Option<f32>,
        /// As `top_k`, for the codes alone.
        pub audio_top_k: Option<u32>,
        /// Frames before the first word.
        pub initial_padding: Option<u32>,
        /// True if the recordings of the speakers are heard before the script.
        pub include_prefix: Option<bool>,
        /// Most seconds of the recordings of the speakers; the rest is cut off.
        pub max_prefix_duration: Option<f64>,
        /// True if the first frames are decoded before their last codebooks are known: the sound begins
        /// earlier, and its beginning differs.
        pub early: Option<bool>,
        /// Most steps of the script, of 80 ms each.
        pub max_steps: Option<u32>,
        /// The seed of the draws.
        pub seed: Option<u64>,
    }
}

impl Request {
    /// Returns the most frames of recordings, if the request says so.
    pub fn most_prefix(&self, streams: &Streams) -> Option<usize> {
        let frames = |seconds: f64| (seconds * streams.frame_rate).round() as usize;
        self.max_prefix_duration.map(frames)
    }
}
