//! The networks of music and speech in Burn: mathematics only, no files, threads or printing.
//!
//! Source: upstream `acestep/models/*/modeling_acestep_v15_*.py`, Hugging Face `modeling_qwen3.py`
//! and diffusers' `AutoencoderOobleck`.
//!
//! | module | content |
//! |---|---|
//! | [`kernel`] | every operation the networks are made of; the one place where backends differ |
//! | [`nn`] | layers shared by the networks |
//! | [`qwen3`] | the Qwen3 trunk: the text encoder |
//! | [`acestep`] | conditioning, audio codes, diffusion transformer |
//! | [`oobleck`] | the audio autoencoder |
//! | [`speech`] | speech: language models over audio codes, and their codecs |
//! | [`checkpoint`] | the interface between networks and the code that loads their weights |
//!
//! # Letters in shapes
//!
//! | letter | meaning | rate |
//! |---|---|---|
//! | `B` | batch | |
//! | `S` | audio samples | 48 000 Hz |
//! | `T` | latent frames | 25 Hz, 1920 samples |
//! | `P` | patches: DiT positions, two frames each | 12.5 Hz |
//! | `N` | audio codes, five frames each | 5 Hz |
//! | `L` | tokens of text, lyrics or the packed condition | |
//! | `C` | latent channels (64) | |
//! | `H` | width of a network | |
//! | `D` | width of one attention head | |
//!
//! # Float types
//!
//! A network computes in the type of its weights: f32, bf16 or f16. [`Place`] decides it at load
//! time. On a CPU, bf16 is only the storage type (and the type to which the time is rounded, as in
//! the reference); the computation is f32 ([`Backend::computes_in`]). There, weights may also be
//! quantised to int8, written as `I8` ([`kernel::quantize_q8`]). Public functions take tensors of
//! any float type and return f32. Norm sums, the softmax, the angles of time and position, and the
//! rounding to codes are always f32, as in the reference.
//!
//! # Parameter names
//!
//! A parameter's path in its module is the name of its tensor in the released checkpoint. It keeps
//! PyTorch's layout (`[out, in]` for a linear map), so loading needs no table of names.

// Nothing is called: the compiler takes its compiled generic code.
#[cfg(any(feature = "cuda", feature = "wgpu"))]
use acestep_backends as _;

pub mod acestep;
mod cast;
pub mod checkpoint;
mod config;
pub mod kernel;
mod limits;
pub mod nn;
pub mod oobleck;
mod place;
pub mod qwen3;
pub mod speech;
mod tap;
#[cfg(all(test, feature = "cpu"))]
mod testing;

pub use cast::{cast, kept_as, narrow_to_bf16, round_to_bf16};
pub use checkpoint::{
    Checkpoint, CheckpointError, Configs, LanguageCheckpoint, LanguageFiles, ModelFiles, Tokenizer,
};
pub use config::ConfigError;
pub use kernel::Backend;
pub use place::Place;
pub use tap::{NoTap, Tap};

/// Latent frames per second.
pub const LATENT_HZ: u32 = 25;
