//! Qwen3 with a head: the next token's scores.

use burn::{module::Module, tensor::Tensor};

use super::{Config, Model};
use crate::{Backend, nn::Linear};

/// A causal language model: the trunk and a head, which is the embedding table unless the
/// checkpoint has its own.
#[derive(Module, Debug)]
pub struct Causal<B: Backend> {
    model: Model<B>,
    lm_head: Option<Linear<B>>,
}
