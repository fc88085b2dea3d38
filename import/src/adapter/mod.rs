//! Adapters: LoRA, LoKr, LoHa and DoRA, added to the weights of the diffusion transformer while it
//! is read.
//!
//! | module | what |
//! |---|---|
//! | `location` | the path of an adapter to its files |
//! | `key` | a tensor's name to module and role |
//! | `settings` | rank, alpha, and what is not built |
//! | `file` | [`Adapter`]: the modules of a file, checked |
//! | `module` | the tensors of one module, and what they add to its weight |
//! | `target` | what tools call the transformer's modules |
//! | `merge` | [`Adapters`]: adapters on a model, and the sum |
//! | `delta` | the arithmetic |
//!
//! An adapter costs nothing while a song is made: its network has the shapes it had, and one weight
//! after the other is changed on its way from the file into the network.

mod delta;
mod error;
mod file;
mod key;
mod location;
mod merge;
mod module;
mod settings;
mod target;
#[cfg(test)]
mod tests;

pub use error::AdapterError;
pub use file::Adapter;
pub(crate) use merge::Shared;
pub use merge::{Adapters, Fitted};
