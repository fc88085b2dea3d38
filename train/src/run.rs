//! A training run: the part that all stages of training share.
//!
//! All random values of a step depend only on the seed and the step's number. So a run that was
//! stopped and resumed ends with the same weights as an uninterrupted one. On CPUs of the same kind
//! they are equal to the last bit. A GPU, or a change of the device, adds in another order.

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
    learner::{Learner, OptimizerConfig},
};
pub use table::Row;
use table::Table;

/// The folder and the settings of a training run.
#[derive(Debug, Clone)]
pub struct TrainingRun {
    /// Its folder: `state.bin` to resume from, `losses.csv` with a row every few steps,
    /// `losses.png`.
    pub folder: PathBuf,
    /// The seed of all random values.
    pub seed: u64,
    /// The facts that identify the run; a state with other facts is refused. One fact per line,
    /// `name: value`, so that an error can name the facts that differ.
    pub of: String,
    /// Settings of the optimizer.
    pub optimizer_config: OptimizerConfig,
    /// Time between two saved states.
    pub save_every: Duration,
    /// The type of the matrices if the parts of a step are computed in parallel; `None` = one after
    /// the other. See [`Learner::learn_from_all`].
    pub at_once: Option<DType>,
}

/// The loss of one step, and the named values to record.
pub struct StepLoss<B: AutodiffBackend, const N: usize> {
    /// The loss to differentiate, `[1]`.
    pub loss: Tensor<B, 1>,
    /// The values to record, in the order of the names passed to the run.
    pub parts: [f32; N],
}

/// Consecutive steps without a finite gradient after which training has diverged.
const PATIENCE: usize = 20;

/// Steps per row of the table.
const ROW: usize = 20;

impl TrainingRun {
    /// True if all steps were taken.
    ///
    /// # Errors
    /// [`Error`] if the folder's state cannot be read, or belongs to another run.
    pub fn is_finished(&self) -> Result<bool, Error> {
        Ok(self.state()?.is_some_and(|(header, _)| header.step >= self.optimizer_config.steps))
    }

    /// Trains `model`, or resumes from the folder's state. Returns the moving average of its
    /// weights.
    ///
    /// The loss of a step is the mean of `parts` losses. `step_loss` computes each from its number,
    /// counted from the run's beginning. They are computed one after the other, with the memory of
    /// one. `report` gets every row. `stop` is called after
    /// each step; if it returns true, the state is saved and `run` returns `None`.
    ///
    /// # Errors
    /// [`Error`] if files cannot be read or written, or training diverges.
    pub fn run<B: AutodiffBackend, M: AutodiffModule<B>, const N: usize>(
        &self,
        model: M,
        names: [&str; N],
        parts: usize,
        mut step_loss: impl FnMut(usize, &M) -> StepLoss<B, N>,
        report: &mut dyn FnMut(&Row<N>),
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<M::InnerModule>, Error>
    where
        M::InnerModule: Module<B::InnerBackend>,
    {
        let take = |learner: &mut Learner<B, M>| {
            let first = learner.step() * parts;
            let of_part = |part: usize, model: &M| {
                let StepLoss { loss, parts } = step_loss(part, model);
                (loss, parts)
            };
            let (length, all) = learner.learn_in_turn((first..first + parts).collect(), of_part);
            (length, mean(&all))
        };
        self.take_all(model, names, take, report, stop)
    }

    /// As [`run`](Self::run), but with several items per step, which `parts_of` returns. The loss
    /// is the mean of the items' losses.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_in_parts<B: AutodiffBackend, M: AutodiffModule<B>, T: Send, const N: usize>(
        &self,
        model: M,
        names: [&str; N],
        mut parts_of: impl FnMut(usize) -> Vec<T>,
        step_loss: impl Fn(T, &M) -> StepLoss<B, N> + Sync,
        report: &mut dyn FnMut(&Row<N>),
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<M::InnerModule>, Error>
    where
        M::InnerModule: Module<B::InnerBackend>,
    {
        let of_part = |part: T, model: &M| {
            let StepLoss { loss, parts } = step_loss(part, model);
            (loss, parts)
        };
        let take = |learner: &mut Learner<B, M>| {
            let (length, all) =
                learner.learn_from_all(parts_of(learner.step()), self.at_once, of_part);
            (length, mean(&all))
        };
        self.take_all(model, names, take, report, stop)
    }

    /// Takes all remaining steps. `take` takes one step and returns the gradient's norm and the
    /// values to record.
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
            self.start(Learner::new(model, self.optimizer_config.clone()), &device)?;
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
                let rate = self.optimizer_config.rate_at(step);
                let gradient = row.gradient / counted as f32;
                let steps = self.optimizer_config.steps;
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

fn mean<const N: usize>(all: &[[f32; N]]) -> [f32; N] {
    std::array::from_fn(|i| all.iter().map(|of| of[i]).sum::<f32>() / all.len() as f32)
}

/// SHA-256 of the concatenated bytes, in hexadecimal digits.
pub fn digest<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut sum = Sha256::new();
    parts.into_iter().for_each(|part| sum.update(part));
    sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A seed for the random values of a step, determined by `seed` and `step`.
pub fn seed_of(seed: u64, step: usize) -> u64 {
    // SplitMix64 (Steele et al. 2014): consecutive inputs give unrelated outputs.
    let mut z = seed.wrapping_add((step as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
