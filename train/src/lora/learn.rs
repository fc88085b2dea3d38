//! A training run of an adapter: from songs to its files.

use std::{cell::Cell, fs, path::Path, time::Duration};

use acestep_engine::{Error as EngineError, Event, Observe};
use acestep_import::{AceStep, Network};
use acestep_model::{Backend, ModelFiles, Place};
use burn::{backend::Autodiff, module::Module, tensor::DType};

use super::{Addition, DatasetSong, Examples, Shape, Timesteps, prepare, write};
use crate::{
    Error, LEARNING,
    learner::OptimizerConfig,
    run::{Row, StepLoss, TrainingRun, digest, seed_of},
    times,
};

/// Settings of a training run.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainingSettings {
    /// The adapter.
    pub shape: Shape,
    /// The seed of all random values.
    pub seed: u64,
    /// Average number of times that each song is used.
    pub epochs: usize,
    /// Songs per step.
    pub batch: usize,
    /// The learning rate.
    pub rate: f64,
    /// Steps until the full learning rate.
    pub warm_up: usize,
    /// Seconds of each song to train on.
    pub longest: f64,
}

/// The loss of the first step of a run and the mean of its last row, if it took any step.
pub type Losses = Option<[f32; 2]>;

impl TrainingSettings {
    /// Refuses values that no adapter can be trained with.
    ///
    /// # Errors
    /// [`BadValue`](EngineError::BadValue) with the name of the setting.
    pub fn check(&self) -> Result<(), EngineError> {
        let Self { shape, epochs, batch, rate, longest, .. } = self;
        let Shape { rank, alpha, dropout, .. } = shape;
        let use_number = |field, value: f64, fits: bool, why: &str| match fits {
            true => Ok(()),
            false => {
                let value = format!("{value:?}").trim_end_matches(".0").to_owned();
                let why = why.into();
                Err(EngineError::BadValue { field, value, why, near: None })
            }
        };
        // Smaller ones become 0 in f32, or teach nothing.
        let alpha_fits = alpha.is_finite() && *alpha >= 1e-6;
        let rate_fits = (1e-9..=1.0).contains(rate);
        let [n, e, b] = [*rank, *epochs, *batch].map(|count| count as f64);
        use_number("rank", n, (1..=1024).contains(rank), "use 1 to 1024")?;
        use_number("alpha", *alpha, alpha_fits, "use 0.000001 or more")?;
        use_number("dropout", *dropout, (0.0..=0.9).contains(dropout), "use 0 to 0.9")?;
        use_number("learning_rate", *rate, rate_fits, "use 0.000000001 to 1")?;
        use_number("epochs", e, *epochs > 0, "use 1 or more")?;
        use_number("batch_size", b, *batch > 0, "use 1 or more")?;
        let fits = (1.0..=600.0).contains(longest);
        use_number("max_duration", *longest, fits, "use 1 to 600 seconds")
    }

    /// Returns the run that trains on `entries` and keeps its state beside the adapter in `output`.
    /// `facts` are further facts that identify it; a saved state of another run cannot be used.
    ///
    /// # Errors
    /// [`Error::Read`] for a song.
    pub fn training(
        &self,
        output: &Path,
        entries: &[DatasetSong],
        facts: Vec<String>,
    ) -> Result<TrainingRun, Error> {
        let steps = (self.epochs * entries.len()).div_ceil(self.batch);
        Ok(TrainingRun {
            folder: output.join("training"),
            seed: self.seed,
            of: identity(facts, entries)?,
            optimizer_config: OptimizerConfig {
                steps,
                rate: self.rate,
                warm_up: self.warm_up.min(steps / 4),
                last: 0.0,
                betas: [0.9, 0.999],
                decay: 0.01,
                longest: 1.0,
                average: 0.0,
            },
            save_every: Duration::from_secs(300),
            at_once: None,
        })
    }
}

/// Refuses a type of the weights in which nothing can be trained.
///
/// # Errors
/// The reason.
pub fn check_dtype(dtype: DType) -> Result<(), &'static str> {
    match dtype {
        DType::I8 => Err("int8 weights cannot be trained"),
        DType::F16 => Err("gradients in f16 are lost or without bounds"),
        _ => Ok(()),
    }
}

/// Adds the songs to `facts`, one fact per line. A song is identified by the content of its file and
/// by its texts.
fn identity(mut facts: Vec<String>, entries: &[DatasetSong]) -> Result<String, Error> {
    for DatasetSong { audio, name, caption, lyrics, language, metas } in entries {
        let sound =
            fs::read(audio).map_err(|source| Error::Read { path: audio.clone(), source })?;
        let texts = format!("{:?}", (caption, lyrics, language, metas.to_text()));
        facts.push(format!("sound of `{name}`: {}", digest([&sound[..]])));
        facts.push(format!("texts of `{name}`: {}", digest([texts.as_bytes()])));
    }
    // A name may contain line breaks, but a fact is one line.
    let one_line = |fact: String| fact.replace(['\n', '\r'], " ");
    Ok(facts.into_iter().map(one_line).collect::<Vec<_>>().join("\n"))
}

/// Trains an adapter of the model in `folder` and writes it to `output`. Returns `None` if the user
/// stopped the run, whose state is kept.
///
/// # Errors
/// [`Error`] if files cannot be read or written, a network fails, or training diverges.
pub fn learn<B: Backend>(
    settings: &TrainingSettings,
    training: &TrainingRun,
    entries: &[DatasetSong],
    folder: &AceStep,
    output: &Path,
    place: &Place<B>,
    observe: &dyn Observe,
) -> Result<Option<Losses>, Error> {
    let TrainingSettings { shape, seed, batch, longest, .. } = settings;
    let device = place.device.clone();
    let needed = [Network::VaeEncoder, Network::TextEncoder, Network::Conditioner, Network::Dit];
    folder.check::<B>(&device, &needed)?;
    folder.check_tokenizer()?;
    let (songs, common) = prepare(entries, *longest, folder, place, observe)?;

    let stage = LEARNING;
    observe.event(Event::Loading(stage));
    let start = std::time::Instant::now();
    let learning = Place { device: device.clone(), dtype: place.dtype };
    let mut dit = folder.dit_dir().dit::<Autodiff<B>>(&learning)?.no_grad();
    let addition = Addition::init(&mut dit, shape, *seed, &device);
    let times = match folder.is_turbo() {
        true => Timesteps::Turbo,
        false => Timesteps::Any(times::LogitNormal::of(&folder.configs().dit)),
    };
    let (songs, common, dropout) = (&songs[..], &common, shape.dropout);
    let examples = Examples { dit: &dit, songs, common, times, dropout, device };
    let total = training.optimizer_config.steps;
    let (mut first, last) = (Vec::<f32>::with_capacity(*batch), Cell::new(None));
    observe.event(Event::Advanced { stage, done: 0, total });
    let learned = training.run::<Autodiff<B>, _, 1>(
        addition,
        ["error"],
        *batch,
        |part, addition| {
            let loss = examples.loss(addition, seed_of(*seed, part));
            let error = loss.clone().into_data().convert::<f32>().iter::<f32>().next();
            // The weights are memory-mapped. If their file changes, a NaN ends the run unsaved.
            let error = error.filter(|_| folder.unchanged().is_ok());
            if first.len() < *batch {
                first.extend(error);
            }
            observe.event(Event::Advanced { stage, done: (part + 1) / *batch, total });
            StepLoss { loss, parts: [error.unwrap_or(f32::NAN)] }
        },
        &mut |row: &Row<1>| last.set(Some(row.parts[0])),
        &|| observe.cancelled(),
    );
    folder.unchanged().map_err(EngineError::checkpoint)?;
    let Some(learned) = learned? else { return Ok(None) };
    write(output, &learned, shape, folder.name())?;
    observe.event(Event::Finished { stage, elapsed: start.elapsed() });
    let first = first.iter().sum::<f32>() / first.len() as f32;
    Ok(Some(last.get().map(|last| [first, last])))
}
