//! The Qwen3 trunk: embedding, causal layers, final norm.
//!
//! Source: arXiv:2505.09388; Hugging Face `Qwen3Model`. The caption goes through the whole trunk;
//! lyrics use only the embedding table.

use burn::{
    module::Module,
    tensor::{DType, Int, Tensor},
};

use super::Config;
use crate::{
    Backend, NoTap, Place, Tap,
    kernel::{Mask, Slot, Visibility, Weight},
    nn::{Cache, Context, Embedding, Layer, LayerSpec, Positions, RmsNorm, Rope, forward_cached},
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
    /// Creates a trunk of the configured size.
    pub fn init(config: &Config, device: &B::Device) -> Self {
        let spec = LayerSpec::new(config.layer_shape());
        Self {
            embed_tokens: Embedding::init(config.vocab_size, config.hidden_size, device),
            layers: (0..config.num_hidden_layers).map(|_| Layer::init(&spec, device)).collect(),
            norm: RmsNorm::init(config.hidden_size, config.rms_norm_eps, device),
            head_dim: config.head_dim,
            rope_theta: config.rope_theta,
        }
    }

    /// Returns rows of the embedding table without any layer, as input of the lyric encoder.
    ///
    /// # Shapes
    /// - `ids`: `[B, L]`
    /// - output: `[B, L, H]`
    pub fn embed(&self, ids: Tensor<B, 2, Int>) -> Tensor<B, 3> {
        self.embed_tokens.forward(ids).cast(DType::F32)
    }

    /// Returns the type of the weights.
    pub fn dtype(&self) -> DType {
        self.embed_tokens.dtype()
    }

    /// Returns the number of rows of the embedding table; ids must be less.
    pub fn vocabulary(&self) -> usize {
        self.embed_tokens.rows()
    }

    /// Computes the last hidden state, after the final norm.
    ///
    /// No padding mask is needed: attention is causal, so padding on the right only affects itself.
    ///
    /// # Shapes
    /// - `ids`: `[B, L]`
    /// - output: `[B, L, H]`
    pub fn forward(&self, ids: Tensor<B, 2, Int>) -> Tensor<B, 3> {
        self.forward_tapped(ids, &mut NoTap)
    }

    /// [`Self::forward`] that taps each layer's attention and output, and `norm.out`.
    pub fn forward_tapped(&self, ids: Tensor<B, 2, Int>, tap: &mut impl Tap<B>) -> Tensor<B, 3> {
        self.hidden(ids, tap).cast(DType::F32)
    }

    /// [`Self::forward_tapped`] in the computation type.
    pub(super) fn hidden(&self, ids: Tensor<B, 2, Int>, tap: &mut impl Tap<B>) -> Tensor<B, 3> {
        let place = Place { device: ids.device(), dtype: self.dtype() };
        let rope = Rope::new(ids.dims()[1], self.head_dim, self.rope_theta, &place);
        let mask = Mask::by_position(Visibility::Causal { first: 0 });
        let context = Context { rope: Some(&rope), mask: &mask };
        let mut hidden = self.embed_tokens.forward(ids);
        for (i, layer) in self.layers.iter().enumerate() {
            hidden = layer.forward_tapped(hidden, &context, None, format_args!("layer{i}"), tap);
        }
        let hidden = self.norm.forward(hidden);
        tap.tap(format_args!("norm.out"), &hidden);
        hidden
    }

    /// Returns the rows of the embedding table in the type that the network computes in.
    ///
    /// # Shapes
    /// - `ids`: `[B, L]`
    /// - output: `[B, L, H]`
    pub(super) fn embedded(&self, ids: Tensor<B, 2, Int>) -> Tensor<B, 3> {
        self.embed_tokens.forward(ids)
    }

    /// Appends new tokens to the cache and returns the hidden states of the last `wanted` tokens of each
    /// sequence, after the final norm.
    ///
    /// Takes several tokens of one sequence, or one token for each of several sequences.
    ///
    /// # Shapes
    /// - `x`: `[slots, t, H]`, embeddings in the computation type
    /// - output: `[slots, wanted, H]`, in the computation type
    pub(super) fn forward_cached(
        &self,
        x: Tensor<B, 3>,
        slots: &[Slot],
        wanted: usize,
        cache: &mut Cache<B>,
    ) -> Tensor<B, 3> {
        let before = x.dims()[1] - wanted;
        let positions = Positions { rope_theta: Some(self.rope_theta), window: None };
        let hidden = forward_cached(&self.layers, x, slots, positions, cache);
        self.norm.forward(hidden.narrow(1, before, wanted))
    }

    /// Returns the embedding table, `[vocabulary, H]`.
    pub(super) fn table(&self) -> Weight<B, 2> {
        self.embed_tokens.table()
    }
}
