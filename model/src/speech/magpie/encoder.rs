//! The encoder of the text. It is causal, as the decoder is.
//!
//! Checkpoint: `text_embedding.*`, `encoder.*`.

use burn::{
    module::Module,
    tensor::{Int, Tensor},
};

use super::{Config, Sizes, stack::Stack};
use crate::{Backend, NoTap, Tap, nn::LookupTable};

/// The encoder.
#[derive(Module, Debug)]
pub struct Encoder<B: Backend> {
    text_embedding: LookupTable<B>,
    encoder: Stack<B>,
}

impl<B: Backend> Encoder<B> {
    /// Creates an encoder of the configured size.
    pub fn init(config: &Config, sizes: &Sizes, device: &B::Device) -> Self {
        Self {
            text_embedding: LookupTable::init(sizes.text_rows, config.embedding_dim, device),
            encoder: Stack::init(&config.encoder, None, device),
        }
    }

    /// Returns the largest number of ids.
    pub fn positions(&self) -> usize {
        self.encoder.positions()
    }

    /// Returns the memory of a text.
    ///
    /// # Panics
    /// If there are more ids than positions.
    ///
    /// # Shapes
    /// - `ids`: `[B, L]`
    /// - output: `[B, L, D]`
    pub fn forward(&self, ids: Tensor<B, 2, Int>) -> Tensor<B, 3> {
        self.forward_tapped(ids, &mut NoTap)
    }

    /// [`Self::forward`] that taps `embedded`, `layer{i}.self_attn`, `layer{i}.ff` and `layer{i}`.
    pub fn forward_tapped(&self, ids: Tensor<B, 2, Int>, tap: &mut impl Tap<B>) -> Tensor<B, 3> {
        let x = self.text_embedding.forward(ids);
        tap.tap(format_args!("embedded"), &x);
        let x = self.encoder.forward(0, self.encoder.positioned(x, 0), |_| None, |_, _| (), tap);
        self.encoder.finished(x)
    }
}
