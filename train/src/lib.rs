//! Training of adapters: networks of ACE-Step 1.5 that learn from a few songs, and the loop that any network
//! learns in.

pub mod course;
pub mod curves;
mod error;
pub mod learner;
pub mod lora;
pub mod random;
pub mod release;
pub mod times;

pub use error::Error;
