//! From a request to audio: all stages between the user's request and the encoded sound file,
//! without the file formats of checkpoints.
//!
//! `Request` (user input) -> `Plan` (all values resolved) -> condition -> latents -> `Audio`.
//!
//! ```
//! use acestep_model::Place;
//! use acestep_runtime::{ModelInfo, Networks, Plan, Request, Residency, Unobserved, generate};
//! use burn_flex::{Flex, FlexDevice};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let model = acestep_import::open_tiny()?; // random weights; `open("turbo", &layout)` is a released one
//! let info = ModelInfo::new(model.name(), model.is_turbo(), model.configs());
//! let caption = Some("a calm piano melody".to_owned());
//! let request = Request { caption, duration: Some(1.0), ..Request::default() };
//! let (plan, _notices) = Plan::resolve(&request, &info)?;
//! let parts = Networks::<Flex>::new(&model, Place::f32(FlexDevice), Residency::Last);
//! for song in generate(&plan, &parts, &Unobserved)? {
//!     assert_eq!((song.audio.sample_rate, song.audio.samples()), (48_000, 48_000));
//! }
//! # Ok(())
//! # }
//! ```
//!
//! To receive progress events or to cancel a run, pass your own [`Observe`]:
//!
//! ```
//! use acestep_model::Place;
//! use acestep_runtime::{
//!     Error, Event, ModelInfo, Observe, Networks, Plan, Request, Residency, generate,
//! };
//! use burn_flex::{Flex, FlexDevice};
//!
//! /// Prints events, and cancels at once.
//! struct Watcher;
//!
//! impl Observe for Watcher {
//!     fn event(&self, event: Event) {
//!         println!("{event:?}");
//!     }
//!     fn cancelled(&self) -> bool {
//!         true
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let model = acestep_import::open_tiny()?;
//! # let info = ModelInfo::new(model.name(), model.is_turbo(), model.configs());
//! # let request = Request { caption: Some("rain".to_owned()), duration: Some(1.0), ..Request::default() };
//! # let (plan, _notices) = Plan::resolve(&request, &info)?;
//! # let parts = Networks::<Flex>::new(&model, Place::f32(FlexDevice), Residency::Last);
//! let stopped = generate(&plan, &parts, &Watcher);
//! assert!(matches!(stopped, Err(Error::Cancelled)));
//! # Ok(())
//! # }
//! ```
//!
//! A run keeps all its state in its own values. Global state is only constant tables and the list
//! of GPUs, which is queried once. The backend is a type, here
//! [Burn's Flex](https://crates.io/crates/burn-flex) on the CPU; [`Device`] selects it at
//! run time.
//!
//! | module | content |
//! |---|---|
//! | [`request`] | user input with upstream's names; request files of other programs |
//! | [`plan`] | every default, range and automatic rule |
//! | [`prompt`] | the two text inputs of the networks, byte by byte |
//! | [`codes`] | audio codes as text |
//! | [`sounds`] | source and reference songs |
//! | [`text`], [`condition`], [`source`] | prompts, codes and songs to the inputs of sampling |
//! | [`lm`] | the 5 Hz language model: prompts, plan, audio codes |
//! | [`flow`] | timesteps, noise, guidance, solver |
//! | [`vae`] | latents to sound and back, in tiles |
//! | [`audio`] | sound files of many formats in and out, rates, loudness, tags |
//! | [`listen`] | sound to audio codes |
//! | [`align`], [`plot`] | after the song: times of the lines, scores, a picture |
//! | [`codec`] | sound to latents and back |
//! | [`pipeline`] | all stages in sequence |
//! | [`device`], [`host`], [`residency`], [`observe`] | devices, memory, progress events |
//! | [`overflow`] | retry of a stage in f32 |
//! | [`exchange`] | conditioning in and out as files |
//! | [`latents`] | latents in and out as files, also acestep.cpp's |
//! | [`error`], [`nearest`] | errors and how to fix them; suggestions for misspelt names |

pub mod align;
pub mod audio;
pub mod check;
pub mod codec;
pub mod codes;
pub mod condition;
pub mod device;
pub mod error;
pub mod exchange;
pub mod files;
pub mod flow;
pub mod host;
pub mod latents;
pub mod listen;
pub mod lm;
mod model_info;
pub mod observe;
pub mod overflow;
pub mod pipeline;
pub mod plan;
pub mod plot;
pub mod prompt;
mod python;
pub mod request;
pub mod residency;
pub mod sounds;
pub mod source;
mod suggest;
pub mod text;
pub mod texts;
pub mod vae;

#[cfg(test)]
mod test_goldens;

pub use device::{Device, Engine, Job};
pub use error::{Action, Error, Notice};
pub use model_info::ModelInfo;
pub use observe::{Event, Observe, Stage, Unobserved};
pub use pipeline::{Song, generate};
pub use plan::Plan;
pub use request::Request;
pub use residency::{Network, Networks, Residency};
pub use suggest::nearest;
