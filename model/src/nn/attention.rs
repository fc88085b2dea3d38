//! Attention with grouped key heads and normalised queries and keys, as in Qwen3.
//!
//! Source: Qwen3 technical report, arXiv:2505.09388; Hugging Face `modeling_qwen3.py`. ACE-Step
//! uses the same block in every network, with and without rotary positions.

use burn::{module::Module, tensor::Tensor};

use super::{LayerShape, Linear, RmsNorm, Rope};
use crate::{
    Backend,
    kernel::{self, Mask, Visibility, Weight},
};

/// The projections of one attention block.
#[derive(Module, Debug)]
pub struct Attention<B: Backend> {
    q_proj: Linear<B>,
    k_proj: Linear<B>,
    v_proj: Linear<B>,
    o_proj: Linear<B>,
    q_norm: RmsNorm<B>,
    k_norm: RmsNorm<B>,
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
    /// Creates a block of the given shape.
    pub fn init(shape: &LayerShape, device: &B::Device) -> Self {
        let &LayerShape { hidden, heads, kv_heads, head_dim, epsilon, .. } = shape;
        Self {
            q_proj: Linear::init(hidden, heads * head_dim, device),
            k_proj: Linear::init(hidden, kv_heads * head_dim, device),
            v_proj: Linear::init(hidden, kv_heads * head_dim, device),
            o_proj: Linear::init(heads * head_dim, hidden, device),
            q_norm: RmsNorm::init(head_dim, epsilon, device),
            k_norm: RmsNorm::init(head_dim, epsilon, device),
            heads,
            kv_heads,
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

    /// Computes self attention.
    ///
    /// # Shapes
    /// - `x`, output: `[B, L, H]`
    pub fn forward(&self, x: Tensor<B, 3>, rope: &Rope<B>, mask: &Mask<B>) -> Tensor<B, 3> {
        self.o_proj.forward(self.mixed(x, rope, mask))
    }

    /// Computes `residual + gate forward(x)`, or without a gate `residual + forward(x)`.
    ///
    /// # Shapes
    /// - `residual`, `x`, output: `[B, L, H]`, `gate`: `[B, 1, H]`
    pub fn forward_added(
        &self,
        residual: Tensor<B, 3>,
        gate: Option<Tensor<B, 3>>,
        x: Tensor<B, 3>,
        rope: &Rope<B>,
        mask: &Mask<B>,
    ) -> Tensor<B, 3> {
        self.o_proj.forward_added(residual, gate, self.mixed(x, rope, mask))
    }

    /// [`Self::forward`] before its output projection, `[B, L, heads D]`.
    fn mixed(&self, x: Tensor<B, 3>, rope: &Rope<B>, mask: &Mask<B>) -> Tensor<B, 3> {
        let k = self.k_norm.forward_rotated(self.keys(x.clone()), rope);
        let [k, v] = self.rounded([k, self.values(x.clone())]);
        Self::attend(self.q_norm.forward_rotated(self.queries(x), rope), k, v, mask)
    }

    /// Returns the query, key, value and output maps, `[out, in]` each, and the query and key
    /// norms.
    pub(super) fn weights(&self) -> ([Weight<B, 2>; 4], [Tensor<B, 1>; 2]) {
        let maps = [&self.q_proj, &self.k_proj, &self.v_proj, &self.o_proj];
        let norms = [&self.q_norm, &self.k_norm];
        (maps.map(Linear::weight_alone), norms.map(|norm| norm.parts().0))
    }

    /// Computes cross attention from `x` to another sequence, without positions; see
    /// [`Self::keys_values`].
    ///
    /// # Shapes
    /// - `x`, output: `[B, P, H]`
    pub fn forward_cross(&self, x: Tensor<B, 3>, source: &KeysValues<B>) -> Tensor<B, 3> {
        self.o_proj.forward(self.mixed_cross(x, source))
    }

    /// Computes `residual + forward_cross(x)`.
    ///
    /// # Shapes
    /// - `residual`, `x`, output: `[B, P, H]`
    pub fn forward_cross_added(
        &self,
        residual: Tensor<B, 3>,
        x: Tensor<B, 3>,
        source: &KeysValues<B>,
    ) -> Tensor<B, 3> {
        self.o_proj.forward_added(residual, None, self.mixed_cross(x, source))
    }

    /// [`Self::forward_cross`] before its output projection, `[B, P, heads D]`.
    fn mixed_cross(&self, x: Tensor<B, 3>, source: &KeysValues<B>) -> Tensor<B, 3> {
        let KeysValues { k, v } = source.clone();
        let q = self.q_norm.forward(self.queries(x)).swap_dims(1, 2);
        Self::attend(q, k, v, &Mask::by_position(Visibility::Full))
    }

    /// Returns the attention weights of [`Self::forward_cross`] for the query heads `heads`.
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
        let q = self.q_norm.forward(self.queries(x)).swap_dims(1, 2); // [B, heads, P, D]
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
        let k = self.k_norm.forward(self.keys(source.clone())).swap_dims(1, 2);
        let [k, v] = self.rounded([k, self.values(source)]);
        KeysValues { k, v }
    }

    /// Rounds keys and values as the matrix product for this weight type does.
    fn rounded(&self, both: [Tensor<B, 4>; 2]) -> [Tensor<B, 4>; 2] {
        both.map(|x| kernel::rounded_as(x, self.k_proj.dtype()))
    }

    /// `[B, L, heads, D]`, not yet normalised.
    fn queries(&self, x: Tensor<B, 3>) -> Tensor<B, 4> {
        self.split(self.q_proj.forward(x), self.heads)
    }

    /// `[B, L, kv_heads, D]`, not yet normalised.
    fn keys(&self, x: Tensor<B, 3>) -> Tensor<B, 4> {
        self.split(self.k_proj.forward(x), self.kv_heads)
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
