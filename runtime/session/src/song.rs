//! A request to songs.
//!
//! ```text
//! Order --plan--> Planned --resolve--> Resolved --language model--> Resolved --songs--> Rendered, Found
//! ```
//!
//! | module | content |
//! |---|---|
//! | `adapters` | changed weights of the model |
//! | `resolve`, `resolved` | every decision and every check that needs no network |
//! | `composition` | the language model's task in a song |
//! | `make` | songs and their scores |
//! | `together` | several songs, each network loaded once |
//! | `found`, `scores` | times of lines, scores; the best song |
//! | `saved` | the request that makes the same song again, and tags |
//! | `memory`, `describe` | the memory of a run; its description |

pub mod adapters;
mod composition;
pub mod describe;
mod found;
mod make;
mod memory;
mod resolve;
mod resolved;
mod saved;
mod scores;
mod together;

pub use composition::Composition;
pub use found::{Found, Row, Wants};
pub use make::{Keep, Scored, Song, Take, score_all, score_with, songs, songs_with};
pub use resolve::{Order, Planned, Refusal};
pub use resolved::{Judge, Resolved, Setup};
pub use saved::absolute;
pub use scores::Ranked;
pub use together::{grouped, share_folders};
