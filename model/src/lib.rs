//! The networks of ACE-Step 1.5 in Burn: mathematics only, no files, threads or printing.
//!
//! Source: upstream `acestep/models/*/modeling_acestep_v15_*.py`, Hugging Face `modeling_qwen3.py`
//! and diffusers' `AutoencoderOobleck`.
//!
//! | module | what |
//! |---|---|
//! | [`kernel`] | every operation the networks are made of; the one place where backends differ |
//! | [`nn`] | layers shared by the networks |
//! | [`qwen3`] | the Qwen3 trunk: the text encoder |
//! | [`acestep`] | conditioning, audio codes, diffusion transformer |
//! | [`oobleck`] | the audio autoencoder |
//! | [`checkpoint`] | the seam between networks and whoever stores their weights |
//!
//! # The alphabet of shapes
//!
//! | letter | what | rate |
//! |---|---|---|
//! | `B` | batch | |
//! | `S` | samples of sound | 48 000 Hz |
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
//! A network computes in the type of its weights, which [`Place`] decides when they are loaded: f32,
//! bf16 or f16; on a processor bf16 is how weights are kept (and how the time is rounded, as in the
//! reference), and in between everything is f32 ([`Backend::computes_in`]). There they may also be kept
//! in eight bits, which are called `I8` ([`kernel::eight_bits`]). Its public functions take tensors of
//! any float type and give f32. In every type the sums of norms, the softmax, the angles of time and
//! position, and the rounding to codes are f32, as in the reference.
//!
//! # Parameter names
//!
//! A parameter's path in its module is the name of its tensor in the released checkpoint, and it
//! keeps PyTorch's layout (`[out, in]` for a linear map), so loading needs no table of names.

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
mod tap;

pub use cast::{cast, kept, kept_as};
pub use checkpoint::{Checkpoint, Configs, LanguageCheckpoint, Tokenizer};
pub use config::ConfigError;
pub use kernel::Backend;
pub use place::Place;
pub use tap::{Quiet, Tap};

/// Latent frames a second.
pub const LATENT_HZ: u32 = 25;
