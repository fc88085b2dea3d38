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
//! | `segments` | long texts in segments |
//! | `voice`, `kept`, `voices` | the voice of a recording; in a file; the folder of files |
//! | `snapshot` | the state before a text, which a kept voice restores |
//! | `frames`, `choose` | talker and code predictor, and their draws |
//! | `sound` | frames to samples while they arrive |
//! | `speak` | texts to speech |
//! | `guard` | silence and loops |
//! | `mel` | the spectrogram of a voice |
//! | `memory` | the memory that a run needs |
//! | `networks`, `stage` | the networks and stages of speech |

mod choose;
mod error;
#[doc(hidden)]
pub mod frames;
mod guard;
mod kept;
pub mod magpie;
#[doc(hidden)]
pub mod mel;
pub mod memory;
mod networks;
mod plan;
#[doc(hidden)]
pub mod prompt;
mod request;
mod segments;
mod snapshot;
mod sound;
mod speak;
pub mod stage;
mod voice;
mod voices;

pub use choose::{Filters, restrict};
pub use error::SpeechError;
pub use frames::{Ending, Frames, Prefix, Step};
pub use guard::{Fault, Guard};
pub use kept::KeptVoice;
pub use networks::{CODEC_DECODER, CODEC_ENCODER, Networks, SPEAKER_ENCODER, TALKER};
pub use plan::{Plan, check_request};
pub use prompt::Prompt;
pub use request::{Request, Sampling};
pub use snapshot::Snapshot;
pub use sound::{Decoding, SAMPLE_RATE};
pub use speak::{Chunks, Ended, Made, Options, Segment, Speaking, Spoken, Times, speak};
pub use voice::{Context, Voice};
pub use voices::Voices;
