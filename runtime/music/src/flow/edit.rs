//! Flow-edit: changes a song from one description to another without sampling it from noise.
//!
//! At each time the source is noised and the transformer runs twice: on the noised source with the
//! source's description, and on the edited song with the same noise and the target's description.
//! The edited song moves along the difference, so what both descriptions share stays:
//!
//! ```text
//! zs = (1 - t) x_src + t noise      zt = z + zs - x_src      z <- z - (v_target(zt) - v_source(zs)) (t - t')
//! ```
//!
//! After the window the edited song is noised once and sampled with the target alone.
//!
//! Source: Kulikov et al. 2024, FlowEdit, arXiv:2412.08629; upstream
//! `acestep/models/common/flow_edit.py`, which has only Euler steps, without DCW.

use std::ops::Range;

use acestep_engine::{
    Error,
    progress::{Event, Observe, check},
};
use acestep_model::{Backend, NoTap, acestep::Dit};
use burn::tensor::Tensor;
use serde::Serialize;

use super::{
    Sampling, Steering, Track,
    guidance::Role,
    latents::noised,
    solver::{History, Step, euler},
    velocity::Velocity,
};
use crate::stage;

/// A song with its source and target descriptions.
#[derive(Debug, Clone)]
pub struct Edit<B: Backend> {
    /// Latents of the song, `[B, T, C]`.
    pub song: Tensor<B, 3>,
    /// Description of the song as it is.
    pub source: Side<B>,
    /// Description of the song after the edit.
    pub target: Side<B>,
    /// The steps that edit, and the number of noise samples.
    pub window: Window,
}

/// One of the two descriptions.
#[derive(Debug, Clone)]
pub struct Side<B: Backend> {
    /// Inputs of the transformer.
    pub track: Track<B>,
    /// Guidance of this side; `None` runs the transformer once.
    pub steering: Option<Steering<B>>,
}

/// The steps that edit, as shares of all steps.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Window {
    /// Start of the window. Earlier steps are skipped, so the song changes less.
    pub n_min: f64,
    /// End of the window. Later steps sample a noised song with the target alone: it changes more.
    pub n_max: f64,
    /// Noise samples per step, over which the velocities are averaged; at least 1.
    pub n_avg: usize,
}

impl Window {
    /// Returns the steps that edit, of `steps`: `trunc(steps n_min) .. trunc(steps n_max)`.
    pub fn steps(&self, steps: usize) -> Range<usize> {
        let of = |share: f64| ((steps as f64 * share) as usize).min(steps);
        of(self.n_min)..of(self.n_max)
    }
}

/// Changes a song from its own description to the target's, `[B, T, C]`.
///
/// Only the steps and the smoothing of `sampling` are used: its solver and correction do not apply.
/// `draw` returns fresh noise, `[B, T, C]`, on each call: `n_avg` times for each step of the
/// window, and once after it.
///
/// # Errors
/// [`Error::Cancelled`].
pub fn edit<B: Backend>(
    dit: &Dit<B>,
    edit: &Edit<B>,
    sampling: &Sampling,
    mut draw: impl FnMut() -> Tensor<B, 3>,
    observe: &dyn Observe,
) -> Result<Tensor<B, 3>, Error> {
    let window = edit.window.steps(sampling.steps.len());
    let total = sampling.steps.len() - window.start;
    observe.event(Event::Advanced { stage: stage::DIFFUSION, done: 0, total });
    let (mut source, mut target) = (Path::new(dit, &edit.source), Path::new(dit, &edit.target));
    let song = &edit.song;
    let mut edited = song.clone();
    for (index, &step) in sampling.steps.iter().enumerate().skip(window.start) {
        check(observe)?;
        // ANCHOR: edit
        if index < window.end {
            let noised_songs: Vec<_> = (0..edit.window.n_avg.max(1))
                .map(|_| noised(song.clone(), draw(), step.t))
                .collect();
            let shift = edited.clone() - song.clone();
            let shifted: Vec<_> = noised_songs.iter().map(|x| x.clone() + shift.clone()).collect();
            let difference =
                target.mean(&shifted, step, sampling) - source.mean(&noised_songs, step, sampling);
            edited = euler::step(edited, difference, step);
        } else {
            if index == window.end.max(window.start) {
                edited = edited - song.clone() + noised(song.clone(), draw(), step.t);
            }
            let v = target.mean(&[edited.clone()], step, sampling);
            edited = euler::step(edited, v, step);
        }
        // ANCHOR_END: edit
        let done = index + 1 - window.start;
        observe.event(Event::Advanced { stage: stage::DIFFUSION, done, total });
    }
    Ok(edited)
}

/// The velocity of one side, with its state between steps.
struct Path<'a, B: Backend> {
    velocity: Velocity<'a, B>,
    history: History<B>,
}

impl<'a, B: Backend> Path<'a, B> {
    fn new(dit: &'a Dit<B>, side: &'a Side<B>) -> Self {
        let velocity = Velocity::new(dit, &side.track, side.steering.as_ref());
        Self { velocity, history: History::default() }
    }

    /// Returns the mean of the guided velocities at one or more places, all at the same time.
    ///
    /// All of them use the same APG momentum. It advances once, by the mean of the differences.
    ///
    /// # Shapes
    /// - `places`, output: `[B, T, C]`
    fn mean(&mut self, places: &[Tensor<B, 3>], step: Step, sampling: &Sampling) -> Tensor<B, 3> {
        let before = self.velocity.momentum.clone();
        let mut differences = Vec::new();
        let mut velocities = Vec::new();
        for x in places {
            let prediction = self.velocity.predict(x, step.t, None, &mut NoTap);
            if let Some(unconditional) = &prediction.unconditional {
                differences.push(prediction.conditional.clone() - unconditional.clone());
            }
            self.velocity.momentum = before.clone();
            let v = self.velocity.guided(prediction, x, step.t, Role::Start);
            velocities.push(sampling.smoothing.shortened(v, x));
        }
        self.velocity.momentum = before;
        if let Some(difference) = mean(differences) {
            self.velocity.momentum.advance(difference);
        }
        let v = mean(velocities).unwrap_or_else(|| places[0].zeros_like());
        let v = sampling.smoothing.mixed(v, self.history.velocity());
        self.history.push(v.clone(), step.length());
        v
    }
}

/// Returns the mean of tensors of one shape; `None` if there are none.
fn mean<B: Backend>(tensors: Vec<Tensor<B, 3>>) -> Option<Tensor<B, 3>> {
    let count = tensors.len() as f32;
    tensors.into_iter().reduce(|a, b| a + b).map(|sum| sum / count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_the_steps_are_cut_as_python_cuts_them() {
        let steps = |n_min, n_max, total| Window { n_min, n_max, n_avg: 1 }.steps(total);
        assert_eq!(steps(0.0, 1.0, 8), 0..8);
        assert_eq!(steps(0.1, 0.7, 50), 5..35);
        assert_eq!(steps(0.3, 0.3, 8), 2..2);
        assert_eq!(steps(1.0, 1.0, 8), 8..8);
    }
}
