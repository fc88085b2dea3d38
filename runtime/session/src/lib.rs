//! Tasks of a user, from a request to results: opens models, checks memory, runs them.
//!
//! The program and a server give the values, and show the results. Each task has two forms: on an
//! [`Engine`](acestep_engine::Engine), which loads the networks and drops them, and generic over
//! the backend (`.._with`; [`speech::open_on`]), with networks that the caller keeps.
//!
//! | module | content |
//! |---|---|
//! | `start` | the device, the type of the weights, threads, kept kernels |
//! | `song` | a request to songs: decided, made, described |
//! | `language`, `writing` | the language model alone |
//! | `understand` | a song to words |
//! | `codec` | sound to latents and back |
//! | `speech` | texts to speech; kept voices |
//! | `adapter` | a LoRA or similar adapter, and its fit to a model |
//! | `quantize` | matrices in int8, kept beside the weights |
//! | `doctor` | findings about this machine |
//! | `settings` | the user's settings: a file, the environment, flags |
//! | `outcome` | facts about a run, from its events |
//! | `steps` | the progress of a stage in words |
//! | `texts` | texts and requests in files of the user |
//! | `outputs` | names and formats of files that are written |
//! | `memory` | the check before loading |
//! | `error` | errors that only tasks have |

pub mod adapter;
pub mod codec;
pub mod doctor;
mod error;
pub mod language;
pub mod memory;
pub mod outcome;
pub mod outputs;
pub mod quantize;
pub mod settings;
pub mod song;
pub mod speech;
pub mod start;
pub mod steps;
pub mod texts;
pub mod understand;
pub mod writing;

pub use error::SessionError;
