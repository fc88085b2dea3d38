//! Root-mean-square layer norm.
//!
//! Source: Zhang & Sennrich 2019, arXiv:1910.07467.

use burn::{
    module::{Module, Param},
    tensor::Tensor,
};

use super::ones;
use crate::{Backend, kernel};

/// `w x / sqrt(mean(x^2) + epsilon)` over the last axis.
#[derive(Module, Debug)]
pub struct RmsNorm<B: Backend> {
    weight: Param<Tensor<B, 1>>,
    epsilon: f64,
}

impl<B: Backend> RmsNorm<B> {
    /// A norm over `width` values, with weights of one.
    pub fn init(width: usize, epsilon: f64, device: &B::Device) -> Self {
        Self { weight: ones([width], device), epsilon }
    }

    /// # Shapes
    /// - `x`, output: `[.., H]`
    pub fn forward<const D: usize>(&self, x: Tensor<B, D>) -> Tensor<B, D> {
        kernel::rms_norm(x, self.weight.val(), self.epsilon)
    }
}
