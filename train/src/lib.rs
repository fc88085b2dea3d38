//! Training of ACE-Step 1.5 networks on procedurally composed music.

pub mod codes;
pub mod composer;
pub mod corpus;
pub mod course;
pub mod curves;
pub mod demo;
mod error;
pub mod flow;
pub mod labels;
pub mod language;
pub mod learner;
pub mod lora;
pub mod release;
pub mod sheet;
pub mod spectrum;
pub mod vae;
pub mod vocabulary;

pub use error::Error;
