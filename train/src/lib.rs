//! Training of adapters, and the loop that networks of ACE-Step 1.5 learn in.

pub mod curves;
mod error;
pub mod learner;
pub mod lora;
pub mod random;
pub mod release;
pub mod run;
pub mod times;

pub use error::Error;

use acestep_engine::progress::{Stage, Unit};

/// Training of a network.
pub const LEARNING: Stage = Stage { name: "learning", unit: Unit::Step };
