//! Euler's method: `x <- x - v (t - t')`.

use acestep_model::Backend;
use burn::tensor::Tensor;

use super::Step;

/// Takes one step along the velocity.
///
/// # Shapes
/// - `x`, `velocity`, output: `[B, T, C]`
// ANCHOR: euler
pub fn step<B: Backend>(x: Tensor<B, 3>, velocity: Tensor<B, 3>, step: Step) -> Tensor<B, 3> {
    x - velocity * step.length()
}
// ANCHOR_END: euler
