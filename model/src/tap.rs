//! Inspection of intermediate results.

use std::fmt::Arguments;

use burn::tensor::Tensor;

use crate::Backend;

/// Receives named activations while a network computes them.
///
/// Names follow the reference goldens, for example `layer0.after_self_attn` and `block.0.conv_t1`.
pub trait Tap<B: Backend> {
    /// True if the tap reads activations. If false, operations may be fused and skip their
    /// intermediate results.
    const LOOKS: bool = true;

    /// Called once for every named activation, in the type that the network computes in.
    fn tap<const D: usize>(&mut self, name: Arguments<'_>, activation: &Tensor<B, D>);
}

/// A tap that reads nothing and costs nothing.
#[derive(Debug, Clone, Copy)]
pub struct NoTap;

impl<B: Backend> Tap<B> for NoTap {
    const LOOKS: bool = false;

    fn tap<const D: usize>(&mut self, _name: Arguments<'_>, _activation: &Tensor<B, D>) {}
}
