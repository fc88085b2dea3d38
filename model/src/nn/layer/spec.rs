//! The sizes and options of a transformer layer.

use super::super::{Activation, Linear, NormKind};
use crate::Backend;

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

/// The sizes of a layer's cross attention.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CrossShape {
    /// Width of the other sequence.
    pub source: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; a divisor of `heads`.
    pub kv_heads: usize,
    /// Width of one head.
    pub head_dim: usize,
}

/// The sizes and options of one layer. Positions are not an option: they are an input, as rotary
/// tables or within the hidden states.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LayerSpec {
    /// The sizes.
    pub shape: LayerShape,
    /// The norms before the blocks.
    pub norm: NormKind,
    /// True if queries and keys are normalised by head, with RMS norms.
    pub head_norms: bool,
    /// True if all linear maps have biases.
    pub bias: bool,
    /// Factor of the scores; `None` for `1 / sqrt(head_dim)`.
    pub score_scale: Option<f64>,
    /// The activation of the feed-forward block.
    pub activation: Activation,
    /// Attention to another sequence, between self attention and the feed-forward block.
    pub cross: Option<CrossShape>,
    /// True if the outputs of self attention and of the feed-forward block are multiplied by a
    /// learned factor per channel.
    pub layer_scale: bool,
}

impl LayerSpec {
    /// Returns the layer of the language models here: RMS norms, normalised queries and keys,
    /// SwiGLU, no biases.
    pub fn new(shape: LayerShape) -> Self {
        Self {
            shape,
            norm: NormKind::Rms,
            head_norms: true,
            bias: false,
            score_scale: None,
            activation: Activation::SwiGlu,
            cross: None,
            layer_scale: false,
        }
    }

    /// Creates a map from `input` to `output` values.
    pub(in super::super) fn map<B: Backend>(
        &self,
        input: usize,
        output: usize,
        device: &B::Device,
    ) -> Linear<B> {
        match self.bias {
            true => Linear::init_with_bias(input, output, device),
            false => Linear::init(input, output, device),
        }
    }
}
