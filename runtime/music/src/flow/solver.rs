//! Solvers: from the velocity at the start of a step to the latents at its end.
//!
//! Each solver is a pure function in its own file; its memory of earlier steps is a value
//! ([`History`]).
//!
//! | solver | order | transformer calls | from |
//! |---|---|---|---|
//! | [`Solver::Euler`] | 1 | one per step | upstream, acestep.cpp |
//! | [`Solver::Heun`] | 2 | two per step | upstream |
//! | [`Solver::Sde`] | - | one per step | upstream, acestep.cpp |
//! | [`Solver::Dpm3m`] | 2, then 3 from the third step on | one per step | acestep.cpp |
//! | [`Solver::Stork4`] | 2 | one per step | acestep.cpp |
//!
//! Source: upstream `generate_audio`; acestep.cpp `src/solvers/`.

pub mod dpm3m;
pub mod euler;
pub mod heun;
pub mod sde;
pub mod stork4;

use acestep_model::Backend;
use burn::tensor::Tensor;

/// One step of the solver.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Time at the start.
    pub t: f32,
    /// Time at the end.
    pub next: f32,
}

impl Step {
    /// Returns the time that passes.
    pub fn length(self) -> f32 {
        self.t - self.next
    }
}

/// A method to compute a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Solver {
    /// A step along the velocity.
    Euler,
    /// A step along the mean of the velocities at both ends.
    Heun,
    /// To the predicted music, then back to a less noisy time with fresh noise.
    Sde(SdeTimes),
    /// Along a velocity extrapolated from the last three, as if all steps had the same length.
    Dpm3m,
    /// Along a parabola derived from the last three velocities.
    Stork4,
}

impl Solver {
    /// Returns its name in upstream or acestep.cpp.
    pub fn name(self) -> &'static str {
        match self {
            Self::Euler => "euler",
            Self::Heun => "heun",
            Self::Sde(_) => "sde",
            Self::Dpm3m => "dpm3m",
            Self::Stork4 => "stork4",
        }
    }

    /// Returns upstream's name of the method; it does not tell the solver.
    pub fn infer_method(self) -> &'static str {
        match self {
            Self::Sde(_) => "sde",
            Self::Euler | Self::Heun | Self::Dpm3m | Self::Stork4 => "ode",
        }
    }
}

/// End times of stochastic steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SdeTimes {
    /// The schedule's times: upstream's turbo, and acestep.cpp.
    Schedule,
    /// `1 - (i + 1) / N`, independent of the schedule: upstream's base and sft.
    Even,
}

/// Memory of multi-step solvers: the velocities and lengths of the last two steps.
#[derive(Debug, Clone, Default)]
pub struct History<B: Backend> {
    last: Option<PastVelocity<B>>,
    before: Option<PastVelocity<B>>,
}

/// The velocity of an earlier step.
#[derive(Debug, Clone)]
pub struct PastVelocity<B: Backend> {
    /// Guided, `[B, T, C]`.
    pub velocity: Tensor<B, 3>,
    /// Length of that step.
    pub length: f32,
}

impl<B: Backend> History<B> {
    /// Returns the last step, and the one before it.
    pub fn past(&self) -> (Option<&PastVelocity<B>>, Option<&PastVelocity<B>>) {
        (self.last.as_ref(), self.before.as_ref())
    }

    /// Returns the velocity of the last step, `[B, T, C]`.
    pub fn velocity(&self) -> Option<&Tensor<B, 3>> {
        self.last.as_ref().map(|past| &past.velocity)
    }

    /// Remembers a step: its velocity, `[B, T, C]`, and its length.
    pub fn push(&mut self, velocity: Tensor<B, 3>, length: f32) {
        self.before = self.last.replace(PastVelocity { velocity, length });
    }
}

#[cfg(test)]
mod tests;
