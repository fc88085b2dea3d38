//! Flow matching: from noise to latents.
//!
//! `x_t = t noise + (1 - t) x_0`; the transformer predicts `v = noise - x_0`, and `x` is integrated
//! from `t = 1` to `t = 0` step by step. A [`solver`] computes each step. Before a step, the
//! velocity is guided ([`guidance`]) and smoothed ([`smoothing`]). After a step, the result is
//! corrected ([`dcw`]), and the source is restored outside a [`region`].
//!
//! Source: Lipman et al. 2023, arXiv:2210.02747; upstream `generate_audio`.

pub mod dcw;
pub mod edit;
pub mod guidance;
pub mod latents;
pub mod noise;
pub mod region;
mod sampling;
pub mod schedule;
pub mod smoothing;
pub mod solver;
mod velocity;

use acestep_engine::{
    Error,
    progress::{Event, Observe, check},
};
use acestep_model::{Backend, NoTap, Tap, acestep::Dit};
use burn::tensor::Tensor;
use guidance::{Guidance, Role};
use latents::noised;
use region::RepaintRegion;
use solver::{History, Solver, dpm3m, euler, heun, sde, stork4};
use velocity::Velocity;

use crate::stage;

pub use sampling::Sampling;

/// Inputs of the transformer besides `x` and the time.
#[derive(Debug, Clone)]
pub struct Track<B: Backend> {
    /// Lyrics, timbre and caption, `[B, L, encoder width]`.
    pub condition: Tensor<B, 3>,
    /// Source latents and mask, `[B, T, 2 C]`.
    pub context: Tensor<B, 3>,
}

/// Transformer inputs over the steps: one track, or a second one from some step on.
#[derive(Debug, Clone)]
pub struct Tracks<B: Backend> {
    /// Used from the first step.
    pub first: Track<B>,
    /// Used from this step (counted from 0) to the last.
    pub later: Option<(usize, Track<B>)>,
    /// Guidance; `None` runs the transformer once per step.
    pub steering: Option<Steering<B>>,
}

/// Guidance and its null condition.
#[derive(Debug, Clone)]
pub struct Steering<B: Backend> {
    /// Strength, mode and interval.
    pub guidance: Guidance,
    /// The condition of the unconditional prediction, `[1, 1, encoder width]`.
    pub null: Tensor<B, 3>,
}

/// Start of sampling: noise, an optional source, and the region to repaint.
#[derive(Debug, Clone)]
pub struct SamplingStart<B: Backend> {
    /// The initial noise, `[B, T, C]`.
    pub noise: Tensor<B, 3>,
    /// Latents to be noised to the time of the first step, `[B, T, C]`; see
    /// [`Schedule::keeping`](schedule::Schedule::keeping). `None` starts from pure noise.
    pub source: Option<Tensor<B, 3>>,
    /// The region to generate; `None` = everything.
    pub region: Option<RepaintRegion<B>>,
}

impl<B: Backend> From<Tensor<B, 3>> for SamplingStart<B> {
    /// Starts from noise alone.
    fn from(noise: Tensor<B, 3>) -> Self {
        Self { noise, source: None, region: None }
    }
}

impl<B: Backend> SamplingStart<B> {
    /// Returns `x` of the first step, which is at time `t`: `[B, T, C]`.
    fn latents(&self, t: f32) -> Tensor<B, 3> {
        match &self.source {
            None => self.noise.clone(),
            Some(source) => noised(source.clone(), self.noise.clone(), t),
        }
    }
}

/// Integrates noise, or a noised source, to latents, `[B, T, C]`.
///
/// `step_noise(i)` returns the fresh noise of step `i`, `[B, T, C]`; only stochastic steps call it.
///
/// # Errors
/// [`Error::Cancelled`].
pub fn sample<B: Backend>(
    dit: &Dit<B>,
    tracks: &Tracks<B>,
    start: SamplingStart<B>,
    sampling: &Sampling,
    step_noise: impl FnMut(usize) -> Tensor<B, 3>,
    observe: &dyn Observe,
) -> Result<Tensor<B, 3>, Error> {
    sample_tapped(dit, tracks, start, sampling, step_noise, observe, &mut NoTap)
}

/// [`sample`] with the same shapes, but taps the input `step{i}.xt` and the output `step{i}.vt` of
/// the transformer. Both have twice the batch where guidance applies.
///
/// # Errors
/// [`Error::Cancelled`].
pub fn sample_tapped<B: Backend>(
    dit: &Dit<B>,
    tracks: &Tracks<B>,
    start: SamplingStart<B>,
    sampling: &Sampling,
    mut step_noise: impl FnMut(usize) -> Tensor<B, 3>,
    observe: &dyn Observe,
    tap: &mut impl Tap<B>,
) -> Result<Tensor<B, 3>, Error> {
    let total = sampling.steps.len();
    observe.event(Event::Advanced { stage: stage::DIFFUSION, done: 0, total });
    let mut velocity = Velocity::new(dit, &tracks.first, tracks.steering.as_ref());
    let mut history = History::default();
    let mut x = start.latents(sampling.steps.first().map_or(1.0, |step| step.t));
    // ANCHOR: solver
    for (index, &step) in sampling.steps.iter().enumerate() {
        check(observe)?;
        if let Some((from, later)) = &tracks.later
            && index == *from
        {
            velocity.follow(later);
        }
        let v = velocity.at(&x, step.t, Role::Start, Some(index), tap);
        let v = sampling.smoothing.applied(v, &x, history.velocity());

        let (before, first, mut used) = (x.clone(), v.clone(), v.clone());
        x = match sampling.solver_of(index) {
            Solver::Euler => euler::step(x, v, step),
            Solver::Heun => {
                let ahead = euler::step(x.clone(), v.clone(), step);
                let end = velocity.at(&ahead, step.next, Role::Corrector, None, tap);
                let end = sampling.smoothing.applied(end, &ahead, Some(&v));
                used = heun::mean(v, end);
                euler::step(x, used.clone(), step)
            }
            Solver::Sde(_) => sde::step(x, v, step_noise(index), step),
            Solver::Dpm3m => euler::step(x, dpm3m::extrapolated(v, &history), step),
            Solver::Stork4 => stork4::step(x, v, step, &history),
        };
        if let Some(dcw) = &sampling.dcw {
            let music = sampling.predicted(before, x.clone(), first, step);
            x = dcw.corrected(x, music, step.t);
        }
        history.push(used, step.length());
        if let Some(region) = &start.region
            && index < region.injected_steps
            && sampling.injects_after(index)
        {
            x = region.injected(x, &start.noise, step.next);
        }
        observe.event(Event::Advanced { stage: stage::DIFFUSION, done: index + 1, total });
    }
    // ANCHOR_END: solver
    Ok(match &start.region {
        Some(region) => region.blended(x),
        None => x,
    })
}
