//! The codec of Qwen3-TTS at 12.5 frames a second: frames of 16 codes to 24 kHz sound.
//!
//! The decoder is causal. So its state is a value, and chunks of any sizes give the samples of the
//! whole. Its encoder is Mimi, see [`super::super::mimi`].
//!
//! Source: upstream `modeling_qwen3_tts_tokenizer_v2.py`.
//! Checkpoint: `speech_tokenizer/`.

mod block;
mod config;
mod decoder;
mod quantizer;
mod transformer;
mod upsample;

pub use config::{Config, DecoderConfig};
pub use decoder::{Decoder, DecoderState};
