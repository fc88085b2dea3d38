//! The feed-forward block: a gated one, or one with GELU.
//!
//! Source: Shazeer 2020, arXiv:2002.05202 (SwiGLU); Hendrycks & Gimpel 2016, arXiv:1606.08415.

use std::fmt::Arguments;

use burn::{module::Module, tensor::Tensor};

use super::{LayerSpec, LayerWeights, Linear};
use crate::{
    Backend, Tap,
    kernel::{self, Weight},
};

/// The activations of a feed-forward block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// `down(silu(gate(x)) up(x))`.
    SwiGlu,
    /// `down(gelu(up(x)))`.
    Gelu,
}

/// `down(activation(up(x)))`, with a gate or without.
#[derive(Module, Debug)]
pub struct Mlp<B: Backend> {
    gate_proj: Option<Linear<B>>,
    up_proj: Linear<B>,
    down_proj: Linear<B>,
}

impl<B: Backend> Mlp<B> {
    /// Creates the block of a layer.
    pub fn init(spec: &LayerSpec, device: &B::Device) -> Self {
        let [hidden, intermediate] = [spec.shape.hidden, spec.shape.intermediate];
        let wide = || Linear::init(hidden, intermediate, device);
        Self {
            gate_proj: (spec.activation == Activation::SwiGlu).then(wide),
            up_proj: wide(),
            down_proj: Linear::init(intermediate, hidden, device),
        }
    }

    /// Creates a block of the given weights.
    pub(super) fn of(weights: &LayerWeights<B>) -> Self {
        let of = |weight: &Weight<B, 2>| Linear::of(weight.clone());
        Self {
            gate_proj: Some(of(&weights.gate_proj)),
            up_proj: of(&weights.up_proj),
            down_proj: of(&weights.down_proj),
        }
    }

    /// Returns the maps with their names.
    pub(crate) fn linears(&mut self) -> impl Iterator<Item = (&'static str, &mut Linear<B>)> {
        let gate = self.gate_proj.as_mut().map(|gate| ("gate_proj", gate));
        gate.into_iter().chain([("up_proj", &mut self.up_proj), ("down_proj", &mut self.down_proj)])
    }

    /// Returns the weights of gate, up and down, `[out, in]` each, of a gated block without
    /// adapters.
    pub(super) fn fused_weights(&self) -> Option<[Weight<B, 2>; 3]> {
        Some([self.gate_proj.as_ref()?.alone()?, self.up_proj.alone()?, self.down_proj.alone()?])
    }

    /// Computes `residual + gate mlp(x)`, or without a gate `residual + mlp(x)`; taps `mlp(x)` as
    /// `name`.
    ///
    /// # Shapes
    /// - `residual`, `x`, output: `[B, L, H]`, `gate`: `[B, 1, H]`
    pub fn forward_added(
        &self,
        residual: Tensor<B, 3>,
        gate: Option<Tensor<B, 3>>,
        x: Tensor<B, 3>,
        name: Arguments<'_>,
        tap: &mut impl Tap<B>,
    ) -> Tensor<B, 3> {
        self.down_proj.forward_added(residual, gate, self.inner(x), name, tap)
    }

    /// Computes the input of the last map.
    fn inner(&self, x: Tensor<B, 3>) -> Tensor<B, 3> {
        match &self.gate_proj {
            Some(gate_proj) => match (gate_proj.alone(), self.up_proj.alone()) {
                (Some(gate), Some(up)) => kernel::gated_linear(x, gate, up),
                _ => {
                    let gate = gate_proj.forward(x.clone());
                    kernel::swiglu(gate, self.up_proj.forward(x))
                }
            },
            None => kernel::gelu(self.up_proj.forward(x)),
        }
    }
}
