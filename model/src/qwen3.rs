//! Qwen3: the trunk of the text encoder and of the language model.

mod causal;
mod config;
mod model;

pub use causal::Causal;
pub use config::Config;
pub use model::Model;
