//! A course of steps: what every stage of training has in common.
//!
//! Everything that is random in a step follows from the seed and the step's number, so that a course
//! that was stopped and goes on from its last state ends with the same weights as one that was not, on a
//! processor of the same kind to the last bit; a card, and whoever changes between two, adds up in another
//! order.

mod state;
mod table;
#[cfg(test)]
mod tests;

use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use burn::{
    module::{AutodiffModule, Module},
    tensor::{DType, Tensor, backend::AutodiffBackend},
};
use sha2::{Digest, Sha256};

use crate::{
    Error,
    learner::{Habits, Learner},
};
pub use table::Row;
use table::Table;

/// Where a course is kept, and how it goes.
#[derive(Debug, Clone)]
pub struct Course {
    /// Its folder: `state.bin` to go on from, `losses.csv` with a row every few steps, `losses.png`.
    pub folder: PathBuf,
    /// Decides everything that is random.
    pub seed: u64,
    /// The facts of what learns from what: a state of anything else is refused. One fact a line, `name: value`, so
    /// that it can be said which is another.
    pub of: String,
    /// How the network learns.
    pub habits: Habits,
    /// Time between two states that are saved.
    pub save_every: Duration,
    /// Whether the parts of a step are computed at the same time, if there are several, and with matrices of what
    /// type: see [`Learner::learn_from_all`].
    pub at_once: Option<DType>,
}

/// The loss of one step: what is learned from, and what is written down, each with its name.
pub struct Lesson<B: AutodiffBackend, const N: usize> {
    /// What the gradient is of, `[1]`.
    pub loss: Tensor<B, 1>,
    /// Its parts, as the names of the course say.
    pub parts: [f32; N],
}

/// Steps in a row without a gradient after which nothing will be learned any more.
const PATIENCE: usize = 20;

/// Steps whose losses are one row.
const ROW: usize = 20;

impl Course {
    /// Whether all steps were taken.
    ///
    /// # Errors
    /// [`Error`] if the folder's state cannot be read, or is of something else.
    pub fn is_finished(&self) -> Result<bool, Error> {
        Ok(self.state()?.is_some_and(|(header, _)| header.step >= self.habits.steps))
    }

    /// Teaches `model`, or goes on where the folder's state ends; gives the mean of its weights.
    ///
    /// `lesson` makes the loss of a step, `report` is told of every row, and `stop` says after each
    /// step whether to save and leave; then `None` is given.
    ///
    /// # Errors
    /// [`Error`] if files cannot be read or written, or the loss is no number.
    pub fn run<B: AutodiffBackend, M: AutodiffModule<B>, const N: usize>(
        &self,
        model: M,
        names: [&str; N],
        mut lesson: impl FnMut(usize, &M) -> Lesson<B, N>,
        report: &mut dyn FnMut(&Row<N>),
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<M::InnerModule>, Error>
    where
        M::InnerModule: Module<B::InnerBackend>,
    {
        let take = |learner: &mut Learner<B, M>| {
            let Lesson { loss, parts } = lesson(learner.step(), &learner.model);
            (learner.learn(&loss), parts)
        };
        self.take_all(model, names, take, report, stop)
    }

    /// [`run`](Self::run), each step in parts: what `parts_of` gives for a step, the loss being the mean
    /// of theirs.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_in_parts<B: AutodiffBackend, M: AutodiffModule<B>, T: Send, const N: usize>(
        &self,
        model: M,
        names: [&str; N],
        mut parts_of: impl FnMut(usize) -> Vec<T>,
        lesson: impl Fn(T, &M) -> Lesson<B, N> + Sync,
        report: &mut dyn FnMut(&Row<N>),
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<M::InnerModule>, Error>
    where
        M::InnerModule: Module<B::InnerBackend>,
    {
        let of_part = |part: T, model: &M| {
            let Lesson { loss, parts } = lesson(part, model);
            (loss, parts)
        };
        let take = |learner: &mut Learner<B, M>| {
            let (length, all) =
                learner.learn_from_all(parts_of(learner.step()), self.at_once, of_part);
            let mean = |i: usize| all.iter().map(|of| of[i]).sum::<f32>() / all.len() as f32;
            (length, std::array::from_fn(mean))
        };
        self.take_all(model, names, take, report, stop)
    }

    /// Takes all steps that are left; `take` takes one, and says how long its gradient was and what the
    /// losses.
    fn take_all<B: AutodiffBackend, M: AutodiffModule<B>, const N: usize>(
        &self,
        model: M,
        names: [&str; N],
        mut take: impl FnMut(&mut Learner<B, M>) -> (f32, [f32; N]),
        report: &mut dyn FnMut(&Row<N>),
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<M::InnerModule>, Error>
    where
        M::InnerModule: Module<B::InnerBackend>,
    {
        fs::create_dir_all(&self.folder)
            .map_err(|source| Error::Write { path: self.folder.clone(), source })?;
        let device = model.devices().into_iter().next().unwrap_or_default();
        let (mut learner, mut seconds) =
            self.start(Learner::new(model, self.habits.clone()), &device)?;
        let mut table = Table::open(&self.folder.join("losses.csv"), &names, learner.step())?;
        table.draw()?;
        let mut saved = Instant::now();
        let mut row = Row { seconds, ..Row::default() };
        let (mut counted, mut skipped) = (0, 0);
        while !learner.is_done() {
            let start = Instant::now();
            let step = learner.step();
            let (length, parts) = take(&mut learner);
            skipped = if length.is_finite() { 0 } else { skipped + 1 };
            if skipped == PATIENCE || !parts.iter().all(|part| part.is_finite()) {
                return Err(Error::Diverged { step });
            }
            seconds += start.elapsed().as_secs_f64();
            row.parts.iter_mut().zip(parts).for_each(|(sum, part)| *sum += part);
            row.gradient += length;
            counted += 1;
            if (step + 1).is_multiple_of(ROW) || learner.is_done() {
                row.parts.iter_mut().for_each(|sum| *sum /= counted as f32);
                let rate = self.habits.rate_at(step);
                let gradient = row.gradient / counted as f32;
                let steps = self.habits.steps;
                row = Row { step: step + 1, steps, seconds, rate, gradient, ..row };
                table.add(&row)?;
                report(&row);
                row = Row::default();
                counted = 0;
            }
            let leaving = stop();
            if leaving || saved.elapsed() > self.save_every || learner.is_done() {
                self.save(&learner, seconds)?;
                table.draw()?;
                saved = Instant::now();
            }
            if leaving && !learner.is_done() {
                return Ok(None);
            }
        }
        Ok(Some(learner.averaged()))
    }
}

/// SHA-256 of some bytes, in hexadecimal digits.
pub fn digest<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut sum = Sha256::new();
    parts.into_iter().for_each(|part| sum.update(part));
    sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A number that follows from both and from nothing else, for what is random in a step.
pub fn seed_of(seed: u64, step: usize) -> u64 {
    // SplitMix64 (Steele et al. 2014): neighbours have nothing in common.
    let mut z = seed.wrapping_add((step as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
