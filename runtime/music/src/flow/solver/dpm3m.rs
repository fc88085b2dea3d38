//! acestep.cpp's `dpm3m`: third-order Adams-Bashforth.
//!
//! The velocity of a step is extrapolated from those of up to two earlier steps:
//! `v`, then `3/2 v - 1/2 v'`, then `23/12 v - 16/12 v' + 5/12 v''`. The weights are for equal
//! steps, even where a schedule's steps are not equal, and the first step is Euler's. So the error
//! shrinks with the square of the step size, as a test measures.
//!
//! Source: Hairer, Norsett & Wanner, "Solving Ordinary Differential Equations I", III.1;
//! acestep.cpp `solver-dpm.h`.

use acestep_model::Backend;
use burn::tensor::Tensor;

use super::History;

/// Returns the velocity to step along.
///
/// # Shapes
/// - `velocity`, output: `[B, T, C]`
// ANCHOR: dpm3m
pub fn extrapolated<B: Backend>(velocity: Tensor<B, 3>, history: &History<B>) -> Tensor<B, 3> {
    match history.past() {
        (None, _) => velocity,
        (Some(last), None) => velocity * 1.5 - last.velocity.clone() * 0.5,
        (Some(last), Some(before)) => {
            velocity * (23.0 / 12.0) - last.velocity.clone() * (16.0 / 12.0)
                + before.velocity.clone() * (5.0 / 12.0)
        }
    }
}
// ANCHOR_END: dpm3m
