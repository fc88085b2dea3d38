//! The demo model: composed music, the training of its networks, and the exam with its listener.
//!
//! The product does not depend on this crate. This crate makes the weights in `import/demo.tar.gz`.

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
