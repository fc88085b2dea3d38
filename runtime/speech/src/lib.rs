//! From a text and a voice to speech.
//!
//! Each family of models is a folder with its own requests, plans and run. This page is what they share.
//!
//! | module | content |
//! |---|---|
//! | `qwen3_tts` | Qwen3-TTS: a text, a voice, 24 kHz |
//! | `dia2` | Dia2: a script of two speakers, 24 kHz |
//! | `magpie` | Magpie TTS: many languages, named voices, 22.05 kHz |
//! | `spoken`, `track` | samples and results, and their making, the same for every family |
//! | `timestamps` | files of the times of words |
//! | `languages` | names and codes of languages |
//! | `segments` | long texts in segments |
//! | `voices` | the folder of kept voices |
//! | `kept_file` | files of kept states |
//! | `guard` | silence and loops |
//! | [`networks`] | networks that are loaded when they are needed |
//! | `recording` | recordings to codes |
//! | `resample` | recordings to the rate of a network |
//! | `codes` | frames of codes to samples, and their checks |
//! | `memory` | the memory that codecs need |
//! | `fields` | the fields of a request |

mod codes;
pub mod dia2;
mod error;
mod fields;
mod guard;
mod kept_file;
mod languages;
pub mod magpie;
mod memory;
pub mod networks;
mod pcm;
pub mod qwen3_tts;
mod recording;
mod resample;
mod segments;
mod spoken;
mod timestamps;
mod track;
mod voices;

pub use error::SpeechError;
pub use guard::{Fault, Guard};
pub use pcm::pcm16;
pub use spoken::{
    Chunks, EndReason, Options, Segment, Spoken, StopReason, StreamItem, Times, Word,
};
pub use timestamps::TimesFormat;
pub use voices::Voices;
