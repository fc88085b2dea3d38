//! The transformer layer, with the options of its variants.
//!
//! `x + attention(norm(x))`, then `x + mlp(norm(x))`.
//!
//! Source: Vaswani et al. 2017, arXiv:1706.03762, with norms before the blocks; Qwen3 technical
//! report, arXiv:2505.09388; Hugging Face `modeling_qwen3.py`, `Qwen3DecoderLayer`; factors per
//! channel: Touvron et al. 2021, arXiv:2103.17239.

mod spec;
#[cfg(all(test, feature = "cpu"))]
pub(super) mod tests;

pub use spec::{LayerShape, LayerSpec};

use std::fmt::Arguments;

use burn::{
    module::{Module, Param},
    tensor::Tensor,
};

use super::{Attention, Mlp, Norm, Past, Rope, random};
use crate::{
    Backend, NoTap, Tap,
    kernel::{CachingLayer, LayerWeights, Mask, NewTokens},
};

/// One layer.
#[derive(Module, Debug)]
pub struct Layer<B: Backend> {
    input_layernorm: Norm<B>,
    self_attn: Attention<B>,
    post_attention_layernorm: Norm<B>,
    mlp: Mlp<B>,
    self_attn_layer_scale: Option<LayerScale<B>>,
    mlp_layer_scale: Option<LayerScale<B>>,
}

/// A factor for each channel.
#[derive(Module, Debug)]
struct LayerScale<B: Backend> {
    scale: Param<Tensor<B, 1>>,
}

impl<B: Backend> LayerScale<B> {
    /// Returns the factors for `batch` sequences, `[batch, 1, H]`.
    fn gate(&self, batch: usize) -> Tensor<B, 3> {
        let scale = self.scale.val();
        let [width] = scale.dims();
        scale.reshape([1, 1, width]).expand([batch, 1, width])
    }
}

/// Inputs of a layer besides the hidden states.
#[derive(Debug)]
pub struct Context<'a, B: Backend> {
    /// Rotary positions; `None` if the heads are not rotated.
    pub rope: Option<&'a Rope<B>>,
    /// The keys that each position sees.
    pub mask: &'a Mask<B>,
}

impl<B: Backend> Layer<B> {
    /// Creates a layer of the given sizes and options.
    pub fn init(spec: &LayerSpec, device: &B::Device) -> Self {
        let hidden = spec.shape.hidden;
        let norm = || Norm::init(spec.norm, hidden, spec.shape.epsilon, device);
        let scale =
            || spec.layer_scale.then(|| LayerScale { scale: random([hidden], 0.5, device) });
        Self {
            input_layernorm: norm(),
            self_attn: Attention::init(spec, device),
            post_attention_layernorm: norm(),
            mlp: Mlp::init(spec, device),
            self_attn_layer_scale: scale(),
            mlp_layer_scale: scale(),
        }
    }

    /// Computes the layer over a whole sequence, or with `past` over its next positions.
    ///
    /// # Shapes
    /// - `x`, output: `[B, L, H]`
    pub fn forward(
        &self,
        x: Tensor<B, 3>,
        context: &Context<'_, B>,
        past: Option<Past<'_, B>>,
    ) -> Tensor<B, 3> {
        self.forward_tapped(x, context, past, format_args!(""), &mut NoTap)
    }

    /// [`Self::forward`] that taps `{name}.self_attn.out` and `{name}.out`.
    pub fn forward_tapped<T: Tap<B>>(
        &self,
        x: Tensor<B, 3>,
        &Context { rope, mask }: &Context<'_, B>,
        past: Option<Past<'_, B>>,
        name: Arguments<'_>,
        tap: &mut T,
    ) -> Tensor<B, 3> {
        let normed = self.input_layernorm.forward(x.clone());
        let mixed = self.self_attn.mixed(normed, rope, mask, past);
        self.after_attention(x, mixed, name, tap)
    }

    /// Computes the layer over a whole sequence at position 0 alone: keys and values of every
    /// position, and the rest of one.
    ///
    /// # Shapes
    /// - `x`: `[B, L, H]`
    /// - output: `[B, 1, H]`
    pub fn forward_first(
        &self,
        x: Tensor<B, 3>,
        &Context { rope, mask }: &Context<'_, B>,
    ) -> Tensor<B, 3> {
        let normed = self.input_layernorm.forward(x.clone());
        let mixed = self.self_attn.mixed_first(normed, rope, mask);
        self.after_attention(x.narrow(1, 0, 1), mixed, format_args!(""), &mut NoTap)
    }

    /// Adds to `x` the output projection of `mixed`, then the feed-forward block.
    fn after_attention<T: Tap<B>>(
        &self,
        x: Tensor<B, 3>,
        mixed: Tensor<B, 3>,
        name: Arguments<'_>,
        tap: &mut T,
    ) -> Tensor<B, 3> {
        let [batch, ..] = x.dims();
        let gate = |scale: &Option<LayerScale<B>>| scale.as_ref().map(|scale| scale.gate(batch));
        let attention = format_args!("{name}.self_attn.out");
        let scale = gate(&self.self_attn_layer_scale);
        let x = self.self_attn.add_output(x, scale, mixed, attention, tap);
        let normed = self.post_attention_layernorm.forward(x.clone());
        let scale = gate(&self.mlp_layer_scale);
        let x = self.mlp.forward_added(x, scale, normed, format_args!(""), &mut NoTap);
        tap.tap(format_args!("{name}.out"), &x);
        x
    }
}

impl<B: Backend> CachingLayer<B> for Layer<B> {
    fn forward_cached(
        &self,
        x: Tensor<B, 3>,
        cache: [&mut Tensor<B, 4>; 2],
        new_tokens: &NewTokens<'_, B>,
    ) -> Tensor<B, 3> {
        let rope = new_tokens.rope.clone().map(Rope::of);
        let past = Past { cache, slots: new_tokens.slots, seen: new_tokens.seen };
        self.forward(x, &Context { rope: rope.as_ref(), mask: &new_tokens.mask }, Some(past))
    }

    fn fused_weights(&self) -> Option<LayerWeights<B>> {
        if self.self_attn_layer_scale.is_some() {
            return None;
        }
        let (input_layernorm, epsilon) = self.input_layernorm.rms_parts()?;
        let (post_attention_layernorm, _) = self.post_attention_layernorm.rms_parts()?;
        let ([q_proj, k_proj, v_proj, o_proj], [q_norm, k_norm]) =
            self.self_attn.fused_weights()?;
        let [gate_proj, up_proj, down_proj] = self.mlp.fused_weights()?;
        Some(LayerWeights {
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
        })
    }
}

impl<B: Backend> From<LayerWeights<B>> for Layer<B> {
    /// Creates a layer of the kind that kernels fuse.
    fn from(weights: LayerWeights<B>) -> Self {
        Self {
            self_attn: Attention::of(&weights),
            mlp: Mlp::of(&weights),
            input_layernorm: Norm::rms(weights.input_layernorm, weights.epsilon),
            post_attention_layernorm: Norm::rms(weights.post_attention_layernorm, weights.epsilon),
            self_attn_layer_scale: None,
            mlp_layer_scale: None,
        }
    }
}
