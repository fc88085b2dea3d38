//! The proofs of `acestep`: stored results, kernels, songs and speed, on the user's machine.
//!
//! | module | contents |
//! |---|---|
//! | [`verify`] | stored results of the reference, compared |
//! | [`check`] | everything that a machine with a GPU has to show, in child processes |
//! | [`mod@bench`] | the speed of each stage alone |
//! | [`families`] | the tables of a model family: its goldens, its presets, its stages |
//! | `golden`, `measure`, `rows` | comparing, timing, and the rows of a report |
//! | `machine`, `markdown` | the machine, tables |
//!
//! The program parses flags and prints; it is the [`Host`] of a run.

pub mod bench;
pub mod check;
mod error;
pub mod families;
mod golden;
mod host;
mod machine;
mod markdown;
mod measure;
mod rows;
pub mod verify;

pub use error::Error;
pub use host::Host;
pub use measure::{BenchStage, ceilings::Ceilings};
