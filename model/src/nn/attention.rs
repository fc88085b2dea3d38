//! Attention with grouped key heads, over a sequence itself or over another one.
//!
//! Source: Ainslie et al. 2023, arXiv:2305.13245; queries and keys normalised by head: Qwen3
//! technical report, arXiv:2505.09388; Hugging Face `modeling_qwen3.py`.

use std::fmt::Arguments;

use burn::{module::Module, tensor::Tensor};

use super::{LayerShape, LayerSpec, LayerWeights, Linear, Past, RmsNorm, Rope};
use crate::{
    Backend, Tap,
    kernel::{self, Mask, Visibility, Weight},
};

/// Query, key, value and output maps, `[out, in]` each, and query and key norms.
type AttentionWeights<B> = ([Weight<B, 2>; 4], [Tensor<B, 1>; 2]);

/// The projections of one attention block.
#[derive(Module, Debug)]
pub struct Attention<B: Backend> {
    q_proj: Linear<B>,
    k_proj: Linear<B>,
    v_proj: Linear<B>,
    o_proj: Linear<B>,
    q_norm: Option<RmsNorm<B>>,
    k_norm: Option<RmsNorm<B>>,
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
}

/// Keys and values of a sequence, ready for attention: `[B, kv_heads, L, D]` each.
#[derive(Debug, Clone)]
pub struct KeysValues<B: Backend> {
    pub(crate) k: Tensor<B, 4>,
    pub(crate) v: Tensor<B, 4>,
}

impl<B: Backend> Attention<B> {
    /// Creates the attention of a layer.
    pub fn init(spec: &LayerSpec, device: &B::Device) -> Self {
        let LayerShape { hidden, heads, kv_heads, head_dim, epsilon, .. } = spec.shape;
        let norm = || spec.head_norms.then(|| RmsNorm::init(head_dim, epsilon, device));
        Self {
            q_proj: Linear::init(hidden, heads * head_dim, device),
            k_proj: Linear::init(hidden, kv_heads * head_dim, device),
            v_proj: Linear::init(hidden, kv_heads * head_dim, device),
            o_proj: Linear::init(heads * head_dim, hidden, device),
            q_norm: norm(),
            k_norm: norm(),
            heads,
            kv_heads,
            head_dim,
        }
    }

    /// Creates a block of the given weights.
    pub(super) fn of(weights: &LayerWeights<B>) -> Self {
        let of = |weight: &Weight<B, 2>| Linear::of(weight.clone());
        let norm = |weight: &Tensor<B, 1>| Some(RmsNorm::of(weight.clone(), weights.epsilon));
        let [head_dim] = weights.q_norm.dims();
        Self {
            q_proj: of(&weights.q_proj),
            k_proj: of(&weights.k_proj),
            v_proj: of(&weights.v_proj),
            o_proj: of(&weights.o_proj),
            q_norm: norm(&weights.q_norm),
            k_norm: norm(&weights.k_norm),
            heads: weights.q_proj.dims()[0] / head_dim,
            kv_heads: weights.k_proj.dims()[0] / head_dim,
            head_dim,
        }
    }

    /// Returns the four maps with their names.
    pub(crate) fn linears(&mut self) -> [(&'static str, &mut Linear<B>); 4] {
        [
            ("q_proj", &mut self.q_proj),
            ("k_proj", &mut self.k_proj),
            ("v_proj", &mut self.v_proj),
            ("o_proj", &mut self.o_proj),
        ]
    }

    /// Computes self attention without its output map, with or without rotation, and with or without
    /// keys and values of earlier positions. See [`Self::add_output`].
    ///
    /// Without a cache, keys and values are rounded as the maps round their input, so that attention
    /// reads half as many bytes. In a cache they keep the type that the network computes in.
    ///
    /// # Shapes
    /// - `x`: `[B, L, H]`
    /// - output: `[B, L, heads D]`
    pub(crate) fn mixed(
        &self,
        x: Tensor<B, 3>,
        rope: Option<&Rope<B>>,
        mask: &Mask<B>,
        past: Option<Past<'_, B>>,
    ) -> Tensor<B, 3> {
        let (k, v) = (self.keys(x.clone(), rope), self.values(x.clone()));
        let [k, v] = match past {
            None => self.rounded([k, v]),
            Some(past) => past.with(k, v),
        };
        Self::attend(self.queries(x, rope), k, v, mask)
    }

    /// [`Self::mixed`] of a whole sequence at position 0 alone, `[B, 1, heads D]`.
    pub(super) fn mixed_first(
        &self,
        x: Tensor<B, 3>,
        rope: Option<&Rope<B>>,
        mask: &Mask<B>,
    ) -> Tensor<B, 3> {
        let [k, v] = self.rounded([self.keys(x.clone(), rope), self.values(x.clone())]);
        let first = rope.map(Rope::first);
        Self::attend(self.queries(x.narrow(1, 0, 1), first.as_ref()), k, v, mask)
    }

    /// Computes `residual + gate output(mixed)`, or without a gate `residual + output(mixed)`, with
    /// the output map; taps the output as `name`.
    ///
    /// # Shapes
    /// - `residual`, output: `[B, L, H]`, `gate`: `[B, 1, H]`, `mixed`: `[B, L, heads D]`
    pub(crate) fn add_output(
        &self,
        residual: Tensor<B, 3>,
        gate: Option<Tensor<B, 3>>,
        mixed: Tensor<B, 3>,
        name: Arguments<'_>,
        tap: &mut impl Tap<B>,
    ) -> Tensor<B, 3> {
        self.o_proj.forward_added(residual, gate, mixed, name, tap)
    }

    /// Returns the query, key, value and output maps, `[out, in]` each, and the query and key norms,
    /// of a block with norms and without adapters.
    pub(super) fn fused_weights(&self) -> Option<AttentionWeights<B>> {
        let (q_norm, k_norm) = (self.q_norm.as_ref()?, self.k_norm.as_ref()?);
        let [q, k] = [&self.q_proj, &self.k_proj].map(Linear::alone);
        let [v, o] = [&self.v_proj, &self.o_proj].map(Linear::alone);
        Some(([q?, k?, v?, o?], [q_norm.weight(), k_norm.weight()]))
    }

    /// Computes cross attention from `x` to another sequence, without positions and the output map; see
    /// [`Self::keys_values`] and [`Self::add_output`].
    ///
    /// # Shapes
    /// - `x`: `[B, P, H]`
    /// - output: `[B, P, heads D]`
    pub(crate) fn mixed_cross(&self, x: Tensor<B, 3>, source: &KeysValues<B>) -> Tensor<B, 3> {
        let KeysValues { k, v } = source.clone();
        Self::attend(self.queries(x, None), k, v, &Mask::by_position(Visibility::Full))
    }

    /// Returns the attention weights of cross attention for the query heads `heads`.
    ///
    /// # Panics
    /// If a head does not exist, or `heads` is empty.
    ///
    /// # Shapes
    /// - `x`: `[B, P, H]`
    /// - output: `[B, heads, P, L]`, f32
    pub fn weights_cross(
        &self,
        x: Tensor<B, 3>,
        source: &KeysValues<B>,
        heads: &[usize],
    ) -> Tensor<B, 4> {
        let group = self.heads / self.kv_heads;
        let q = self.queries(x, None); // [B, heads, P, D]
        let of = |x: &Tensor<B, 4>, head: usize| x.clone().narrow(1, head, 1);
        let weights =
            |&head: &usize| kernel::attention_weights(of(&q, head), of(&source.k, head / group));
        Tensor::cat(heads.iter().map(weights).collect(), 1)
    }

    /// Computes keys and values of `source`, which are the same in every step.
    ///
    /// # Shapes
    /// - `source`: `[B, L, H]`
    pub fn keys_values(&self, source: Tensor<B, 3>) -> KeysValues<B> {
        let [k, v] = self.rounded([self.keys(source.clone(), None), self.values(source)]);
        KeysValues { k, v }
    }

    /// Rounds keys and values as the matrix product for this weight type does.
    fn rounded(&self, both: [Tensor<B, 4>; 2]) -> [Tensor<B, 4>; 2] {
        both.map(|x| kernel::rounded_as(x, self.k_proj.dtype()))
    }

    /// `[B, heads, L, D]`.
    fn queries(&self, x: Tensor<B, 3>, rope: Option<&Rope<B>>) -> Tensor<B, 4> {
        let q = self.split(self.q_proj.forward(x), self.heads);
        rotated_heads(q, self.q_norm.as_ref(), rope)
    }

    /// `[B, kv_heads, L, D]`.
    fn keys(&self, x: Tensor<B, 3>, rope: Option<&Rope<B>>) -> Tensor<B, 4> {
        let k = self.split(self.k_proj.forward(x), self.kv_heads);
        rotated_heads(k, self.k_norm.as_ref(), rope)
    }

    /// `[B, kv_heads, L, D]`.
    fn values(&self, x: Tensor<B, 3>) -> Tensor<B, 4> {
        self.split(self.v_proj.forward(x), self.kv_heads).swap_dims(1, 2)
    }

    fn split(&self, x: Tensor<B, 3>, heads: usize) -> Tensor<B, 4> {
        let [batch, length, _] = x.dims();
        x.reshape([batch, length, heads, self.head_dim])
    }

    fn attend(q: Tensor<B, 4>, k: Tensor<B, 4>, v: Tensor<B, 4>, mask: &Mask<B>) -> Tensor<B, 3> {
        let [batch, heads, length, width] = q.dims();
        let mixed = kernel::attention(q, k, v, mask);
        mixed.swap_dims(1, 2).reshape([batch, length, heads * width])
    }
}

/// Normalises and rotates heads, `[B, L, heads, D]`, as far as the block does: `[B, heads, L, D]`.
fn rotated_heads<B: Backend>(
    x: Tensor<B, 4>,
    norm: Option<&RmsNorm<B>>,
    rope: Option<&Rope<B>>,
) -> Tensor<B, 4> {
    match (norm, rope) {
        (Some(norm), Some(rope)) => norm.forward_rotated(x, rope),
        (Some(norm), None) => norm.forward(x).swap_dims(1, 2),
        (None, Some(rope)) => rope.apply(x.swap_dims(1, 2)),
        (None, None) => x.swap_dims(1, 2),
    }
}
