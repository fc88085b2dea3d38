//! The transformer layer of Qwen3, which is also every encoder layer of ACE-Step.

use burn::{module::Module, tensor::Tensor};

use super::{Attention, Mlp, RmsNorm, Rope};
use crate::{Backend, kernel::Mask};

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
    /// Added under every norm's root.
    pub epsilon: f64,
}

/// `x + attention(norm(x))`, then `x + mlp(norm(x))`.
#[derive(Module, Debug)]
pub struct Layer<B: Backend> {
    input_layernorm: RmsNorm<B>,
    self_attn: Attention<B>,
    post_attention_layernorm: RmsNorm<B>,
    mlp: Mlp<B>,
}

impl<B: Backend> Layer<B> {
    /// A layer of the given shape.
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
        let attended = self.self_attn.forward(self.input_layernorm.forward(x.clone()), rope, mask);
        let x = x + attended;
        let mixed = self.mlp.forward(self.post_attention_layernorm.forward(x.clone()));
        x + mixed
    }
}
