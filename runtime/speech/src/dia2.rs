//! From a script of two speakers to speech: the pipeline of Dia2.
//!
//! ```text
//! script -> entries -> [step by step: text, codes] -> frames -> samples, times of the words
//! ```
//!
//! | module | content |
//! |---|---|
//! | `script`, `reading`, `ids` | words and breaks of a script, whole or in pieces; special ids |
//! | `machine` | which text tokens a step gets |
//! | `grid` | codes, each codebook late by its delay |
//! | `choose` | guidance and draws |
//! | `words`, `times` | words with times: of a recording, of the speech |
//! | `prefix` | recordings as the beginning of a run |
//! | `streams` | the constants of a model |
//! | `step`, `run` | the steps of a run on some networks |
//! | `audible` | the frames that are heard |
//! | `request`, `plan` | the user's input; everything that the run will do |
//! | `networks`, `stage`, `memory` | the networks, stages, and the memory that they need |
//! | `voice`, `snapshot`, `kept` | a recording to codes; the state after it; in a file |
//! | `sound`, `speak` | frames to samples while they arrive; a plan to speech |
//! | `begin`, `dialogue` | the state at the beginning; the results |

mod audible;
mod begin;
mod choose;
mod dialogue;
mod error;
mod grid;
mod ids;
mod kept;
mod machine;
pub mod memory;
mod networks;
mod plan;
mod prefix;
mod reading;
mod request;
mod run;
mod script;
mod snapshot;
mod sound;
mod speak;
pub mod stage;
mod step;
mod streams;
#[cfg(test)]
mod testing;
mod times;
mod voice;
mod words;

pub use audible::{AudibleFrames, Beginning};
pub use choose::{DrawSettings, Drawing, Guidance, Uniforms, ban};
pub use dialogue::{Dialogue, StreamItem};
pub use error::Dia2Error;
pub use grid::{Grid, sanitised};
pub use ids::Ids;
pub use kept::KeptSnapshot;
pub use machine::{StateMachine, StepText, WordStart};
pub use networks::{
    BACKBONE, CODEC_DECODER, CODEC_ENCODER, DEPFORMER, Networks, Pair, reader, streams,
};
pub use plan::{Plan, Speakers, VoiceKind, check_request};
pub use prefix::{MOST_PREFIX, Prefix, Recording};
pub use reading::Reading;
pub use request::{FIELDS, Request};
pub use run::{Run, RunEnd};
pub use script::{Entry, Reader};
pub use snapshot::Snapshot;
pub use sound::{SAMPLE_RATE, StreamingDecoder};
pub use speak::{Speaking, speak};
pub use step::{Chooser, Read, RunState, Step, StepNetworks};
pub use streams::Streams;
pub use times::times;
pub use voice::{Resampling, linear};
pub use words::{Placed, words_of_json};
