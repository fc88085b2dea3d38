//! From a text and a voice to speech with Qwen3-TTS.
//!
//! ```text
//! Request -> Plan -> [prompt -> frames -> samples]
//! ```
//!
//! | module | content |
//! |---|---|
//! | `request`, `rules`, `plan` | the user's input; for a model; everything that the run will do |
//! | `prompt` | the rows that the talker reads |
//! | `voice`, `kept` | the voice of a recording; in a file |
//! | `snapshot` | the state before a text, which a kept voice restores |
//! | `frames`, `choose` | talker and code predictor, and their draws |
//! | `trailing` | the text that is added to frames |
//! | `sound` | frames to samples while they arrive |
//! | `speak` | texts to speech |
//! | `mel` | the spectrogram of a voice |
//! | `memory` | the memory that a run needs |
//! | `networks`, `stage` | the networks and stages |

mod choose;
#[doc(hidden)]
pub mod frames;
mod kept;
#[doc(hidden)]
pub mod mel;
pub mod memory;
mod networks;
mod plan;
#[doc(hidden)]
pub mod prompt;
mod request;
mod rules;
mod snapshot;
mod sound;
mod speak;
pub mod stage;
mod trailing;
mod voice;

pub use choose::{Filters, restrict};
pub use frames::{Frames, PromptCache, RunStep};
pub use kept::KeptVoice;
pub use networks::{CODEC_DECODER, CODEC_ENCODER, Networks, SPEAKER_ENCODER, TALKER};
pub use plan::{Following, Plan, check_request};
pub use prompt::Prompt;
pub use request::{FIELDS, Request, Sampling};
pub use rules::language_of;
pub use snapshot::Snapshot;
pub use sound::{SAMPLE_RATE, StreamingDecoder};
pub use speak::{Speaking, speak};
pub use voice::{RefRecording, Voice, check_transcript};
