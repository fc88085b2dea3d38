//! Mimi: a neural audio codec at 12.5 frames a second.
//!
//! Only its encoder is here: families decode with networks of their own.
//!
//! Source: Défossez et al. 2024, arXiv:2410.00037 (Moshi); transformers 4.57 `modeling_mimi.py`.

mod config;
mod encoder;
mod padding;
mod quantizer;
mod seanet;

pub use config::Config;
pub use encoder::Encoder;
