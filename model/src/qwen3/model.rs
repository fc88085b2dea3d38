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
    kernel::{self, Mask, Reading, Slot, Visibility, Weight, flags},
    nn::{Cache, Embedding, Layer, RmsNorm, Rope, STEP},
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
        let shape = config.layer_shape();
        Self {
            embed_tokens: Embedding::init(config.vocab_size, config.hidden_size, device),
            layers: (0..config.num_hidden_layers).map(|_| Layer::init(&shape, device)).collect(),
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

    /// Returns the weights' type with `device`, for tensors that are used together with them.
    fn place(&self, device: B::Device) -> Place<B> {
        Place { device, dtype: self.dtype() }
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
        let place = self.place(ids.device());
        let rope = Rope::new(ids.dims()[1], self.head_dim, self.rope_theta, &place);
        let mask = Mask::by_position(Visibility::Causal { first: 0 });
        let mut hidden = self.embed_tokens.forward(ids);
        for (i, layer) in self.layers.iter().enumerate() {
            hidden = layer.forward_tapped(hidden, &rope, &mask, format_args!("layer{i}"), tap);
        }
        let hidden = self.norm.forward(hidden);
        tap.tap(format_args!("norm.out"), &hidden);
        hidden
    }

    /// Appends new tokens to the cache and returns the last hidden state of the last token of each
    /// sequence, after the final norm.
    ///
    /// Takes several tokens of one sequence, or one token for each of several sequences.
    ///
    /// # Shapes
    /// - `ids`: `[slots, t]`
    /// - output: `[slots, 1, H]`, in the computation type
    pub(super) fn forward_cached(
        &self,
        ids: Tensor<B, 2, Int>,
        slots: &[Slot],
        cache: &mut Cache<B>,
    ) -> Tensor<B, 3> {
        let last = ids.dims()[1] - 1;
        let hidden = self.through_cached(ids, slots, cache);
        self.norm.forward(hidden.narrow(1, last, 1))
    }

    /// [`Self::forward_cached`] that returns the hidden states of all new tokens.
    ///
    /// # Shapes
    /// - output: `[slots, t, H]`, in the computation type
    pub(super) fn forward_cached_all(
        &self,
        ids: Tensor<B, 2, Int>,
        slots: &[Slot],
        cache: &mut Cache<B>,
    ) -> Tensor<B, 3> {
        self.norm.forward(self.through_cached(ids, slots, cache))
    }

    /// [`Self::forward_cached_all`] without the final norm.
    fn through_cached(
        &self,
        ids: Tensor<B, 2, Int>,
        slots: &[Slot],
        cache: &mut Cache<B>,
    ) -> Tensor<B, 3> {
        let t = ids.dims()[1];
        let device = ids.device();
        assert!(t == 1 || slots.len() == 1, "{t} tokens for each of {} sequences", slots.len());
        let ends: Vec<usize> = slots.iter().map(|slot| slot.start + t).collect();
        let seen = ends.iter().copied().max().unwrap_or(0);
        assert!(seen <= cache.capacity(), "{seen} tokens, room for {}", cache.capacity());
        let seen = seen.next_multiple_of(STEP);
        let positions = slots.iter().flat_map(|slot| slot.start..slot.start + t);
        let mask = match slots {
            [one] => Mask::by_position(Visibility::Causal { first: one.start }),
            _ => {
                let row = |&end: &usize| (0..seen).map(|j| j < end).collect();
                let keys = flags(&ends.iter().map(row).collect::<Vec<_>>(), &device);
                Mask { visibility: Visibility::Full, keys }
            }
        };
        let rope = Rope::at(positions, self.head_dim, self.rope_theta, &self.place(device));
        let rope = rope.tables().into();
        let reading = Reading { slots, rope, seen, mask };
        let hidden = self.embed_tokens.forward(ids);
        let hidden = {
            let mut layers = self.layers.iter().map(Layer::weights).zip(cache.layers_mut());
            kernel::cached_layers(hidden, &mut layers, &reading)
        };
        cache.advance(slots, t);
        hidden
    }

    /// Returns the embedding table, `[vocabulary, H]`.
    pub(super) fn table(&self) -> Weight<B, 2> {
        self.embed_tokens.table()
    }
}
