//! Mimi: a neural audio codec at 12.5 frames a second.
//!
//! Encoder and decoder work on whole signals and on chunks: the past of a signal is a value.
//!
//! Source: Défossez et al. 2024, arXiv:2410.00037 (Moshi); transformers `modeling_mimi.py`.

mod config;
mod decoder;
mod encoder;
mod padding;
mod quantizer;
mod seanet;
mod seanet_decoder;
#[cfg(all(test, feature = "cpu"))]
mod tests;
mod transformer;

pub use config::Config;
pub use decoder::{Decoder, DecoderState};
pub use encoder::{Encoder, EncoderState};
pub(super) use quantizer::ResidualDequantizer;
pub(super) use transformer::Settings as TransformerSettings;
