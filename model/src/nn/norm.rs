//! Root-mean-square layer norm.
//!
//! Source: Zhang & Sennrich 2019, arXiv:1910.07467.

use burn::{
    module::{Module, Param},
    tensor::Tensor,
};

use super::{Rope, ones};
use crate::{Backend, kernel};

/// `w x / sqrt(mean(x^2) + epsilon)` over the last axis.
#[derive(Module, Debug)]
pub struct RmsNorm<B: Backend> {
    weight: Param<Tensor<B, 1>>,
    epsilon: f64,
}

impl<B: Backend> RmsNorm<B> {
    /// Creates a norm over `width` values, with weights of one.
    pub fn init(width: usize, epsilon: f64, device: &B::Device) -> Self {
        Self { weight: ones([width], device), epsilon }
    }

    /// Returns the weight and the epsilon.
    pub(super) fn parts(&self) -> (Tensor<B, 1>, f64) {
        (self.weight.val(), self.epsilon)
    }

    /// # Shapes
    /// - `x`, output: `[.., H]`
    pub fn forward<const D: usize>(&self, x: Tensor<B, D>) -> Tensor<B, D> {
        kernel::rms_norm(x, self.weight.val(), self.epsilon)
    }

    /// [`kernel::ada_norm`].
    ///
    /// # Shapes
    /// - `x`, output: `[B, P, H]`
    /// - `shift`, `scale`: `[B, 1, H]`
    pub fn forward_modulated(
        &self,
        x: Tensor<B, 3>,
        shift: Tensor<B, 3>,
        scale: Tensor<B, 3>,
    ) -> Tensor<B, 3> {
        kernel::ada_norm(x, self.weight.val(), self.epsilon, shift, scale)
    }

    /// [`kernel::norm_rotate`].
    ///
    /// # Shapes
    /// - `x`: `[B, L, heads, D]`
    /// - output: `[B, heads, L, D]`
    pub fn forward_rotated(&self, x: Tensor<B, 4>, rope: &Rope<B>) -> Tensor<B, 4> {
        let (cos, sin) = rope.tables();
        kernel::norm_rotate(x, self.weight.val(), self.epsilon, cos, sin)
    }
}
