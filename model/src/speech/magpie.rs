//! Magpie TTS: text and a named voice to 22.05 kHz speech, in several languages.
//!
//! ```text
//! text ids -> encoder -> memory
//! voice rows, stacks of codes so far -> decoder, which attends to the memory -> last row
//! last row -> local transformer -> the codes of the next stack, one after the other
//! ```
//!
//! A stack is the codes of one or two frames. The codec is [`super::nanocodec`].
//!
//! Source: NeMo 3.0.0 `tts/models/magpietts.py` and `tts/modules/transformer_2501.py`; Neekhara et al.
//! 2024, arXiv:2406.17957.

mod attention;
mod checkpoint;
mod config;
mod decoder;
mod encoder;
mod layer;
mod local;
mod stack;
#[cfg(all(test, feature = "cpu"))]
mod tests;

pub use attention::Prior;
pub use checkpoint::{Checkpoint, Files, TextFiles};
pub use config::{
    Config, DecoderConfig, EosDetection, InferenceParameters, SPECIAL_CODES, Sizes, StackConfig,
};
pub use decoder::{Decoder, DecoderState, Start, Step};
pub use encoder::Encoder;
pub use local::{LocalState, LocalTransformer};
