//! The 5 Hz language model: from a request to metadata, lyrics and audio codes.
//!
//! | module | content |
//! |---|---|
//! | [`prompt`] | prompts, byte by byte |
//! | [`metadata`] | metadata of a song |
//! | [`cot`] | metadata as the YAML between `<think>` tags |
//! | [`parse`] | the model's text to metadata, codes and lyrics |
//! | [`settings`] | sampling settings, and the parts that the model may decide |
//! | [`compose`] | the two phases: text, then codes |
//! | [`generate`] | token-by-token generation |
//! | `session`, `merge`, `guard` | the loaded model, merge of answer and request, useless answers |
//! | [`CachedModel`] | a model that stays in memory between requests |
//! | [`snapshot`] | the key-value cache as a file |
//! | [`judge`], [`pmi`] | scores of how well codes match a request |
//! | [`vocabulary`] | special tokens |
//! | [`constrain`] | rules for the next token |
//! | [`sample`] | from logits to one token |
//!
//! Source: upstream `llm_inference.py`, `constrained_logits_processor.py`.

/// Name of the network, as a noun phrase for messages.
pub const NAME: &str = "the language model";

mod cached;
pub mod compose;
pub mod constrain;
pub mod cot;
pub mod generate;
mod guard;
pub mod judge;
mod merge;
pub mod metadata;
pub mod parse;
pub mod pmi;
pub mod prompt;
pub mod sample;
mod session;
pub mod settings;
pub mod snapshot;
pub mod vocabulary;

pub use cached::CachedModel;
