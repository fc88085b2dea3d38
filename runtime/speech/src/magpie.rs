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
//! | `frames` | the run of a text, step by step |
//! | `network`, `voiced` | what a run asks of the networks, and their answer |
//! | `request`, `words`, `plan` | the user's input; its ids; everything that the run will do |
//! | `sound`, `speak` | frames to samples while they arrive; the whole run |
//! | `networks`, `stage`, `memory` | the networks in memory, their stages and needs |
//!
//! Source: NeMo 3.0.0, `magpietts.py`.

pub mod align;
pub mod choose;
pub mod end;
mod error;
pub mod frames;
#[cfg(test)]
mod golden;
pub mod memory;
pub mod network;
mod networks;
mod plan;
mod request;
pub mod sentences;
mod sound;
mod speak;
pub mod stage;
pub mod text;
pub mod voiced;
mod words;

pub use error::{MagpieError, Tool};
pub use networks::{CODEC_DECODER, DECODER, ENCODER, LOCAL_TRANSFORMER, Networks};
pub use plan::{Plan, USUAL_LANGUAGE, tokenizers};
pub use request::{FIELDS, Request, Sampling};
pub use sound::StreamingDecoder;
pub use speak::{Speaking, speak};
pub use text::{Encoded, JapaneseWord, OpenJTalk, Pinyin, TextConfig, Tokenizers, Tools};
