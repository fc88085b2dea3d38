//! Heun's method: a trial Euler step, then a step along the mean of the velocities at both ends.
//!
//! Source: Karras et al. 2022, arXiv:2206.00364, Algorithm 1; upstream `sampler_mode="heun"`.

use acestep_model::Backend;
use burn::tensor::Tensor;

/// Returns the velocity of the step, from those at its start and at the end of an Euler step.
///
/// # Shapes
/// - `start`, `end`, output: `[B, T, C]`
// ANCHOR: heun
pub fn mean<B: Backend>(start: Tensor<B, 3>, end: Tensor<B, 3>) -> Tensor<B, 3> {
    (start + end) * 0.5
}
// ANCHOR_END: heun
