//! Tasks of a user, from a request to results: opens models, checks memory, runs them.
//!
//! The program and a server give the values, and show the results. Each task has two forms: on an
//! [`Engine`](acestep_engine::Engine), which loads the networks and drops them, and generic over
//! the backend (`.._with`), with networks that the caller keeps.
//!
//! | module | content |
//! |---|---|
//! | `song` | a request to songs: decided, made, described |
//! | `language`, `writing` | the language model alone |
//! | `understand` | a song to words |
//! | `codec` | sound to latents and back |
//! | `speech` | texts to speech; kept voices |
//! | `quantize` | matrices in int8, kept beside the weights |
//! | `outcome` | what is known of a run from its events |
//! | `memory` | the check before loading |
//! | `error` | errors that only tasks have |

pub mod codec;
mod error;
pub mod language;
pub mod memory;
pub mod outcome;
pub mod quantize;
pub mod song;
pub mod speech;
pub mod understand;
pub mod writing;

pub use error::SessionError;
