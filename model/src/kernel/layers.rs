//! Transformer layers over new tokens with a key/value cache, as used in decoding.
//!
//! [`crate::nn::Layer`] is the definition of a layer. A backend may fuse layers of one kind, whose
//! weights are [`LayerWeights`]; their mathematics is the definition's.
//!
//! Source: Qwen3 technical report, arXiv:2505.09388; Hugging Face `modeling_qwen3.py`,
//! `Qwen3DecoderLayer`.

use std::fmt::Debug;

use burn::tensor::Tensor;

use super::{Backend, Mask, Slot, Weight};

/// The weights of a layer with RMS norms, normalised queries and keys, rotary positions, scores
/// over the root of the width, SwiGLU and no biases. They are named as in a checkpoint.
#[derive(Debug, Clone)]
pub struct LayerWeights<B: Backend> {
    /// Norm before attention: `[H]`.
    pub input_layernorm: Tensor<B, 1>,
    /// `[heads D, H]`
    pub q_proj: Weight<B, 2>,
    /// `[kv_heads D, H]`
    pub k_proj: Weight<B, 2>,
    /// `[kv_heads D, H]`
    pub v_proj: Weight<B, 2>,
    /// `[H, heads D]`
    pub o_proj: Weight<B, 2>,
    /// Norm of a query head: `[D]`.
    pub q_norm: Tensor<B, 1>,
    /// Norm of a key head: `[D]`.
    pub k_norm: Tensor<B, 1>,
    /// Norm before the feed-forward block: `[H]`.
    pub post_attention_layernorm: Tensor<B, 1>,
    /// `[I, H]`
    pub gate_proj: Weight<B, 2>,
    /// `[I, H]`
    pub up_proj: Weight<B, 2>,
    /// `[H, I]`
    pub down_proj: Weight<B, 2>,
    /// Epsilon under the root of every norm.
    pub epsilon: f64,
}

/// Positions, cache slots and mask of new tokens.
#[derive(Debug, Clone)]
pub struct NewTokens<'a, B: Backend> {
    /// Cache slots of the tokens: several tokens of one sequence, or one token each of several
    /// sequences in consecutive rows.
    pub slots: &'a [Slot],
    /// Cosines and sines of the positions, `[positions, D / 2]` each; `None` if the layers do not
    /// rotate heads.
    pub rope: Option<[Tensor<B, 2>; 2]>,
    /// Number of cache positions to attend to, the new ones included.
    pub seen: usize,
    /// Number of last positions that a token sees, its own included; `None` if it sees all.
    pub window: Option<usize>,
    /// The mask over the positions `0..seen`: it hides those after a token and before its window.
    pub mask: Mask<B>,
}

/// A layer whose keys and values are kept in a cache.
pub trait CachingLayer<B: Backend>: Debug {
    /// Applies the layer to new tokens and adds their keys and values to `cache`, `[rows, kv_heads,
    /// capacity, D]` each.
    ///
    /// # Shapes
    /// - `x`, output: `[slots, t, H]`
    fn forward_cached(
        &self,
        x: Tensor<B, 3>,
        cache: [&mut Tensor<B, 4>; 2],
        new_tokens: &NewTokens<'_, B>,
    ) -> Tensor<B, 3>;

    /// Returns the weights if the layer is of the kind that kernels fuse.
    fn fused_weights(&self) -> Option<LayerWeights<B>>;
}

/// A layer and its keys and values.
pub type CachedLayer<'a, B> = (&'a dyn CachingLayer<B>, [&'a mut Tensor<B, 4>; 2]);

/// Applies layers to new tokens, one after the other, and adds their keys and values to the caches.
///
/// # Panics
/// If the number of slots is not the number of sequences, or their rows are not consecutive.
///
/// # Shapes
/// - `x`, output: `[slots, t, H]`
pub fn cached_layers<B: Backend>(
    x: Tensor<B, 3>,
    layers: &mut dyn Iterator<Item = CachedLayer<'_, B>>,
    new_tokens: &NewTokens<'_, B>,
) -> Tensor<B, 3> {
    let slots = new_tokens.slots;
    assert_eq!(slots.len(), x.dims()[0], "a place for each sequence");
    assert!(slots.windows(2).all(|two| two[1].row == two[0].row + 1), "rows follow each other");
    B::cached_layers(x, layers, new_tokens)
}

/// Reference of [`cached_layers`], of the same shapes.
pub fn reference<B: Backend>(
    x: Tensor<B, 3>,
    layers: &mut dyn Iterator<Item = CachedLayer<'_, B>>,
    new_tokens: &NewTokens<'_, B>,
) -> Tensor<B, 3> {
    layers.fold(x, |x, (layer, cache)| layer.forward_cached(x, cache, new_tokens))
}
