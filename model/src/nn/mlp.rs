//! The feed-forward block: a gated one, or one with GELU.
//!
//! Source: Shazeer 2020, arXiv:2002.05202 (SwiGLU); Hendrycks & Gimpel 2016, arXiv:1606.08415.

use burn::{module::Module, tensor::Tensor};

use super::{LayerSpec, LayerWeights, Linear};
use crate::{
    Backend,
    kernel::{self, Weight},
};

/// The activations of a feed-forward block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// `down(silu(gate(x)) up(x))`.
    SwiGlu,
    /// `down(gelu(up(x)))`.
    Gelu,
    /// [`Self::Gelu`] with the approximation [`kernel::gelu_tanh`].
    GeluTanh,
}

/// `down(activation(up(x)))`, with a gate or without.
#[derive(Module, Debug)]
pub struct Mlp<B: Backend> {
    gate_proj: Option<Linear<B>>,
    up_proj: Linear<B>,
    down_proj: Linear<B>,
    /// Number of last positions that each map reads.
    taps: usize,
    is_approximate: bool,
}

impl<B: Backend> Mlp<B> {
    /// Creates the block of a layer.
    pub fn init(spec: &LayerSpec, device: &B::Device) -> Self {
        let [hidden, intermediate] = [spec.shape.hidden, spec.shape.intermediate];
        let map = |input, output| spec.map(input * spec.taps, output, device);
        Self {
            gate_proj: (spec.activation == Activation::SwiGlu).then(|| map(hidden, intermediate)),
            up_proj: map(hidden, intermediate),
            down_proj: map(intermediate, hidden),
            taps: spec.taps,
            is_approximate: spec.activation == Activation::GeluTanh,
        }
    }

    /// Creates a block of the given weights.
    pub(super) fn of(weights: &LayerWeights<B>) -> Self {
        let of = |weight: &Weight<B, 2>| Linear::of(weight.clone());
        Self {
            gate_proj: Some(of(&weights.gate_proj)),
            up_proj: of(&weights.up_proj),
            down_proj: of(&weights.down_proj),
            taps: 1,
            is_approximate: false,
        }
    }

    /// Returns the maps with their names.
    pub(crate) fn linears(&mut self) -> impl Iterator<Item = (&'static str, &mut Linear<B>)> {
        let gate = self.gate_proj.as_mut().map(|gate| ("gate_proj", gate));
        gate.into_iter().chain([("up_proj", &mut self.up_proj), ("down_proj", &mut self.down_proj)])
    }

    /// Returns the weights of gate, up and down, `[out, in]` each, of a gated block without biases,
    /// adapters and more than one tap.
    pub(super) fn fused_weights(&self) -> Option<[Weight<B, 2>; 3]> {
        let gate_proj = self.gate_proj.as_ref().filter(|_| self.taps == 1)?;
        Some([gate_proj.alone()?, self.up_proj.alone()?, self.down_proj.alone()?])
    }

    /// True if the output at a position depends on that position alone.
    pub(super) fn is_pointwise(&self) -> bool {
        self.taps == 1
    }

    /// # Shapes
    /// - `x`, output: `[B, L, H]`
    pub fn forward(&self, x: Tensor<B, 3>) -> Tensor<B, 3> {
        self.down_proj.forward(self.inner(x))
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
    ) -> Tensor<B, 3> {
        self.down_proj.forward_added(residual, gate, self.inner(x))
    }

    /// Computes the input of the last map.
    fn inner(&self, x: Tensor<B, 3>) -> Tensor<B, 3> {
        let x = self.with_earlier(x);
        let y = match &self.gate_proj {
            Some(gate_proj) => match (gate_proj.alone(), self.up_proj.alone()) {
                (Some(gate), Some(up)) => kernel::gated_linear(x, gate, up),
                _ => {
                    let gate = gate_proj.forward(x.clone());
                    kernel::swiglu(gate, self.up_proj.forward(x))
                }
            },
            None if self.is_approximate => kernel::gelu_tanh(self.up_proj.forward(x)),
            None => kernel::gelu(self.up_proj.forward(x)),
        };
        self.with_earlier(y)
    }

    /// Puts the `taps - 1` positions before each position in front of it, oldest first: `[B, L, taps
    /// H]`. Before the first position are zeros.
    fn with_earlier(&self, x: Tensor<B, 3>) -> Tensor<B, 3> {
        if self.taps == 1 {
            return x;
        }
        let [batch, length, width] = x.dims();
        let zeros = Tensor::zeros([batch, self.taps - 1, width], (&x.device(), x.dtype()));
        let padded = Tensor::cat(vec![zeros, x], 1);
        Tensor::cat((0..self.taps).map(|tap| padded.clone().narrow(1, tap, length)).collect(), 2)
    }
}
