//! From a request to songs: all stages between the user's request and the sound, without the file
//! formats of checkpoints.
//!
//! `Request` (user input) -> `Plan` (all values resolved) -> condition -> latents -> `Audio`.
//!
//! ```
//! use acestep_model::Place;
//! use acestep_engine::{Residency, Unobserved};
//! use acestep_music::{ModelInfo, Networks, Plan, Request, generate};
//! use burn_flex::{Flex, FlexDevice};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let model = acestep_import::open_tiny()?; // random weights; `open("turbo", &layout)` is a released one
//! let info = ModelInfo::new(model.name(), model.is_turbo(), model.configs());
//! let mut request = Request::default();
//! request.words.caption = Some("a calm piano melody".to_owned());
//! request.words.duration = Some(1.0);
//! let (plan, _notices) = Plan::resolve(&request, &info)?;
//! let parts = Networks::<Flex>::new(&model, Place::f32(FlexDevice), Residency::LastUsed);
//! for song in generate(&plan, &parts, &Unobserved)? {
//!     assert_eq!((song.audio.sample_rate, song.audio.samples()), (48_000, 48_000));
//! }
//! # Ok(())
//! # }
//! ```
//!
//! To receive progress events or to cancel a run, pass your own [`Observe`](acestep_engine::Observe):
//!
//! ```
//! use acestep_model::Place;
//! use acestep_engine::{Error, Event, Observe, Residency};
//! use acestep_music::{ModelInfo, Networks, Plan, Request, generate};
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
//! # let mut request = Request::default();
//! # request.words.caption = Some("rain".to_owned());
//! # request.words.duration = Some(1.0);
//! # let (plan, _notices) = Plan::resolve(&request, &info)?;
//! # let parts = Networks::<Flex>::new(&model, Place::f32(FlexDevice), Residency::LastUsed);
//! let stopped = generate(&plan, &parts, &Watcher);
//! assert!(matches!(stopped, Err(Error::Cancelled)));
//! # Ok(())
//! # }
//! ```
//!
//! A run keeps all its state in its own values. Global state is only constant tables and the list
//! of GPUs, which is queried once. The backend is a type, here
//! [Burn's Flex](https://crates.io/crates/burn-flex) on the CPU; [`Device`](acestep_engine::Device) selects it at
//! run time.
//!
//! The types that a caller needs are at the root. The modules are open to the other crates of this
//! repository and hidden from this page.
//!
//! | module | content |
//! |---|---|
//! | `request` | user input by topic, with defaults, ranges and automatic rules; request files of other programs |
//! | `plan` | the decided song, and rules for two topics |
//! | `prompt` | the two text inputs of the networks, byte by byte |
//! | `codes` | audio codes as text |
//! | `sounds` | source and reference songs |
//! | `text`, `condition`, `source` | prompts, codes and songs to the inputs of sampling |
//! | `lm` | the 5 Hz language model: prompts, plan, audio codes |
//! | `flow` | timesteps, noise, guidance, solver |
//! | `vae` | latents to sound and back, in tiles |
//! | `tokenize` | sound to audio codes |
//! | `align`, `plot` | after the song: times of the lines, scores, a picture |
//! | `codec` | sound to latents and back |
//! | `pipeline` | all stages in sequence |
//! | `usable` | a song of a batch that cannot be used |
//! | `stage`, `networks` | stages and networks of a song |
//! | `memory`, `needs` | the memory of a stage, and of a run |
//! | `inputs` | noise, a condition and songs that are read in place of what is computed |
//! | `exchange` | conditioning in and out as files |
//! | `latents` | latents in and out as files, also acestep.cpp's |
//! | `error` | errors that only songs have |

#[doc(hidden)]
pub mod align;
#[doc(hidden)]
pub mod codec;
#[doc(hidden)]
pub mod codes;
#[doc(hidden)]
pub mod condition;
#[doc(hidden)]
pub mod error;
#[doc(hidden)]
pub mod exchange;
#[doc(hidden)]
pub mod flow;
#[doc(hidden)]
pub mod inputs;
#[doc(hidden)]
pub mod latents;
#[doc(hidden)]
pub mod lm;
#[doc(hidden)]
pub mod lyrics;
mod memory;
mod model_info;
mod named;
#[doc(hidden)]
pub mod needs;
#[doc(hidden)]
pub mod networks;
#[doc(hidden)]
pub mod pipeline;
#[doc(hidden)]
pub mod plan;
#[doc(hidden)]
pub mod plot;
#[doc(hidden)]
pub mod prompt;
mod python;
#[doc(hidden)]
pub mod request;
#[doc(hidden)]
pub mod sounds;
#[doc(hidden)]
pub mod source;
#[doc(hidden)]
pub mod stage;
#[doc(hidden)]
pub mod text;
#[doc(hidden)]
pub mod tokenize;
mod usable;
#[doc(hidden)]
pub mod vae;

#[cfg(test)]
mod test_goldens;

pub use align::{Aligned, Extras};
pub use codec::Encode;
pub use error::SongError;
pub use exchange::{Array3, Conditioning};
pub use flow::{noise::NoiseSource, schedule::Schedule, solver::Solver};
pub use lm::{
    compose::{Composed, Understood, compose},
    metadata::Metadata,
    settings::LmSettings,
};
pub use model_info::ModelInfo;
pub use networks::{Network, Networks};
pub use pipeline::{
    PlanRun, Rendered, SamplingInputs, Song, generate, generate_all, prepare, prepare_all, render,
    render_and_align,
};
pub use plan::{Plan, Task};
pub use request::Request;
pub use sounds::{Sound, Sounds};
pub use tokenize::codes_of;
