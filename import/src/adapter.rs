//! Adapters: LoRA, LoKr, LoHa, DoRA and whole differences, added to the weights of the diffusion
//! transformer while they are read.
//!
//! | module | what |
//! |---|---|
//! | `location` | finds the files of an adapter from its path |
//! | `name` | the display name of an adapter |
//! | `other` | recognises files that are not adapters |
//! | `key` | splits a tensor's name into module and role |
//! | `settings` | rank, alpha, and unsupported settings |
//! | `file` | [`Adapter`]: the modules of a file, checked |
//! | `module` | the tensors of one module, and its change of a parameter |
//! | `product` | the kinds of product that form a change |
//! | `target` | the names that tools give to the transformer's modules |
//! | `fused` | layers that combine several of the transformer's modules |
//! | `fit` | [`Fitted`]: an adapter on a model, by module and parameter |
//! | `place` | parameters, each with the module that changes it |
//! | `merge` | [`Adapters`]: several adapters on a model, and their sum |
//! | `delta` | the arithmetic |
//! | `describe` | an adapter in words |
//!
//! An adapter costs nothing during generation: the network keeps its shapes, and each weight is
//! changed on its way from the file into the network.

mod delta;
mod describe;
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
