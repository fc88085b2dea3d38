//! From a request to audio: everything between what was asked and the WAV, no file formats of
//! checkpoints.
//!
//! `Request` (what was asked) -> `Plan` (nothing optional left) -> condition -> latents -> `Audio`.
//!
//! ```
//! use acestep_model::{Checkpoint, Place};
//! use acestep_runtime::{ModelInfo, Parts, Plan, Request, Residency, Unobserved, generate};
//! use burn_flex::{Flex, FlexDevice};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let model = acestep_import::open_tiny()?; // random weights; `open("turbo", &layout)` is a released one
//! let info = ModelInfo::new(model.name(), model.is_turbo(), Checkpoint::<Flex>::configs(&model));
//! let caption = Some("a calm piano melody".to_owned());
//! let request = Request { caption, duration: Some(1.0), ..Request::default() };
//! let (plan, _notices) = Plan::resolve(&request, &info)?;
//! let parts = Parts::<Flex, _>::new(&model, Place::f32(FlexDevice), Residency::Last);
//! for song in generate(&plan, &parts, &Unobserved)? {
//!     assert_eq!((song.audio.sample_rate, song.audio.samples()), (48_000, 48_000));
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Whoever wants to see what happens, or to stop it, hands over an [`Observe`] of their own:
//!
//! ```
//! use acestep_model::{Checkpoint, Place};
//! use acestep_runtime::{
//!     Error, Event, ModelInfo, Observe, Parts, Plan, Request, Residency, generate,
//! };
//! use burn_flex::{Flex, FlexDevice};
//!
//! /// Prints what happens, and has had enough before it begins.
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
//! # let info = ModelInfo::new(model.name(), model.is_turbo(), Checkpoint::<Flex>::configs(&model));
//! # let request = Request { caption: Some("rain".to_owned()), duration: Some(1.0), ..Request::default() };
//! # let (plan, _notices) = Plan::resolve(&request, &info)?;
//! # let parts = Parts::<Flex, _>::new(&model, Place::f32(FlexDevice), Residency::Last);
//! let stopped = generate(&plan, &parts, &Watcher);
//! assert!(matches!(stopped, Err(Error::Cancelled)));
//! # Ok(())
//! # }
//! ```
//!
//! A run keeps everything in its values. What the process shares is tables that never change and the list of
//! cards, which are looked for once. Which backend computes is a type, here
//! [Burn's Flex](https://crates.io/crates/burn-flex) on the processor; [`Device`] turns a choice at run time into one.
//!
//! | module | what |
//! |---|---|
//! | [`request`] | what was asked, in upstream's names; other programs' request files |
//! | [`plan`] | every default, range and automatic rule |
//! | [`prompt`] | the two texts that the networks read, byte by byte |
//! | [`codes`] | audio codes as text |
//! | [`sounds`] | the songs that others are made from |
//! | [`text`], [`condition`], [`source`] | prompts, codes and songs to what sampling starts from |
//! | [`lm`] | the 5 Hz language model: prompts, plan, audio codes |
//! | [`flow`] | timesteps, noise, guidance, solver |
//! | [`vae`] | latents to sound and back, in tiles |
//! | [`audio`] | sound files of many formats in and out, rates, loudness, tags |
//! | [`listen`] | sound to audio codes |
//! | [`align`], [`score`], [`plot`] | after the song: when each line is sung, how good it is, a picture |
//! | [`codec`] | sound to latents and back |
//! | [`pipeline`] | the straight line through all of it |
//! | [`device`], [`host`], [`residency`], [`observe`] | where it runs, what is in memory, who watches |
//! | [`overflow`] | stages that are done again in f32 |
//! | [`exchange`] | conditioning in and out as files |
//! | [`latents`] | latents in and out as files, acestep.cpp's among them |
//! | [`error`], [`nearest`] | what can go wrong, and how to mend it; the name that was probably meant |

pub mod align;
pub mod audio;
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
mod near;
pub mod observe;
pub mod overflow;
pub mod pipeline;
pub mod plan;
pub mod plot;
pub mod prompt;
pub mod request;
pub mod residency;
pub mod score;
pub mod sounds;
pub mod source;
pub mod text;
pub mod texts;
pub mod vae;

#[cfg(test)]
mod test_goldens;

pub use device::{Device, Engine, Job};
pub use error::{Action, Error, Notice};
pub use near::nearest;
pub use observe::{Event, Observe, Stage, Unobserved};
pub use pipeline::{Song, generate};
pub use plan::{ModelInfo, Plan};
pub use request::Request;
pub use residency::{Network, Parts, Residency};
