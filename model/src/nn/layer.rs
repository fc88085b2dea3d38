//! The transformer layer of Qwen3, used by every encoder of ACE-Step too.
//!
//! Source: Qwen3 technical report, arXiv:2505.09388; Hugging Face `modeling_qwen3.py`,
//! `Qwen3DecoderLayer`.

use std::fmt::Arguments;

use burn::{module::Module, tensor::Tensor};

use super::{Attention, Mlp, RmsNorm, Rope};
use crate::{
    Backend, NoTap, Tap,
    kernel::{self, LayerWeights, Mask},
};

/// The sizes of one layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LayerShape {
    /// Width of the residual stream.
    pub hidden: usize,
    /// Width inside the feed-forward block.
    pub intermediate: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; a divisor of `heads`.
    pub kv_heads: usize,
    /// Width of one head; `heads * head_dim` need not be `hidden`.
    pub head_dim: usize,
    /// Epsilon under the root of every norm.
    pub epsilon: f64,
}

/// `x + attention(norm(x))`, then `x + mlp(norm(x))`. With a cache, its weights go through
/// [`kernel::cached_layers`] instead, which has the same mathematics.
#[derive(Module, Debug)]
pub struct Layer<B: Backend> {
    input_layernorm: RmsNorm<B>,
    self_attn: Attention<B>,
    post_attention_layernorm: RmsNorm<B>,
    mlp: Mlp<B>,
}

impl<B: Backend> Layer<B> {
    /// Creates a layer of the given shape.
    pub fn init(shape: &LayerShape, device: &B::Device) -> Self {
        let norm = || RmsNorm::init(shape.hidden, shape.epsilon, device);
        Self {
            input_layernorm: norm(),
            self_attn: Attention::init(shape, device),
            post_attention_layernorm: norm(),
            mlp: Mlp::init(shape.hidden, shape.intermediate, device),
        }
    }

    /// # Shapes
    /// - `x`, output: `[B, L, H]`
    pub fn forward(&self, x: Tensor<B, 3>, rope: &Rope<B>, mask: &Mask<B>) -> Tensor<B, 3> {
        self.forward_tapped(x, rope, mask, format_args!(""), &mut NoTap)
    }

    /// [`Self::forward`] that taps `{name}.self_attn.out` and `{name}.out`.
    pub fn forward_tapped<T: Tap<B>>(
        &self,
        x: Tensor<B, 3>,
        rope: &Rope<B>,
        mask: &Mask<B>,
        name: Arguments<'_>,
        tap: &mut T,
    ) -> Tensor<B, 3> {
        let normed = self.input_layernorm.forward(x.clone());
        if !T::LOOKS {
            return self.mixed(self.self_attn.forward_added(x, None, normed, rope, mask));
        }
        let attended = self.self_attn.forward(normed, rope, mask);
        tap.tap(format_args!("{name}.self_attn.out"), &attended);
        let out = self.mixed(kernel::add(x, attended));
        tap.tap(format_args!("{name}.out"), &out);
        out
    }

    /// Returns the weights, for [`kernel::cached_layers`].
    ///
    /// # Panics
    /// If one of its maps has an adapter.
    pub(crate) fn weights(&self) -> LayerWeights<B> {
        let (input_layernorm, epsilon) = self.input_layernorm.parts();
        let (post_attention_layernorm, _) = self.post_attention_layernorm.parts();
        let ([q_proj, k_proj, v_proj, o_proj], [q_norm, k_norm]) = self.self_attn.weights();
        let [gate_proj, up_proj, down_proj] = self.mlp.weights();
        LayerWeights {
            input_layernorm,
            q_proj,
            k_proj,
            v_proj,
            o_proj,
            q_norm,
            k_norm,
            post_attention_layernorm,
            gate_proj,
            up_proj,
            down_proj,
            epsilon,
        }
    }

    fn mixed(&self, x: Tensor<B, 3>) -> Tensor<B, 3> {
        let normed = self.post_attention_layernorm.forward(x.clone());
        self.mlp.forward_added(x, None, normed)
    }
}
