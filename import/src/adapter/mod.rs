//! Adapters: LoRA, LoKr, LoHa, DoRA and whole differences, added to the weights of the diffusion
//! transformer while it is read.
//!
//! | module | what |
//! |---|---|
//! | `location` | the path of an adapter to its files |
//! | `name` | what it is called |
//! | `other` | what a file is that is no adapter |
//! | `key` | a tensor's name to module and role |
//! | `settings` | rank, alpha, and what is not built |
//! | `file` | [`Adapter`]: the modules of a file, checked |
//! | `module` | the tensors of one module, and what they add to its parameters |
//! | `product` | the products that a change can be |
//! | `target` | what tools call the transformer's modules |
//! | `fused` | layers that are several of the transformer's in one |
//! | `fit` | [`Fitted`]: an adapter on a model, by module and parameter |
//! | `place` | parameters, each with what changes it |
//! | `merge` | [`Adapters`]: several on a model, and the sum |
//! | `delta` | the arithmetic |
//!
//! An adapter costs nothing while a song is made: its network has the shapes it had, and one weight
//! after the other is changed on its way from the file into the network.

mod delta;
mod file;
mod fit;
mod fused;
mod location;
mod merge;
mod module;
mod name;
mod other;
mod place;
mod product;
mod settings;
mod target;
#[cfg(test)]
mod tests;

use crate::adapter_key as key;
pub use crate::error::AdapterError;
pub use file::Adapter;
pub use fit::Fitted;
pub use merge::Adapters;
pub(crate) use merge::Shared;
