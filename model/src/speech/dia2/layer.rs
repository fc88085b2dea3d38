//! The layer that backbone and depformer share: RMS norms, normalised queries and keys, a gated
//! feed-forward block, no biases, and scores that are not divided by the root of the width.
//!
//! `x + o(attention(rms(x)))`, then `x + wo(f(gate) g(up))` of `rms(x)`, with `[gate | up] = wi(..)`.
//!
//! Source: nari-labs/dia2 `core/layers.py`.

use std::fmt::Arguments;

use burn::{module::Module, tensor::Tensor};

use super::Function;
use crate::{
    Backend, NoTap, Tap,
    kernel::{self, CachingLayer, LayerWeights, Mask, NewTokens, Visibility, Weight},
    nn::{Cache, LayerShape, Linear, Past, RmsNorm, Rope, STEP, place_of},
};

/// The feed-forward block.
#[derive(Module, Debug)]
pub(super) struct Mlp<B: Backend> {
    /// Gate, then up.
    wi: Linear<B>,
    wo: Linear<B>,
}

impl<B: Backend> Mlp<B> {
    pub(super) fn init(shape: &LayerShape, device: &B::Device) -> Self {
        let LayerShape { hidden, intermediate, .. } = *shape;
        Self {
            wi: Linear::init(hidden, 2 * intermediate, device),
            wo: Linear::init(intermediate, hidden, device),
        }
    }

    /// Returns gate, up and down.
    pub(super) fn weights(&self) -> [Weight<B, 2>; 3] {
        let wi = self.wi.weight();
        let inner = wi.dims()[0] / 2;
        [wi.clone().rows(0..inner), wi.rows(inner..2 * inner), self.wo.weight()]
    }
}

/// A layer as it is applied: the weights of a layer, or of a stage of it.
#[derive(Debug)]
pub(super) struct Applied<'a, B: Backend> {
    /// Before attention, of queries, of keys, and before the feed-forward block.
    pub(super) norms: [&'a RmsNorm<B>; 4],
    /// Queries, keys, values and outputs, `[out, in]` each.
    pub(super) attention: [Weight<B, 2>; 4],
    /// Gate, up and down, `[out, in]` each.
    pub(super) mlp: [Weight<B, 2>; 3],
    pub(super) shape: LayerShape,
    pub(super) functions: [Function; 2],
}

impl<B: Backend> Applied<'_, B> {
    /// Applies the layer to new tokens; taps `{name}.in`, `{name}.q_norm`, `{name}.k_norm`,
    /// `{name}.attn_out` and `{name}.mlp_out`.
    ///
    /// # Shapes
    /// - `x`, output: `[rows, 1, H]`
    fn forward<T: Tap<B>>(
        &self,
        x: Tensor<B, 3>,
        past: Past<'_, B>,
        (rope, mask): (Option<&Rope<B>>, &Mask<B>),
        name: Arguments<'_>,
        tap: &mut T,
    ) -> Tensor<B, 3> {
        let [rows, length, _] = x.dims();
        let LayerShape { heads, kv_heads, head_dim, .. } = self.shape;
        let [pre_norm, q_norm, k_norm, post_norm] = self.norms;
        let [q_proj, k_proj, v_proj, o_proj] = self.attention.clone();
        tap.tap(format_args!("{name}.in"), &x);
        let normed = pre_norm.forward(x.clone());
        let map = |weight, heads| {
            let y = kernel::linear(normed.clone(), weight, None);
            y.reshape([rows, length, heads, head_dim])
        };
        let (q, k) = (map(q_proj, heads), map(k_proj, kv_heads));
        if T::LOOKS {
            tap.tap(format_args!("{name}.q_norm"), &q_norm.forward(q.clone()));
            tap.tap(format_args!("{name}.k_norm"), &k_norm.forward(k.clone()));
        }
        let turned = |x, norm: &RmsNorm<B>| match rope {
            Some(rope) => norm.forward_rotated(x, rope),
            None => norm.forward(x).swap_dims(1, 2),
        };
        // `kernel::attention` divides by the root of the width; these scores are not divided.
        let q = turned(q, q_norm).mul_scalar((head_dim as f64).sqrt());
        let [k, v] = past.with(turned(k, k_norm), map(v_proj, kv_heads).swap_dims(1, 2));
        let mixed = kernel::attention(q, k, v, mask);
        let mixed = mixed.swap_dims(1, 2).reshape([rows, length, heads * head_dim]);
        if T::LOOKS {
            let attended = kernel::linear(mixed.clone(), o_proj.clone(), None);
            tap.tap(format_args!("{name}.attn_out"), &attended);
        }
        let x = kernel::linear_added(x, None, mixed, o_proj);
        let normed = post_norm.forward(x.clone());
        let [gate, up, down] = self.mlp.clone();
        let inner = match self.functions {
            [Function::Silu, Function::Linear] => kernel::gated_linear(normed, gate, up),
            [first, second] => {
                let gate = first.apply(kernel::linear(normed.clone(), gate, None));
                gate * second.apply(kernel::linear(normed, up, None))
            }
        };
        if T::LOOKS {
            let fed = kernel::linear(inner.clone(), down.clone(), None);
            tap.tap(format_args!("{name}.mlp_out"), &fed);
        }
        kernel::linear_added(x, None, inner, down)
    }
}

impl<B: Backend> CachingLayer<B> for Applied<'_, B> {
    fn forward_cached(
        &self,
        x: Tensor<B, 3>,
        cache: [&mut Tensor<B, 4>; 2],
        new_tokens: &NewTokens<'_, B>,
    ) -> Tensor<B, 3> {
        let rope = new_tokens.rope.clone().map(Rope::of);
        let past = Past { cache, slots: new_tokens.slots, seen: new_tokens.seen };
        let context = (rope.as_ref(), &new_tokens.mask);
        self.forward(x, past, context, format_args!(""), &mut NoTap)
    }

    fn fused_weights(&self) -> Option<LayerWeights<B>> {
        if self.functions != [Function::Silu, Function::Linear] {
            return None;
        }
        let [q_proj, k_proj, v_proj, o_proj] = self.attention.clone();
        let [gate_proj, up_proj, down_proj] = self.mlp.clone();
        let [input_layernorm, q_norm, k_norm, post_attention_layernorm] =
            self.norms.map(RmsNorm::weight);
        // Kernels divide scores by the root of the width, and a rotation keeps a factor.
        let root = (self.shape.head_dim as f64).sqrt();
        Some(LayerWeights {
            input_layernorm,
            q_proj,
            k_proj,
            v_proj,
            o_proj,
            q_norm: q_norm.mul_scalar(root),
            k_norm,
            post_attention_layernorm,
            gate_proj,
            up_proj,
            down_proj,
            epsilon: self.shape.epsilon,
        })
    }
}

impl Function {
    fn apply<B: Backend>(self, x: Tensor<B, 3>) -> Tensor<B, 3> {
        match self {
            Self::Silu => kernel::silu(x),
            Self::Gelu => kernel::gelu(x),
            Self::Relu => x.clamp_min(0.0),
            Self::Linear => x,
        }
    }
}

/// Applies layers to one new token of every sequence of `cache`, which takes the next slot. All
/// sequences have the same length. `position` and `timescales` give the rotation, if there is one.
///
/// # Panics
/// If the cache has no room.
///
/// # Shapes
/// - `x`, output: `[rows, 1, H]`
pub(super) fn forward<B: Backend, T: Tap<B>>(
    layers: &[Applied<'_, B>],
    mut x: Tensor<B, 3>,
    rotation: Option<(usize, [f64; 2])>,
    cache: &mut Cache<B>,
    tap: &mut T,
) -> Tensor<B, 3> {
    let [rows, ..] = x.dims();
    let slots = cache.next(0..rows);
    let first = cache.length(0);
    assert!(first < cache.capacity(), "{} steps, room for {}", first + 1, cache.capacity());
    let place = place_of(&x);
    let rope = rotation.map(|(position, timescales)| {
        let head_dim = cache.head_dim();
        Rope::between(vec![position; rows], head_dim, timescales, &place)
    });
    let new_tokens = NewTokens {
        slots: &slots,
        rope: rope.as_ref().map(|rope| rope.tables().into()),
        seen: (first + 1).next_multiple_of(STEP),
        window: None,
        mask: Mask::by_position(Visibility::Causal { first }),
    };
    if T::LOOKS {
        for (index, (layer, cache)) in layers.iter().zip(cache.layers_mut()).enumerate() {
            let past = Past { cache, slots: &slots, seen: new_tokens.seen };
            let context = (rope.as_ref(), &new_tokens.mask);
            x = layer.forward(x, past, context, format_args!("layer{index}"), tap);
        }
    } else {
        let layers = layers.iter().map(|layer| layer as &dyn CachingLayer<B>);
        x = kernel::cached_layers(x, &mut layers.zip(cache.layers_mut()), &new_tokens);
    }
    cache.advance(&slots, 1);
    x
}
