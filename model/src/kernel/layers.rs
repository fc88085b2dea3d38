//! Transformer layers over new tokens with a key/value cache, as used in decoding.
//!
//! Source: Qwen3 technical report, arXiv:2505.09388; Hugging Face `modeling_qwen3.py`,
//! `Qwen3DecoderLayer`.

use burn::tensor::Tensor;

use super::{
    Backend, Mask, Slot, Weight, add, attention, cache_write, linear, norm_rotate, rms_norm, swiglu,
};

/// The weights of a layer, named as in a checkpoint.
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
pub struct Reading<'a, B: Backend> {
    /// Cache slots of the tokens: several tokens of one sequence, or one token each of several
    /// sequences in consecutive rows.
    pub slots: &'a [Slot],
    /// Cosines and sines of the positions, `[positions, D / 2]` each.
    pub rope: [Tensor<B, 2>; 2],
    /// Number of cache positions to attend to, the new ones included.
    pub seen: usize,
    /// Mask over these positions.
    pub mask: Mask<B>,
}

/// A layer and its keys and values, `[rows, kv_heads, capacity, D]` each.
pub type CachedLayer<'a, B> = (LayerWeights<B>, [&'a mut Tensor<B, 4>; 2]);

/// Applies layers to new tokens, one after the other, and adds their keys and values to the caches.
///
/// A sequence without a cache goes through [`crate::nn::Layer`], which has the same mathematics.
///
/// # Panics
/// If the number of slots is not the number of sequences, or their rows are not consecutive.
///
/// # Shapes
/// - `x`, output: `[slots, t, H]`
pub fn cached_layers<B: Backend>(
    x: Tensor<B, 3>,
    layers: &mut dyn Iterator<Item = CachedLayer<'_, B>>,
    reading: &Reading<'_, B>,
) -> Tensor<B, 3> {
    let slots = reading.slots;
    assert_eq!(slots.len(), x.dims()[0], "a place for each sequence");
    assert!(slots.windows(2).all(|two| two[1].row == two[0].row + 1), "rows follow each other");
    B::cached_layers(x, layers, reading)
}

/// Reference of [`cached_layers`], of the same shapes.
pub fn reference<B: Backend>(
    x: Tensor<B, 3>,
    layers: &mut dyn Iterator<Item = CachedLayer<'_, B>>,
    reading: &Reading<'_, B>,
) -> Tensor<B, 3> {
    layers.fold(x, |x, layer| one(x, layer, reading))
}

/// Applies one layer.
pub(super) fn one<B: Backend>(
    x: Tensor<B, 3>,
    (weights, [keys, values]): CachedLayer<'_, B>,
    reading: &Reading<'_, B>,
) -> Tensor<B, 3> {
    let [slots, t, _] = x.dims();
    let [width] = weights.q_norm.dims();
    let epsilon = weights.epsilon;
    let [cos, sin] = reading.rope.clone();
    let split = |x: Tensor<B, 3>| {
        let heads = x.dims()[2] / width;
        x.reshape([slots, t, heads, width])
    };

    let normed = rms_norm(x.clone(), weights.input_layernorm, epsilon);
    let k = split(linear(normed.clone(), weights.k_proj, None));
    let k = norm_rotate(k, weights.k_norm, epsilon, cos.clone(), sin.clone());
    let v = split(linear(normed.clone(), weights.v_proj, None)).swap_dims(1, 2);
    keys.inplace(|cache| cache_write(cache, k, reading.slots));
    values.inplace(|cache| cache_write(cache, v, reading.slots));
    let q = split(linear(normed, weights.q_proj, None));
    let q = norm_rotate(q, weights.q_norm, epsilon, cos, sin);
    let [keys, values] = [keys, values].map(|cache| seen(cache, reading.slots, reading.seen));
    let mixed = attention(q, keys, values, &reading.mask).swap_dims(1, 2);
    let heads = mixed.dims()[2];
    let x = add(x, linear(mixed.reshape([slots, t, heads * width]), weights.o_proj, None));

    let normed = rms_norm(x.clone(), weights.post_attention_layernorm, epsilon);
    let gate = linear(normed.clone(), weights.gate_proj, None);
    let gated = swiglu(gate, linear(normed, weights.up_proj, None));
    add(x, linear(gated, weights.down_proj, None))
}

/// Returns the first `length` positions of the rows of `slots`, `[slots, kv_heads, length, D]`.
pub(super) fn seen<B: Backend>(
    cache: &Tensor<B, 4>,
    slots: &[Slot],
    length: usize,
) -> Tensor<B, 4> {
    cache.clone().narrow(0, slots[0].row, slots.len()).narrow(2, 0, length)
}
