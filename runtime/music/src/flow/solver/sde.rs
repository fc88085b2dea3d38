//! The stochastic step: to the predicted music, then back to a less noisy time with fresh noise.
//!
//! Source: upstream `infer_method="sde"`; acestep.cpp `solver-sde.h`.

use acestep_model::Backend;
use burn::tensor::Tensor;

use super::{super::latents::noised, Step};

/// Takes one step with fresh noise, not the initial noise.
///
/// # Shapes
/// - `x`, `velocity`, `noise`, output: `[B, T, C]`
// ANCHOR: sde
pub fn step<B: Backend>(
    x: Tensor<B, 3>,
    velocity: Tensor<B, 3>,
    noise: Tensor<B, 3>,
    step: Step,
) -> Tensor<B, 3> {
    noised(x - velocity * step.t, noise, step.next)
}
// ANCHOR_END: sde
