//! How a step moves: from the velocity at its start to the latents at its end.
//!
//! Each solver is a pure function in a file of its own; what it remembers of earlier steps is a value
//! ([`History`]).
//!
//! | solver | order | asks the transformer | from |
//! |---|---|---|---|
//! | [`Solver::Euler`] | 1 | once a step | upstream, acestep.cpp |
//! | [`Solver::Heun`] | 2 | twice a step | upstream |
//! | [`Solver::Sde`] | - | once a step | upstream, acestep.cpp |
//! | [`Solver::Dpm3m`] | 2, from the third step on 3 | once a step | acestep.cpp |
//! | [`Solver::Stork4`] | 2 | once a step | acestep.cpp |
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
    /// Where it starts.
    pub t: f32,
    /// Where it ends.
    pub next: f32,
}

impl Step {
    /// How much time passes.
    pub fn length(self) -> f32 {
        self.t - self.next
    }
}

/// How a step moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Solver {
    /// Along the velocity.
    Euler,
    /// Along the mean of the velocities at both ends.
    Heun,
    /// To the predicted music and back to a less noisy time with fresh noise.
    Sde(SdeTimes),
    /// Along a velocity extrapolated from the last three, as if all steps were as long.
    Dpm3m,
    /// Along a parabola through the last three velocities.
    Stork4,
}

impl Solver {
    /// The name that its program gives it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Euler => "euler",
            Self::Heun => "heun",
            Self::Sde(_) => "sde",
            Self::Dpm3m => "dpm3m",
            Self::Stork4 => "stork4",
        }
    }
}

/// The times that stochastic steps end at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SdeTimes {
    /// The schedule's: upstream's turbo, and acestep.cpp.
    Schedule,
    /// `1 - (i + 1) / N`, whatever the schedule says: upstream's base and sft.
    Even,
}

/// What solvers of several steps remember: the last two velocities and how long their steps were.
#[derive(Debug, Clone)]
pub struct History<B: Backend> {
    last: Option<Past<B>>,
    before: Option<Past<B>>,
}

/// A velocity of an earlier step.
#[derive(Debug, Clone)]
pub struct Past<B: Backend> {
    /// Guided, `[B, T, C]`.
    pub velocity: Tensor<B, 3>,
    /// How long its step was.
    pub length: f32,
}

impl<B: Backend> Default for History<B> {
    fn default() -> Self {
        Self { last: None, before: None }
    }
}

impl<B: Backend> History<B> {
    /// The last step, and the one before it.
    pub fn past(&self) -> (Option<&Past<B>>, Option<&Past<B>>) {
        (self.last.as_ref(), self.before.as_ref())
    }

    /// The velocity of the last step, `[B, T, C]`.
    pub fn velocity(&self) -> Option<&Tensor<B, 3>> {
        self.last.as_ref().map(|past| &past.velocity)
    }

    /// Remembers a step: its velocity, `[B, T, C]`, and how long it was.
    pub fn push(&mut self, velocity: Tensor<B, 3>, length: f32) {
        self.before = self.last.replace(Past { velocity, length });
    }
}

#[cfg(test)]
mod tests;
