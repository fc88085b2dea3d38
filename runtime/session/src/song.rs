//! A request to songs.
//!
//! ```text
//! Order --plan--> Planned --resolve--> Resolved --language model--> Resolved --songs--> Rendered, ExtraResults
//! ```
//!
//! | module | content |
//! |---|---|
//! | `adapters` | changed weights of the model |
//! | `resolve`, `resolved` | every decision and every check that needs no network |
//! | `composition` | the language model's task in a song |
//! | `make` | songs and their scores |
//! | `together` | several songs, each network loaded once |
//! | `extras`, `scores` | times of lines, scores; the best song |
//! | `saved` | the request that makes the same song again, and tags |
//! | `memory`, `describe` | the memory of a run; its description |

pub mod adapters;
mod composition;
pub mod describe;
mod extras;
mod make;
mod memory;
mod resolve;
mod resolved;
mod saved;
mod scores;
mod together;

pub use composition::Composition;
pub use extras::{ExtraOptions, ExtraResults, SongScores};
pub use make::{OnConditions, OnSong, Scored, SongRun, score_all, score_with, songs, songs_with};
pub use resolve::{Order, PlanError, Planned};
pub use resolved::{Judge, Resolved, Setup};
pub use saved::absolute;
pub use scores::Ranked;
pub use together::{grouped, share_folders};
