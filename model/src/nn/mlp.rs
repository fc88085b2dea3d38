//! The gated feed-forward block.
//!
//! Source: Shazeer 2020, arXiv:2002.05202 (SwiGLU); no biases.

use burn::{module::Module, tensor::Tensor};

use super::Linear;
use crate::{
    Backend,
    kernel::{self, Weight},
};

/// `down(silu(gate(x)) up(x))`.
#[derive(Module, Debug)]
pub struct Mlp<B: Backend> {
    gate_proj: Linear<B>,
    up_proj: Linear<B>,
    down_proj: Linear<B>,
}

impl<B: Backend> Mlp<B> {
    /// Creates a block of the given widths.
    pub fn init(hidden: usize, intermediate: usize, device: &B::Device) -> Self {
        Self {
            gate_proj: Linear::init(hidden, intermediate, device),
            up_proj: Linear::init(hidden, intermediate, device),
            down_proj: Linear::init(intermediate, hidden, device),
        }
    }

    /// Returns the three maps with their names.
    pub(crate) fn linears(&mut self) -> [(&'static str, &mut Linear<B>); 3] {
        [
            ("gate_proj", &mut self.gate_proj),
            ("up_proj", &mut self.up_proj),
            ("down_proj", &mut self.down_proj),
        ]
    }

    /// Returns the weights of gate, up and down, `[out, in]` each.
    pub(super) fn weights(&self) -> [Weight<B, 2>; 3] {
        [&self.gate_proj, &self.up_proj, &self.down_proj].map(Linear::weight_alone)
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

    /// Computes `silu(gate(x)) up(x)`.
    fn inner(&self, x: Tensor<B, 3>) -> Tensor<B, 3> {
        match (self.gate_proj.alone(), self.up_proj.alone()) {
            (Some(gate), Some(up)) => kernel::gated_linear(x, gate, up),
            _ => {
                let gate = self.gate_proj.forward(x.clone());
                kernel::swiglu(gate, self.up_proj.forward(x))
            }
        }
    }
}
