//! acestep.cpp's `stork4`: a step along a parabola derived from the last three velocities.
//!
//! STORK takes many cheap sub-steps of ROCK4, a fourth-order Runge-Kutta method, between two calls
//! of the network. In the sub-steps the velocity is a polynomial in time, `v + s v' + s^2/2 v''`,
//! whose derivatives are differences of earlier velocities. The polynomial does not depend on `x`,
//! and every fourth-order method integrates it exactly with any number of stages or sub-steps. So
//! this module computes the integral directly. `stork_substeps` would only change the rounding.
//!
//! `v'` is a one-sided difference, so the method has order 2. A derivative that is too large for
//! its step (5 times the velocity) is noise and is set to zero. If `v'` is noise, so is `v''`.
//!
//! Source: Tan et al. 2025, arXiv:2505.24210; Abdulle 2002, doi:10.1137/S1064827500379549;
//! acestep.cpp `solver-stork.h`, which measures the derivatives over a whole batch. Here each song
//! is measured alone, so that it does not depend on its batch.

use acestep_model::Backend;
use burn::tensor::Tensor;

use super::{History, Step};

/// Largest allowed derivative times its step, in norms of the velocity.
const MOST: f32 = 5.0;

/// Takes one step.
///
/// # Shapes
/// - `x`, `velocity`, output: `[B, T, C]`
// ANCHOR: stork4
pub fn step<B: Backend>(
    x: Tensor<B, 3>,
    velocity: Tensor<B, 3>,
    step: Step,
    history: &History<B>,
) -> Tensor<B, 3> {
    let h = step.length();
    let (slope, bend) = derivatives(&velocity, history);
    let mut x = x - velocity * h;
    if let Some(slope) = slope {
        x = x + slope * (h * h / 2.0);
    }
    if let Some(bend) = bend {
        x = x - bend * (h * h * h / 6.0);
    }
    x
}
// ANCHOR_END: stork4

/// Returns the first and the second time derivative of the velocity, as far as the history allows.
/// They are zero for songs where they are noise.
fn derivatives<B: Backend>(
    velocity: &Tensor<B, 3>,
    history: &History<B>,
) -> (Option<Tensor<B, 3>>, Option<Tensor<B, 3>>) {
    let (last, before) = history.past();
    // A step of length 0 gives no derivative.
    let Some(last) = last.filter(|past| past.length != 0.0) else { return (None, None) };
    let speed = rms(velocity);
    let h1 = last.length;
    let slope = (last.velocity.clone() - velocity.clone()) / h1;
    let is_slope = is_sound(&slope, h1, &speed);

    let bend = before.filter(|past| past.length != 0.0).map(|before| {
        let h2 = before.length;
        let scale = 2.0 / (h1 * h2 * (h1 + h2));
        let bend = before.velocity.clone() * h1 - last.velocity.clone() * (h1 + h2)
            + velocity.clone() * h2;
        let bend = bend * scale;
        let is_bend = is_sound(&bend, h1 * h1, &speed);
        bend * is_bend * is_slope.clone()
    });
    (Some(slope * is_slope), bend)
}

/// Returns 1 for songs with a usable derivative, else 0: `[B, 1, 1]`.
fn is_sound<B: Backend>(
    derivative: &Tensor<B, 3>,
    scale: f32,
    speed: &Tensor<B, 3>,
) -> Tensor<B, 3> {
    let is_noise = (rms(derivative) * scale.abs()).greater(speed.clone() * MOST);
    // A zero velocity gives no scale to compare with.
    let moves = speed.clone().greater_elem(0.0);
    is_noise.bool_and(moves).bool_not().float()
}

/// Returns the root mean square of each song: `[B, T, C] -> [B, 1, 1]`.
fn rms<B: Backend>(x: &Tensor<B, 3>) -> Tensor<B, 3> {
    x.clone().square().mean_dim(2).mean_dim(1).sqrt()
}
