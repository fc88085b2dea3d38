//! Oobleck: the autoencoder between 48 kHz sound and 25 Hz latents.
//!
//! Source: Evans et al. 2024, arXiv:2404.10301 (Stable Audio Open); diffusers
//! `autoencoder_oobleck.py`. Convolutions are weight-normalised in the checkpoint and folded when
//! it is read.

mod config;
mod decoder;
mod encoder;
mod residual;

pub use config::Config;
pub use decoder::Decoder;
pub use encoder::{Encoder, Posterior};
