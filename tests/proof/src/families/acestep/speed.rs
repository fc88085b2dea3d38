//! Each stage of the pipeline alone, at full size, with random weights.
//!
//! | module | contents |
//! |---|---|
//! | [`networks`], [`language`], [`sound`] | one run of each stage |
//! | [`load`] | loading of an installed model |
//! | [`sizes`], [`cost`] | released sizes, and the computed cost of a stage |

mod cost;
mod language;
pub(crate) mod load;
mod networks;
pub(crate) mod sizes;
mod sound;

use acestep_engine::{allocator::KeepFreed, tiling::Tiling};
use acestep_model::{Backend, LATENT_HZ, Place, kernel::Visibility};
use acestep_music::plan::frames_from_seconds;
use anyhow::Result;
use serde_json::{Value, json};

use crate::measure::Run;
use networks::{CAPTION_TOKENS, LYRIC_TOKENS};
use sizes::{LanguageSizes, Sizes, text_encoder_values, vae_config, vae_values};

/// The work of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    TextEncoder,
    Condition(Sizes),
    Codes(Sizes),
    Dit(Sizes),
    Vae,
    VaeEncode,
    Prefill(LanguageSizes),
    /// One code, for a number of sequences in one pass.
    Decode(LanguageSizes, usize),
}

impl Work {
    /// Measures the work for a song of `seconds`; its weights are freed afterwards.
    ///
    /// # Errors
    /// If a released configuration cannot be read.
    pub(crate) fn run<B: Backend>(self, seconds: f64, place: &Place<B>) -> Result<Run> {
        let frames = frames(seconds);
        // As the pipeline of songs does.
        let _kept = matches!(self, Self::Dit(_) | Self::Vae | Self::VaeEncode).then(KeepFreed::new);
        match self {
            Self::TextEncoder => networks::text_encoder::<B>(place),
            Self::Condition(sizes) => networks::condition::<B>(sizes, place),
            Self::Codes(sizes) => networks::codes::<B>(sizes, frames, place),
            Self::Dit(sizes) => networks::dit::<B>(sizes, frames, place),
            Self::Vae => sound::decode::<B>(frames, place),
            Self::VaeEncode => sound::encode::<B>(frames, place),
            Self::Prefill(sizes) => language::prefill::<B>(sizes, place),
            Self::Decode(sizes, rows) => language::decode::<B>(sizes, rows, seconds, place),
        }
    }

    /// Returns the work for `torch_speed.py`: the configuration and the shapes.
    ///
    /// # Errors
    /// If a released configuration cannot be read.
    pub(crate) fn for_torch(self, seconds: f64) -> Result<Value> {
        let scores = language::CODES.len() + 1;
        Ok(match self {
            Self::Dit(sizes) => {
                let config = sizes.config()?;
                let window = |layer| match config.visibility(layer) {
                    Visibility::Window(reach) => Some(reach),
                    _ => None,
                };
                let windows: Vec<Option<usize>> =
                    (0..config.num_hidden_layers).map(window).collect();
                json!({
                    "kind": "dit",
                    "config": sizes.values(),
                    "windows": windows,
                    "encoder_width": config.encoder_shape().hidden(),
                    "batch": sizes.rows(),
                    "frames": frames(seconds),
                    "condition": CAPTION_TOKENS + LYRIC_TOKENS + 1,
                })
            }
            Self::Vae => json!({
                "kind": "vae",
                "config": vae_values(),
                "tiles": Tiling::default().windows(frames(seconds), vae_config()?.decoder_reach())?,
            }),
            Self::TextEncoder => json!({
                "kind": "text-encoder",
                "config": text_encoder_values(),
                "tokens": CAPTION_TOKENS,
            }),
            Self::Prefill(sizes) => json!({
                "kind": "lm-prefill",
                "config": sizes.values(),
                "tokens": language::PROMPT,
                "scores": scores,
            }),
            Self::Decode(sizes, rows) => json!({
                "kind": "lm-decode",
                "config": sizes.values(),
                "rows": rows,
                "before": language::middle(seconds),
                "scores": scores,
            }),
            Self::Condition(_) | Self::Codes(_) | Self::VaeEncode => json!({ "kind": "none" }),
        })
    }
}

/// Returns the latent frames of a song.
fn frames(seconds: f64) -> usize {
    frames_from_seconds(seconds, LATENT_HZ, 1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 30 s are 750 frames, in tiles of 393 and 375, with a condition of 238 positions. Guidance
    /// has two rows, after 256 tokens and half of the song's 150 codes.
    #[test]
    fn torch_is_given_the_same_shapes() {
        let task = |work: Work| work.for_torch(30.0).expect("a task");
        let dit = task(Work::Dit(Sizes::Base));
        assert_eq!(
            (&dit["batch"], &dit["frames"], &dit["condition"]),
            (&json!(2), &json!(750), &json!(238))
        );
        assert_eq!((&dit["windows"][0], &dit["windows"][1]), (&json!(128), &Value::Null));
        assert_eq!(task(Work::Dit(Sizes::Xl))["encoder_width"], 2048);
        assert_eq!(task(Work::Vae)["tiles"], json!([393, 375]));
        let decode = task(Work::Decode(LanguageSizes::B4, 2));
        assert_eq!((&decode["rows"], &decode["before"]), (&json!(2), &json!(331)));
        assert_eq!(decode["scores"], 64_001);
    }
}
