//! The sizes and options of a transformer layer.

use super::super::{Activation, NormKind};

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
    /// The activation of the feed-forward block.
    pub activation: Activation,
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
            activation: Activation::SwiGlu,
            layer_scale: false,
        }
    }
}
