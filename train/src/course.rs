//! A course of steps: what every stage of training has in common.
//!
//! Everything that is random in a step follows from the seed and the step's number, so that a course
//! that was stopped and goes on from its last state ends with the same weights as one that was not, on a
//! processor of the same kind to the last bit; a card, and whoever changes between two, adds up in another
//! order.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use acestep_runtime::files::{Existing, write_whole};
use burn::{
    module::{AutodiffModule, Module},
    tensor::{DType, Tensor, backend::AutodiffBackend},
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{
    Error, curves,
    learner::{Habits, Learner},
};

/// Where a course is kept, and how it goes.
#[derive(Debug, Clone)]
pub struct Course {
    /// Its folder: `state.bin` to go on from, `losses.csv` with a row every few steps, `losses.png`.
    pub folder: PathBuf,
    /// Decides everything that is random.
    pub seed: u64,
    /// What learns, from what: a state of anything else is refused.
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

/// What a saved state begins with.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    step: usize,
    seed: u64,
    of: String,
    habits: Habits,
    /// Seconds that were spent on learning.
    seconds: f64,
    /// Bytes of network, mean and optimizer, which follow.
    sizes: [usize; 3],
    /// SHA-256 of all three.
    checksum: String,
}

/// Steps in a row without a gradient after which nothing will be learned any more.
const PATIENCE: usize = 20;

/// Steps whose losses are one row.
const ROW: usize = 20;

impl Course {
    fn state_path(&self) -> PathBuf {
        self.folder.join("state.bin")
    }

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

    /// The learner as the folder's state has it, if there is one, and the seconds it has learned.
    fn start<B: AutodiffBackend, M: AutodiffModule<B>>(
        &self,
        learner: Learner<B, M>,
        device: &B::Device,
    ) -> Result<(Learner<B, M>, f64), Error>
    where
        M::InnerModule: Module<B::InnerBackend>,
    {
        let Some((Header { step, seconds, sizes, .. }, bytes)) = self.state()? else {
            return Ok((learner, 0.0));
        };
        let mut rest = bytes.as_slice();
        let blobs = sizes.map(|size| {
            let (blob, after) = rest.split_at(size);
            rest = after;
            blob.to_vec()
        });
        let learner =
            learner.restore(blobs, step, device).map_err(|error| self.bad(&error.to_string()))?;
        Ok((learner, seconds))
    }

    /// The folder's state, if there is one: what it begins with, and the rest, which is whole.
    fn state(&self) -> Result<Option<(Header, Vec<u8>)>, Error> {
        let path = self.state_path();
        let mut bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(Error::Read { path, source }),
        };
        let end = bytes.iter().position(|&byte| byte == b'\n');
        let end = end.ok_or_else(|| self.bad("no state of a course"))?;
        let header: Header =
            serde_json::from_slice(&bytes[..end]).map_err(|_| self.bad("no state of a course"))?;
        if header.seed != self.seed || header.habits != self.habits || header.of != self.of {
            return Err(self.bad(
                "of a course with another seed, other settings or other data; \
                            remove it to begin anew",
            ));
        }
        let rest = bytes.split_off(end + 1);
        let size = header.sizes.iter().try_fold(0_usize, |sum, &size| sum.checked_add(size));
        if size != Some(rest.len()) {
            return Err(self.bad("it is cut short"));
        }
        if digest([rest.as_slice()]) != header.checksum {
            return Err(self.bad("it is damaged"));
        }
        Ok(Some((header, rest)))
    }

    fn bad(&self, reason: &str) -> Error {
        Error::State { path: self.state_path(), reason: reason.to_owned() }
    }

    fn save<B: AutodiffBackend, M: AutodiffModule<B>>(
        &self,
        learner: &Learner<B, M>,
        seconds: f64,
    ) -> Result<(), Error>
    where
        M::InnerModule: Module<B::InnerBackend>,
    {
        let path = self.state_path();
        let bad = |error: &dyn std::fmt::Display| Error::State {
            path: path.clone(),
            reason: error.to_string(),
        };
        let blobs = learner.state().map_err(|error| bad(&error))?;
        let sizes = [0, 1, 2].map(|i: usize| blobs[i].len());
        let (step, seed, habits) = (learner.step(), self.seed, self.habits.clone());
        let (of, checksum) = (self.of.clone(), digest(blobs.iter().map(Vec::as_slice)));
        let header = Header { step, seed, of, habits, seconds, sizes, checksum };
        let header = serde_json::to_string(&header).map_err(|error| bad(&error))?;
        write_whole(&path, Existing::Replace, |file| {
            let written = writeln!(file, "{header}")
                .and_then(|()| blobs.iter().try_for_each(|blob| file.write_all(blob)));
            written.map_err(|source| acestep_runtime::Error::File {
                action: acestep_runtime::Action::Write,
                path: path.clone(),
                source,
            })
        })?;
        Ok(())
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

/// The means of some steps; after a stop in the middle of a row, of those since.
#[derive(Debug, Clone, Copy)]
pub struct Row<const N: usize> {
    /// Steps that were taken.
    pub step: usize,
    /// Of how many.
    pub steps: usize,
    /// Seconds since the beginning, pauses left out.
    pub seconds: f64,
    /// The rate of the last of them.
    pub rate: f64,
    /// How long gradients were.
    pub gradient: f32,
    /// Parts of the loss.
    pub parts: [f32; N],
}

impl<const N: usize> Default for Row<N> {
    fn default() -> Self {
        Self { step: 0, steps: 0, seconds: 0.0, rate: 0.0, gradient: 0.0, parts: [0.0; N] }
    }
}

/// `losses.csv`.
struct Table {
    path: PathBuf,
}

impl Table {
    /// Begins a table, or cuts one to the rows of the first `step` steps.
    fn open(path: &Path, names: &[&str], step: usize) -> Result<Self, Error> {
        let heading = format!("step,seconds,rate,gradient,{}", names.join(","));
        let kept = match fs::read_to_string(path) {
            Ok(text) if step > 0 => text
                .lines()
                .skip(1)
                .filter(|row| {
                    let first = row.split(',').next().and_then(|step| step.parse::<usize>().ok());
                    first.is_some_and(|of| of <= step)
                })
                .map(|row| format!("{row}\n"))
                .collect(),
            _ => String::new(),
        };
        fs::write(path, format!("{heading}\n{kept}"))
            .map_err(|source| Error::Write { path: path.to_owned(), source })?;
        Ok(Self { path: path.to_owned() })
    }

    fn add<const N: usize>(&mut self, row: &Row<N>) -> Result<(), Error> {
        let Row { step, seconds, rate, gradient, parts, .. } = row;
        let parts: String = parts.iter().map(|part| format!(",{part:.6}")).collect();
        let line = format!("{step},{seconds:.1},{rate:.3e},{gradient:.4}{parts}\n");
        let append =
            || OpenOptions::new().append(true).open(&self.path)?.write_all(line.as_bytes());
        append().map_err(|source| Error::Write { path: self.path.clone(), source })
    }

    /// Writes the picture of it beside it.
    fn draw(&self) -> Result<(), Error> {
        let text = fs::read_to_string(&self.path)
            .map_err(|source| Error::Read { path: self.path.clone(), source })?;
        let folder = self.path.parent().and_then(Path::file_name).unwrap_or_default();
        let Some(picture) = curves::draw(&folder.to_string_lossy(), &text)? else { return Ok(()) };
        let path = self.path.with_extension("png");
        fs::write(&path, picture).map_err(|source| Error::Write { path, source })
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use acestep_model::nn::Linear;
    use burn::{backend::Autodiff, tensor::Distribution};
    use burn_flex::Flex;

    use super::*;

    type Learning = Autodiff<Flex>;

    fn course(folder: &Path) -> Course {
        let habits = Habits {
            steps: 60,
            rate: 0.05,
            warm_up: 5,
            last: 0.1,
            betas: [0.9, 0.99],
            decay: 0.01,
            longest: 1.0,
            average: 0.9,
        };
        let save_every = Duration::from_secs(3600);
        let of = "a test".to_owned();
        Course {
            folder: folder.to_owned(),
            seed: 3,
            of,
            habits,
            save_every,
            at_once: Some(DType::F32),
        }
    }

    /// Weights after a course that learns to turn vectors round, stopped after each of `stops`.
    fn learned(folder: &Path, stops: &[usize]) -> (f32, Vec<f32>) {
        let device = Default::default();
        let start = Linear::<Learning>::init(4, 4, &device);
        // The same beginning every time.
        let mut weight = 0.0;
        let start = start.map(&mut Counted(&mut weight));
        let (taken, last) = (Cell::new(0), Cell::new(0.0));
        let lesson = |step: usize, model: &Linear<Learning>| {
            taken.set(step + 1);
            let x = (0..32).map(|i| ((i * (step + 7)) % 11) as f32 / 5.0 - 1.0).collect();
            let x = burn::tensor::TensorData::new::<f32, _>(x, [8, 4]);
            let x = Tensor::<Learning, 2>::from_data(x, &device);
            let loss = (model.forward(x.clone()) + x).square().mean();
            last.set(loss.clone().into_scalar());
            Lesson { loss, parts: [last.get()] }
        };
        let stop = || stops.contains(&taken.get());
        let done = course(folder)
            .run::<Learning, _, 1>(start, ["error"], lesson, &mut |_| {}, &stop)
            .expect("a course");
        let values = done.map(|done| {
            let eye = Tensor::<Flex, 2>::eye(4, &device);
            done.forward(eye).into_data().to_vec().expect("f32")
        });
        (last.get(), values.unwrap_or_default())
    }

    /// Fills parameters with numbers that count on.
    struct Counted<'a>(&'a mut f32);

    impl burn::module::ModuleMapper<Learning> for Counted<'_> {
        fn map_float<const D: usize>(
            &mut self,
            param: burn::module::Param<Tensor<Learning, D>>,
        ) -> burn::module::Param<Tensor<Learning, D>> {
            let (id, value, mapper) = param.consume();
            *self.0 += 0.1;
            let value =
                Tensor::random_like(&value, Distribution::Uniform(0.1, 0.2)) * 0.0 + *self.0;
            burn::module::Param::from_mapped_value(id, value.detach().require_grad(), mapper)
        }
    }

    #[test]
    fn a_course_that_is_stopped_ends_where_one_does_that_is_not() {
        let [whole, parts] = [0, 1].map(|_| tempfile::tempdir().expect("a folder"));
        let (error, expected) = learned(whole.path(), &[]);
        assert!(error < 0.2, "it learns: {error}");
        assert!(learned(parts.path(), &[13]).1.is_empty(), "stopped");
        assert!(learned(parts.path(), &[13, 40]).1.is_empty(), "stopped again");
        assert_eq!(learned(parts.path(), &[]).1, expected);
        let table = |folder: &Path| {
            let text = fs::read_to_string(folder.join("losses.csv")).expect("a table");
            // All but the seconds.
            let row = |row: &str| {
                row.split(',')
                    .enumerate()
                    .filter(|(i, _)| *i != 1)
                    .map(|(_, of)| of.to_owned())
                    .collect::<Vec<_>>()
            };
            text.lines().map(row).collect::<Vec<_>>()
        };
        let (whole, parts) = (table(whole.path()), table(parts.path()));
        assert_eq!(whole.len(), 4, "{whole:?}");
        assert_eq!(whole.first(), parts.first());
        assert_eq!(whole.last().map(|row| &row[0]), parts.last().map(|row| &row[0]));
    }

    #[test]
    fn a_state_of_another_course_or_a_cut_one_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        learned(folder.path(), &[10]);
        let path = folder.path().join("state.bin");
        let state = fs::read(&path).expect("a state");
        let said = |course: &Course| {
            let model = Linear::<Learning>::init(4, 4, &Default::default());
            course
                .start(Learner::new(model, course.habits.clone()), &Default::default())
                .map(|_| ())
                .expect_err("refused")
                .to_string()
        };
        let other = Course { seed: 4, ..course(folder.path()) };
        assert!(said(&other).contains("another seed"), "{}", said(&other));
        let other = Course { of: "another".to_owned(), ..course(folder.path()) };
        assert!(said(&other).contains("another seed"), "{}", said(&other));
        let mut damaged = state.clone();
        let last = damaged.len() - 1;
        damaged[last] ^= 1;
        fs::write(&path, &damaged).expect("a damaged state");
        assert!(said(&course(folder.path())).contains("damaged"));
        fs::write(&path, &state[..state.len() - 1]).expect("a cut state");
        assert!(said(&course(folder.path())).contains("cut short"));
        fs::write(&path, "x").expect("no state");
        assert!(said(&course(folder.path())).contains("no state of a course"));
    }
}
