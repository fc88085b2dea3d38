//! The demo model: music that is composed here, the networks that learn it, and the listener that grades them.
//!
//! The product does not depend on this crate. It makes the weights in `import/demo` from nothing.

pub mod codes;
pub mod composer;
pub mod corpus;
pub mod demo;
pub mod exam;
pub mod flow;
pub mod labels;
pub mod language;
pub mod listener;
pub mod sheet;
pub mod spectrum;
pub mod vae;
pub mod vocabulary;
