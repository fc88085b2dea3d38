//! Qwen3-TTS, as data.

pub(crate) mod gguf;
mod names;
mod releases;

pub(crate) use names::{codec_decoder, codec_encoder, speaker_encoder, talker, unused_of_codec};
pub use releases::MODELS;
