//! Root-mean-square norm, and layer norm.
//!
//! Source: Zhang & Sennrich 2019, arXiv:1910.07467; Ba, Kiros & Hinton 2016, arXiv:1607.06450.

use burn::{
    module::{Module, Param},
    tensor::Tensor,
};

use super::{Rope, ones, random};
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

    /// Creates a norm with the given weight.
    pub(super) fn of(weight: Tensor<B, 1>, epsilon: f64) -> Self {
        Self { weight: Param::from_tensor(weight), epsilon }
    }

    /// Returns the weight.
    pub(crate) fn weight(&self) -> Tensor<B, 1> {
        self.weight.val()
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

/// The kinds of norm before a block of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NormKind {
    /// [`kernel::rms_norm`].
    Rms,
    /// [`kernel::layer_norm`], with or without a bias.
    Layer {
        /// True if it has a bias.
        bias: bool,
    },
}

/// A norm of either kind.
#[derive(Module, Debug)]
pub(crate) struct Norm<B: Backend> {
    weight: Param<Tensor<B, 1>>,
    bias: Option<Param<Tensor<B, 1>>>,
    epsilon: f64,
    #[module(skip)]
    kind: NormKind,
}

impl<B: Backend> Norm<B> {
    /// Creates a norm over `width` values, with weights of one.
    pub(crate) fn init(kind: NormKind, width: usize, epsilon: f64, device: &B::Device) -> Self {
        let bias = (kind == NormKind::Layer { bias: true }).then(|| random([width], 0.02, device));
        Self { weight: ones([width], device), bias, epsilon, kind }
    }

    /// Creates an RMS norm with the given weight.
    pub(super) fn rms(weight: Tensor<B, 1>, epsilon: f64) -> Self {
        Self { weight: Param::from_tensor(weight), bias: None, epsilon, kind: NormKind::Rms }
    }

    /// Returns weight and epsilon of an RMS norm.
    pub(super) fn rms_parts(&self) -> Option<(Tensor<B, 1>, f64)> {
        (self.kind == NormKind::Rms).then(|| (self.weight.val(), self.epsilon))
    }

    /// # Shapes
    /// - `x`, output: `[.., H]`
    pub(crate) fn forward<const D: usize>(&self, x: Tensor<B, D>) -> Tensor<B, D> {
        let weight = self.weight.val();
        match self.kind {
            NormKind::Rms => kernel::rms_norm(x, weight, self.epsilon),
            NormKind::Layer { .. } => {
                kernel::layer_norm(x, weight, self.bias.as_ref().map(Param::val), self.epsilon)
            }
        }
    }
}
