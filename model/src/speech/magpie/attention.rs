//! Self attention with one matrix for queries, keys and values, and cross attention with a prior.
//!
//! Source: NeMo 3.0.0 `transformer_2501.py`, `SelfAttention` and `CrossAttention`. The prior is a
//! factor of the weights after the softmax, and each row is normalised again.

use burn::{
    module::Module,
    tensor::{DType, Tensor},
};

use crate::{
    Backend,
    kernel::{self, Mask},
    nn::{KeysValues, Linear, Past},
};

/// Factors of the positions in the text, `[L]`, f32: of the conditional row, in the layers with a
/// prior.
pub type Prior<B> = Tensor<B, 1>;

/// Causal self attention.
#[derive(Module, Debug)]
pub(super) struct SelfAttention<B: Backend> {
    qkv_net: Linear<B>,
    o_net: Linear<B>,
    heads: usize,
}

impl<B: Backend> SelfAttention<B> {
    pub(super) fn init(width: usize, heads: usize, device: &B::Device) -> Self {
        Self {
            qkv_net: Linear::init(width, 3 * width, device),
            o_net: Linear::init(width, width, device),
            heads,
        }
    }

    /// # Shapes
    /// - `x`, output: `[B, T, D]`
    pub(super) fn forward(
        &self,
        x: Tensor<B, 3>,
        mask: &Mask<B>,
        past: Option<Past<'_, B>>,
    ) -> Tensor<B, 3> {
        let qkv = self.qkv_net.forward(x); // [B, T, 3 D]
        let width = qkv.dims()[2] / 3;
        let part = |index| heads_of(qkv.clone().narrow(2, index * width, width), self.heads);
        let (q, k, v) = (part(0), part(1), part(2));
        let [k, v] = match past {
            None => [k, v],
            Some(past) => past.with(k, v),
        };
        self.o_net.forward(joined(kernel::attention(q, k, v, mask)))
    }
}

/// Attention to the memory of the text.
#[derive(Module, Debug)]
pub(super) struct CrossAttention<B: Backend> {
    q_net: Linear<B>,
    kv_net: Linear<B>,
    o_net: Linear<B>,
    heads: usize,
}

impl<B: Backend> CrossAttention<B> {
    pub(super) fn init(
        [width, memory]: [usize; 2],
        heads: usize,
        head_dim: usize,
        device: &B::Device,
    ) -> Self {
        let inner = heads * head_dim;
        Self {
            q_net: Linear::init(width, inner, device),
            kv_net: Linear::init(memory, 2 * inner, device),
            o_net: Linear::init(inner, width, device),
            heads,
        }
    }

    /// Computes keys and values of the memory, which are the same in every step.
    ///
    /// # Shapes
    /// - `memory`: `[1, L, M]`, after its norm
    pub(super) fn keys_values(&self, memory: Tensor<B, 3>) -> KeysValues<B> {
        let both = self.kv_net.forward(memory); // [1, L, 2 inner]
        let inner = both.dims()[2] / 2;
        let part = |index| heads_of(both.clone().narrow(2, index * inner, inner), self.heads);
        KeysValues { k: part(0), v: part(1) }
    }

    /// Returns the output and the attention weights after the prior.
    ///
    /// # Shapes
    /// - `x`, output: `[1, T, D]`
    /// - weights: `[1, heads, T, L]`, f32
    pub(super) fn forward(
        &self,
        x: Tensor<B, 3>,
        KeysValues { k, v }: &KeysValues<B>,
        prior: Option<&Prior<B>>,
    ) -> (Tensor<B, 3>, Tensor<B, 4>) {
        let q = heads_of(self.q_net.forward(x), self.heads);
        let weights = kernel::attention_weights(q, k.clone());
        let weights = match prior {
            None => weights,
            Some(prior) => {
                let length = prior.dims()[0];
                let weighted = weights * prior.clone().reshape([1, 1, 1, length]).cast(DType::F32);
                // The softmax is above 0 only up to rounding: a row far from the prior may be zeros.
                let sum = weighted.clone().sum_dim(3).clamp_min(f32::MIN_POSITIVE);
                weighted / sum
            }
        };
        let mixed = kernel::batched_product(weights.clone().cast(v.dtype()), v.clone());
        (self.o_net.forward(joined(mixed)), weights)
    }
}

/// `[B, T, heads D]` to `[B, heads, T, D]`.
fn heads_of<B: Backend>(x: Tensor<B, 3>, heads: usize) -> Tensor<B, 4> {
    let [batch, length, width] = x.dims();
    x.reshape([batch, length, heads, width / heads]).swap_dims(1, 2)
}

/// `[B, heads, T, D]` to `[B, T, heads D]`.
fn joined<B: Backend>(x: Tensor<B, 4>) -> Tensor<B, 3> {
    let [batch, heads, length, width] = x.dims();
    x.swap_dims(1, 2).reshape([batch, length, heads * width])
}
