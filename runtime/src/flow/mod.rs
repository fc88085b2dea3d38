//! Flow matching: from noise to latents.
//!
//! `x_t = t noise + (1 - t) x_0`; the transformer predicts `v = noise - x_0`, and `x` is carried
//! from `t = 1` to `t = 0` step by step. Deterministic (`ode`): `x <- x - v (t - t')`. Stochastic
//! (`sde`): `x_0 = x - v t`, then noised anew to `t'`.
//!
//! Source: Lipman et al. 2023, arXiv:2210.02747; upstream `generate_audio`.

pub mod guidance;
pub mod latents;
pub mod noise;
pub mod region;
pub mod schedule;

use acestep_model::{
    Backend, Quiet, Tap,
    acestep::{CrossAttended, Dit},
};
use burn::tensor::Tensor;

use crate::{
    Error,
    observe::{Event, Observe, Stage, check},
};
use guidance::{Guidance, GuidanceMode, Momentum};
use latents::noised;
use region::Region;
use schedule::{Schedule, base_sde_next};

/// How time passes from noise to music.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InferMethod {
    /// Euler steps along the velocity.
    Ode,
    /// To the predicted music and back to a less noisy time with fresh noise, each step.
    Sde,
}

/// What the transformer listens to and starts from.
#[derive(Debug, Clone)]
pub struct Track<B: Backend> {
    /// Lyrics, timbre and caption, `[B, L, encoder width]`.
    pub condition: Tensor<B, 3>,
    /// Source latents and mask, `[B, T, 2 C]`.
    pub context: Tensor<B, 3>,
}

/// What to follow when: one track, or another from some step on.
#[derive(Debug, Clone)]
pub struct Tracks<B: Backend> {
    /// From the first step.
    pub first: Track<B>,
    /// From this step (counted from 0) to the last.
    pub later: Option<(usize, Track<B>)>,
    /// Guidance; `None` runs the transformer once a step.
    pub steering: Option<Steering<B>>,
}

/// Guidance and what it steers away from.
#[derive(Debug, Clone)]
pub struct Steering<B: Backend> {
    /// How strongly, and when.
    pub guidance: Guidance,
    /// The condition that stands for none, `[1, 1, encoder width]`.
    pub null: Tensor<B, 3>,
}

/// Where sampling starts, and what of a source it keeps.
#[derive(Debug, Clone)]
pub struct Start<B: Backend> {
    /// The initial noise, `[B, T, C]`.
    pub noise: Tensor<B, 3>,
    /// Latents that the noise is laid over at the time of the first step, `[B, T, C]`; see
    /// [`Schedule::keeping`]. `None` starts from the noise alone, whatever that time is.
    pub source: Option<Tensor<B, 3>>,
    /// The stretch that is made anew; `None` = everything.
    pub region: Option<Region<B>>,
}

impl<B: Backend> From<Tensor<B, 3>> for Start<B> {
    /// From noise alone.
    fn from(noise: Tensor<B, 3>) -> Self {
        Self { noise, source: None, region: None }
    }
}

impl<B: Backend> Start<B> {
    /// What the first step, at time `t`, begins with: `[B, T, C]`.
    fn latents(&self, t: f32) -> Tensor<B, 3> {
        match &self.source {
            None => self.noise.clone(),
            Some(source) => noised(source.clone(), self.noise.clone(), t),
        }
    }
}

/// One step of the solver.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Where it starts.
    pub t: f32,
    /// Where it ends.
    pub next: f32,
}

/// Everything about sampling that is not a tensor.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampling {
    /// The steps, from noise to latents.
    pub steps: Vec<Step>,
    /// How each moves.
    pub method: InferMethod,
    /// Whether the model is distilled: its last step ends the run, and nothing is put back after it.
    pub is_turbo: bool,
}

impl Sampling {
    /// The steps of a schedule.
    ///
    /// Stochastic steps of models that are not distilled go to `1 - (i + 1) / N` whatever the
    /// schedule says, as upstream does.
    pub fn new(schedule: &Schedule, method: InferMethod, is_turbo: bool) -> Self {
        let times = &schedule.timesteps;
        let next = |index: usize| match method {
            InferMethod::Sde if !is_turbo => base_sde_next(index, times.len()),
            InferMethod::Sde | InferMethod::Ode => {
                times.get(index + 1).copied().unwrap_or(schedule.terminal)
            }
        };
        let steps = times.iter().enumerate().map(|(i, &t)| Step { t, next: next(i) }).collect();
        Self { steps, method, is_turbo }
    }

    /// Whether the step re-noises: a stochastic step that does not end the run.
    ///
    /// The distilled models end on a plain step; the others draw noise even for their last step,
    /// where it is multiplied by zero.
    fn renoises(&self, index: usize) -> bool {
        self.method == InferMethod::Sde && self.steps[index].next > 0.0
    }
}

/// Carries noise, or a noised source, to latents, `[B, T, C]`.
///
/// `step_noise(i)` gives the fresh noise of step `i`, `[B, T, C]`; only stochastic steps ask.
///
/// # Errors
/// [`Error::Cancelled`].
pub fn sample<B: Backend>(
    dit: &Dit<B>,
    tracks: &Tracks<B>,
    start: Start<B>,
    sampling: &Sampling,
    step_noise: impl FnMut(usize) -> Tensor<B, 3>,
    observe: &dyn Observe,
) -> Result<Tensor<B, 3>, Error> {
    sample_tapped(dit, tracks, start, sampling, step_noise, observe, &mut Quiet)
}

/// [`sample`], showing `step{i}.xt` and `step{i}.vt`: what the transformer is given and gives,
/// twice the batch where guidance applies.
///
/// # Errors
/// [`Error::Cancelled`].
pub fn sample_tapped<B: Backend>(
    dit: &Dit<B>,
    tracks: &Tracks<B>,
    start: Start<B>,
    sampling: &Sampling,
    mut step_noise: impl FnMut(usize) -> Tensor<B, 3>,
    observe: &dyn Observe,
    tap: &mut impl Tap<B>,
) -> Result<Tensor<B, 3>, Error> {
    let total = sampling.steps.len();
    observe.event(Event::Advanced { stage: Stage::Diffusion, done: 0, total });
    let mut velocity = Velocity::new(dit, &tracks.first, tracks.steering.as_ref());
    let mut x = start.latents(sampling.steps.first().map_or(1.0, |step| step.t));
    // ANCHOR: solver
    for (index, &step) in sampling.steps.iter().enumerate() {
        check(observe)?;
        if let Some((from, later)) = &tracks.later
            && index == *from
        {
            velocity.follow(later);
        }
        let v = velocity.at(x.clone(), step.t, index, tap);
        x = if sampling.renoises(index) {
            noised(x - v * step.t, step_noise(index), step.next)
        } else if sampling.method == InferMethod::Sde {
            x - v * step.t
        } else {
            x - v * (step.t - step.next)
        };
        let ends_the_run = sampling.is_turbo && index + 1 == total;
        if let Some(region) = &start.region
            && index < region.injected_steps
            && !ends_the_run
        {
            x = region.injected(x, &start.noise, step.next);
        }
        observe.event(Event::Advanced { stage: Stage::Diffusion, done: index + 1, total });
    }
    // ANCHOR_END: solver
    Ok(match &start.region {
        Some(region) => region.blended(x),
        None => x,
    })
}

/// The guided velocity, with what it keeps from step to step.
struct Velocity<'a, B: Backend> {
    dit: &'a Dit<B>,
    steering: Option<&'a Steering<B>>,
    track: &'a Track<B>,
    plain: Option<CrossAttended<B>>,
    doubled: Option<CrossAttended<B>>,
    momentum: Momentum<B>,
}

impl<'a, B: Backend> Velocity<'a, B> {
    fn new(dit: &'a Dit<B>, track: &'a Track<B>, steering: Option<&'a Steering<B>>) -> Self {
        Self { dit, steering, track, plain: None, doubled: None, momentum: Momentum::default() }
    }

    /// Follows another track; what is kept of the condition is computed anew.
    fn follow(&mut self, track: &'a Track<B>) {
        (self.track, self.plain, self.doubled) = (track, None, None);
    }

    /// # Shapes
    /// - `x`, output: `[B, T, C]`
    fn at(&mut self, x: Tensor<B, 3>, t: f32, index: usize, tap: &mut impl Tap<B>) -> Tensor<B, 3> {
        let Track { condition, context } = self.track;
        let batch = x.dims()[0];
        let dit = self.dit;
        let Some(Steering { guidance, null }) = self.steering.filter(|s| s.guidance.applies(t))
        else {
            let heard = self.plain.get_or_insert_with(|| dit.attend_to(condition.clone()));
            let times = vec![t; batch];
            tap.tap(format_args!("step{index}.xt"), &x);
            let v = dit.forward(x, context.clone(), [&times, &times], heard);
            tap.tap(format_args!("step{index}.vt"), &v);
            return v;
        };

        let heard = self.doubled.get_or_insert_with(|| {
            let nothing = null.clone().expand(condition.dims());
            dit.attend_to(Tensor::cat(vec![condition.clone(), nothing], 0))
        });
        let times = vec![t; 2 * batch];
        let context = Tensor::cat(vec![context.clone(); 2], 0);
        let x = Tensor::cat(vec![x; 2], 0);
        tap.tap(format_args!("step{index}.xt"), &x);
        let both = dit.forward(x, context, [&times, &times], heard);
        tap.tap(format_args!("step{index}.vt"), &both);
        let conditional = both.clone().narrow(0, 0, batch);
        let unconditional = both.narrow(0, batch, batch);
        match guidance.mode {
            GuidanceMode::Apg => {
                guidance::apg(conditional, unconditional, guidance.scale, &mut self.momentum)
            }
            GuidanceMode::Cfg => guidance::cfg(conditional, unconditional, guidance.scale),
        }
    }
}
