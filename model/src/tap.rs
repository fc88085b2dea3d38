//! Looking at intermediate results without changing them.

use std::fmt::Arguments;

use burn::tensor::Tensor;

use crate::Backend;

/// Receives named activations as a network computes them.
///
/// Names follow the reference goldens: `layer0.after_self_attn`, `block.0.conv_t1`.
pub trait Tap<B: Backend> {
    /// Whether it looks at anything: otherwise operations may be done in one whose results lie between.
    const LOOKS: bool = true;

    /// Called once for every named activation, in the type the network computes in.
    fn tap<const D: usize>(&mut self, name: Arguments<'_>, activation: &Tensor<B, D>);
}

/// A tap that looks at nothing and costs nothing.
#[derive(Debug, Clone, Copy)]
pub struct Quiet;

impl<B: Backend> Tap<B> for Quiet {
    const LOOKS: bool = false;

    fn tap<const D: usize>(&mut self, _name: Arguments<'_>, _activation: &Tensor<B, D>) {}
}
