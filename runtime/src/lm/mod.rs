//! The 5 Hz language model: from what was asked to metadata, lyrics and audio codes.
//!
//! | module | what |
//! |---|---|
//! | [`prompt`] | the texts that the model continues, byte by byte |
//! | [`metadata`] | what the model decides about a song |
//! | [`cot`] | metadata as the YAML that stands between `<think>` tags |
//! | [`parse`] | the model's text back to metadata, codes and lyrics |
//! | [`settings`] | how the model draws, and what it may decide |
//! | [`compose`] | the two phases: words, then codes |
//! | [`generate`] | tokens one after the other |
//! | `session`, `merge`, `guard` | the model in memory, its answer in the request, useless answers |
//! | [`Held`] | the model in memory between requests |
//! | [`snapshot`] | what was read, as a file |
//! | [`judge`] | how well codes fit what was asked for |
//! | [`replay`] | stored runs of the reference, once more |
//! | [`vocabulary`] | which tokens mean something special |
//! | [`constrain`] | which tokens may come next |
//! | [`sample`] | scores to one token |
//!
//! Source: upstream `llm_inference.py`, `constrained_logits_processor.py`.

/// The network, as a noun phrase.
pub const NAME: &str = "the language model";

pub mod compose;
pub mod constrain;
pub mod cot;
pub mod generate;
mod guard;
mod held;
pub mod judge;
mod merge;
pub mod metadata;
pub mod parse;
pub mod prompt;
pub mod replay;
pub mod sample;
mod session;
pub mod settings;
pub mod snapshot;
pub mod vocabulary;

pub use held::Held;
