//! The Qwen3 trunk: embedding, causal layers, final norm.
//!
//! Source: arXiv:2505.09388; Hugging Face `Qwen3Model`. The caption goes through all of it; lyrics
//! use the embedding table alone.

use burn::{
    module::Module,
    tensor::{Int, Tensor},
};

use super::Config;
use crate::{
    Backend,
    kernel::{Mask, Visibility},
    nn::{Embedding, Layer, RmsNorm, Rope},
};

/// Qwen3 without a language-model head.
#[derive(Module, Debug)]
pub struct Model<B: Backend> {
    embed_tokens: Embedding<B>,
    layers: Vec<Layer<B>>,
    norm: RmsNorm<B>,
    head_dim: usize,
    rope_theta: f64,
}

impl<B: Backend> Model<B> {
    /// A trunk of the configured size.
    pub fn init(config: &Config, device: &B::Device) -> Self {
        let shape = config.layer_shape();
        Self {
            embed_tokens: Embedding::init(config.vocab_size, config.hidden_size, device),
            layers: (0..config.num_hidden_layers).map(|_| Layer::init(&shape, device)).collect(),
            norm: RmsNorm::init(config.hidden_size, config.rms_norm_eps, device),
            head_dim: config.head_dim,
            rope_theta: config.rope_theta,
        }
    }

    /// Rows of the embedding table, without any layer: what the lyric encoder reads.
    ///
    /// # Shapes
    /// - `ids`: `[B, L]`
    /// - output: `[B, L, H]`
    pub fn embed(&self, ids: Tensor<B, 2, Int>) -> Tensor<B, 3> {
        self.embed_tokens.forward(ids)
    }

    /// Rows of the embedding table; ids must be below it.
    pub fn vocabulary(&self) -> usize {
        self.embed_tokens.rows()
    }

    /// The last hidden state, after the final norm.
    ///
    /// No padding mask: attention is causal, so padding on the right reaches only itself.
    ///
    /// # Shapes
    /// - `ids`: `[B, L]`
    /// - output: `[B, L, H]`
    pub fn forward(&self, ids: Tensor<B, 2, Int>) -> Tensor<B, 3> {
        let length = ids.dims()[1];
        let rope = Rope::new(length, self.head_dim, self.rope_theta, &ids.device());
        let mask = Mask::by_position(Visibility::Causal);
        let embedded = self.embed(ids);
        let hidden = self.layers.iter().fold(embedded, |x, layer| layer.forward(x, &rope, &mask));
        self.norm.forward(hidden)
    }
}
