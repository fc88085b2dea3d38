//! Oobleck: the autoencoder between 48 kHz audio and 25 Hz latents.
//!
//! Source: Evans et al. 2024, arXiv:2404.10301 (Stable Audio Open); diffusers
//! `autoencoder_oobleck.py`. The checkpoint's convolutions are weight-normalised; the weights are
//! folded at load time.

mod config;
mod decoder;
mod encoder;
mod residual;

pub use config::Config;
pub use decoder::Decoder;
pub use encoder::{Encoder, Posterior};
