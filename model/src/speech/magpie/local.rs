//! The local transformer: the codes of a stack, one after the other.
//!
//! Micro-step `j` reads the row of the decoder or the embedding of code `j - 1`, and head `j` gives the
//! logits of code `j`. A code's table is one of [`super::Decoder`].
//!
//! Checkpoint: `local_transformer*`.

use burn::{module::Module, tensor::Tensor};

use super::{Config, Sizes, StackConfig, stack::Stack};
use crate::{
    Backend, Place,
    nn::{Cache, Linear},
};

/// The local transformer and its heads.
#[derive(Module, Debug)]
pub struct LocalTransformer<B: Backend> {
    local_transformer_in_projection: Option<Linear<B>>,
    local_transformer: Stack<B>,
    local_transformer_out_projections: Vec<Linear<B>>,
}

/// The codes of a stack so far. A copy continues the same stack a second time.
#[derive(Debug, Clone)]
pub struct LocalState<B: Backend> {
    cache: Cache<B>,
    length: usize,
}

impl<B: Backend> LocalState<B> {
    /// Forgets the codes, for the next stack.
    pub fn clear(&mut self) {
        self.length = 0;
    }

    /// Returns the number of micro-steps since the last [`Self::clear`].
    pub fn length(&self) -> usize {
        self.length
    }
}

impl<B: Backend> LocalTransformer<B> {
    /// Creates a local transformer of the configured size.
    pub fn init(config: &Config, sizes: &Sizes, device: &B::Device) -> Self {
        let own = config.local_transformer(sizes);
        let StackConfig { d_model, .. } = own;
        let width = config.embedding_dim;
        let head = |_| Linear::init_with_bias(d_model, sizes.code_rows(), device);
        Self {
            local_transformer_in_projection: (d_model != width)
                .then(|| Linear::init_with_bias(width, d_model, device)),
            local_transformer: Stack::init(&own, None, device),
            local_transformer_out_projections: (0..config.codes_per_stack(sizes))
                .map(head)
                .collect(),
        }
    }

    /// Returns the number of codes of a stack.
    pub fn heads(&self) -> usize {
        self.local_transformer_out_projections.len()
    }

    /// Returns an empty state for `rows` rows.
    pub fn start(&self, rows: usize, place: &Place<B>) -> LocalState<B> {
        let cache = self.local_transformer.cache(rows, self.local_transformer.positions(), place);
        LocalState { cache, length: 0 }
    }

    /// Computes the next micro-step.
    ///
    /// # Panics
    /// If the stack has no more positions.
    ///
    /// # Shapes
    /// - `input`: `[rows, D]`
    /// - output: `[rows, H]`, for [`Self::logits`]
    pub fn step(&self, input: Tensor<B, 2>, state: &mut LocalState<B>) -> Tensor<B, 2> {
        let rows = input.dims()[0];
        let input = match &self.local_transformer_in_projection {
            Some(projection) => projection.forward(input),
            None => input,
        };
        let stack = &self.local_transformer;
        let LocalState { cache, length } = state;
        let x = stack.positioned(input.unsqueeze_dim(1), *length);
        let all = 0..stack.layers.len();
        let x = stack.forward_next(all, x, 0..rows, *length, cache, |_| None, |_, _| ());
        *length += 1;
        let width = stack.width();
        stack.finished(x).reshape([rows, width])
    }

    /// Returns the logits of code `index` of the stack.
    ///
    /// # Panics
    /// If there is no such code.
    ///
    /// # Shapes
    /// - `hidden`: `[rows, H]`
    /// - output: `[rows, V]`
    pub fn logits(&self, index: usize, hidden: Tensor<B, 2>) -> Tensor<B, 2> {
        self.local_transformer_out_projections[index].forward(hidden)
    }
}
