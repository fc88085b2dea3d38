//! Dia2: dialogue of two speakers, as text and codes of Mimi that are written step by step.
//!
//! A step is a frame of 80 ms. The backbone reads two text tokens and one code of each codebook, and
//! computes the logits of an action and of the first code. The depformer writes the other codes of
//! the frame, one stage after the other.
//!
//! Source: nari-labs/dia2; Défossez et al. 2024, arXiv:2410.00037 (Moshi), for both networks.
//! Checkpoint: `transformer.*` and `depformer.*`.
//!
//! # Letters in shapes
//!
//! | letter | meaning |
//! |---|---|
//! | `K` | codebooks |
//! | `V` | ids of a codebook, two marks included |
//! | `A` | actions |
//! | `D` | width of the backbone |

mod backbone;
mod checkpoint;
mod config;
mod depformer;
mod layer;
#[cfg(all(test, feature = "cpu"))]
mod tests;
mod text;

pub use backbone::{Backbone, BackboneOutput, BackboneState};
pub use checkpoint::{Checkpoint, Files};
pub use config::{
    Assets, Config, DataConfig, DecoderConfig, DepformerConfig, Function, LinearConfig,
    ModelConfig, RuntimeConfig,
};
pub use depformer::{Depformer, DepformerState};
