//! NanoCodec: groups of scalar codes to sound, by a causal HiFi-GAN.
//!
//! Only its decoder is here. Every convolution is causal, so frames can be decoded as they come.
//!
//! Source: Casanova et al. 2025, arXiv:2508.05835; Kong et al. 2020, arXiv:2010.05646 (HiFi-GAN);
//! NeMo 3.0.0 `tts/modules/audio_codec_modules.py`.

mod config;
mod decoder;
mod residual;
mod scalar;
#[cfg(all(test, feature = "cpu"))]
mod tests;

pub use config::{Config, DecoderConfig, OutputActivation, QuantizerConfig};
pub use decoder::{Decoder, DecoderState};
pub use scalar::ScalarQuantizer;
