//! Magpie TTS: from text to codes of speech, in many languages.
//!
//! ```text
//! text -> ids -> encoder -> memory --------+
//! voice -> rows of context -> decoder (attention prior) -> local transformer -> frames -> codec
//!                                ^                                                 |
//!                                +------- mean of the frames' embeddings ----------+
//! ```
//!
//! | module | content |
//! |---|---|
//! | `text` | text to ids, by language |
//! | `sentences` | long texts in sentences |
//! | `align` | the attended position, and the prior that keeps attention near it |
//! | `choose` | guidance, forbidden ids, top-k, one draw |
//! | `end` | the end of speech |
//!
//! Source: NeMo 3.0.0, `magpietts.py`.

pub mod align;
pub mod choose;
pub mod end;
mod error;
#[cfg(test)]
mod golden;
pub mod sentences;
pub mod text;

pub use error::MagpieError;
pub use text::{Encoded, Pinyin, TextConfig, Tokenizers};
