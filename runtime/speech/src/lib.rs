//! From text and a voice to speech: the pipeline of Qwen3-TTS.
//!
//! ```text
//! Request -> Plan -> [prompt -> frames -> samples]
//! ```
//!
//! | module | content |
//! |---|---|
//! | `request`, `plan` | the user's input; everything that the run will do |
//! | `prompt` | the rows that the talker reads |
//! | `voice` | the voice of a recording |
//! | `frames`, `choose` | talker and code predictor, and their draws |
//! | `sound` | frames to samples while they arrive |
//! | `speak` | one text to speech |
//! | `guard` | silence and loops |
//! | `mel` | the spectrogram of a voice |
//! | `networks`, `stage` | the networks and stages of speech |

mod choose;
mod error;
#[doc(hidden)]
pub mod frames;
mod guard;
#[doc(hidden)]
pub mod mel;
mod networks;
mod plan;
#[doc(hidden)]
pub mod prompt;
mod request;
mod sound;
mod speak;
pub mod stage;
mod voice;

pub use choose::{Filters, restrict};
pub use error::SpeechError;
pub use frames::{Ending, Frames};
pub use guard::{Fault, Guard};
pub use networks::{CODEC_DECODER, CODEC_ENCODER, Networks, SPEAKER_ENCODER, TALKER};
pub use plan::{Plan, check_request};
pub use prompt::Prompt;
pub use request::{Request, Sampling};
pub use sound::{Decoding, SAMPLE_RATE};
pub use speak::{Chunks, Ended, Spoken, Times, speak};
pub use voice::{Context, Voice};
