//! Flow-edit: a song is carried from one description to another without being sampled anew.
//!
//! At each time the source is noised, and the transformer is asked twice: for the noised source as
//! its own description has it, and for the edited song, as noisy, as the target describes it. The
//! edited song moves along the difference of the two answers, so what both descriptions share stays:
//!
//! ```text
//! zs = (1 - t) x_src + t noise      zt = z + zs - x_src      z <- z - (v_target(zt) - v_source(zs)) (t - t')
//! ```
//!
//! After the window the edited song is noised once and carried on along the target alone.
//!
//! Source: Kulikov et al. 2024, FlowEdit, arXiv:2412.08629; upstream
//! `acestep/models/common/flow_edit.py`, which knows Euler steps, without DCW.

use std::ops::Range;

use acestep_model::{Backend, Quiet, acestep::Dit};
use burn::tensor::Tensor;

use super::{
    Sampling, Steering, Track,
    guidance::Role,
    latents::noised,
    solver::{History, Step, euler},
    velocity::Velocity,
};
use crate::{
    Error,
    observe::{Event, Observe, Stage, check},
};

/// A song, and what it is edited from and to.
#[derive(Debug, Clone)]
pub struct Edit<B: Backend> {
    /// Latents of the song, `[B, T, C]`.
    pub song: Tensor<B, 3>,
    /// The song as it is.
    pub source: Side<B>,
    /// The song as it is to be.
    pub target: Side<B>,
    /// When, and how carefully.
    pub window: Window,
}

/// One of the two descriptions.
#[derive(Debug, Clone)]
pub struct Side<B: Backend> {
    /// What the transformer follows.
    pub track: Track<B>,
    /// Guidance of this side; `None` runs the transformer once.
    pub steering: Option<Steering<B>>,
}

/// The steps that edit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    /// Steps before this share of them are left out: the song keeps more of itself.
    pub n_min: f64,
    /// Steps from this share on carry the target alone, from a noised song: it keeps less.
    pub n_max: f64,
    /// So many noises are drawn for each step, and the answers averaged; at least 1.
    pub n_avg: usize,
}

impl Window {
    /// The steps that edit, of `steps`: `trunc(steps n_min) .. trunc(steps n_max)`.
    pub fn steps(&self, steps: usize) -> Range<usize> {
        let of = |share: f64| ((steps as f64 * share) as usize).min(steps);
        of(self.n_min)..of(self.n_max)
    }
}

/// Carries a song from its own description to the target's, `[B, T, C]`.
///
/// Of `sampling` the steps and the smoothing count; its solver and correction are those of other
/// ways. `draw` gives fresh noise, `[B, T, C]`, each time that it is called: `n_avg` times for each
/// step of the window, and once after it.
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
    observe.event(Event::Advanced { stage: Stage::Diffusion, done: 0, total });
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
        observe.event(Event::Advanced { stage: Stage::Diffusion, done, total });
    }
    Ok(edited)
}

/// One side's velocity, with what it keeps from step to step.
struct Path<'a, B: Backend> {
    velocity: Velocity<'a, B>,
    history: History<B>,
}

impl<'a, B: Backend> Path<'a, B> {
    fn new(dit: &'a Dit<B>, side: &'a Side<B>) -> Self {
        let velocity = Velocity::new(dit, &side.track, side.steering.as_ref());
        Self { velocity, history: History::default() }
    }

    /// The mean of the guided velocities at several places, at least one, of one time.
    ///
    /// APG's memory is the same for each of them, and moves on once, by the mean of their differences.
    ///
    /// # Shapes
    /// - `places`, output: `[B, T, C]`
    fn mean(&mut self, places: &[Tensor<B, 3>], step: Step, sampling: &Sampling) -> Tensor<B, 3> {
        let before = self.velocity.momentum.clone();
        let mut differences = Vec::new();
        let mut velocities = Vec::new();
        for x in places {
            let prediction = self.velocity.predict(x, step.t, None, &mut Quiet);
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

/// The mean of tensors of one shape, if there are some.
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
