//! From a request to audio: everything between what was asked and the WAV, no file formats of
//! checkpoints.
//!
//! `Request` (what was asked) -> `Plan` (nothing optional left) -> condition -> latents -> `Audio`.
//!
//! | module | what |
//! |---|---|
//! | [`request`] | what was asked, in upstream's names; other programs' request files |
//! | [`plan`] | every default, range and automatic rule |
//! | [`prompt`] | the two texts that the networks read, byte by byte |
//! | [`codes`] | audio codes as text |
//! | [`flow`] | timesteps, noise, guidance, solver |
//! | [`audio`] | loudness, WAV |
//! | [`exchange`] | conditioning in and out as files |
//! | [`error`] | what can go wrong, and how to mend it |

pub mod audio;
pub mod codes;
pub mod error;
pub mod exchange;
pub mod files;
pub mod flow;
pub mod plan;
pub mod prompt;
pub mod request;

pub use error::{Error, Notice};
pub use plan::{ModelInfo, Plan};
pub use request::Request;
