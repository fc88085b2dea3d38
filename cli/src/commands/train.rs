//! `acestep train`: trains an adapter on a folder of songs.

use std::{
    cell::Cell,
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use acestep_engine::{Error, Event, Observe};
use acestep_import::{AceStep, Network};
use acestep_model::{Backend, ModelFiles, Place};
use acestep_train::{
    learner::OptimizerConfig,
    lora::{self, Addition, Entry, Examples, Shape, Times},
    run::{Row, StepLoss, TrainingRun, digest, seed_of},
    times,
};
use anyhow::Result;
use burn::{backend::Autodiff, module::Module, tensor::DType};
use serde_json::json;

use super::engine::{self, Started};
use crate::{
    args::{
        Global,
        train::{Lora, Train, What},
    },
    error::CliError,
    fields,
    progress::{self, Progress},
    report::{self, Report},
    settings,
};

/// Runs the command.
pub(crate) fn run(args: &Train, global: &Global) -> Result<ExitCode> {
    match &args.what {
        What::Lora(args) => lora(args, &global.report())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The file that marks a folder as an adapter.
const ADAPTER: &str = "adapter_config.json";

fn lora(args: &Lora, report: &Report) -> Result<()> {
    let shape = shape(args)?;
    let output = output(args)?;
    let (entries, mut said) =
        lora::read(&args.songs, args.custom_tag.as_deref(), args.caption.as_deref())
            .map_err(known)?;
    said.extend(lora::twins(&entries));
    let layout = settings::layout();
    let model = args.model.clone().unwrap_or_else(settings::model);
    let folder = acestep_import::open(&model, &layout)?;
    folder.require(Network::Dit)?;
    let Started { engine, notices, .. } = engine::start(&args.place)?;
    let narrow = match engine.dtype {
        DType::I8 => Some("int8 weights cannot be trained"),
        DType::F16 => Some("gradients in f16 are lost or without bounds"),
        _ => None,
    };
    if let Some(message) = narrow {
        return Err(CliError::usage(message).hint("choose --dtype bf16 or f32").into());
    }
    said.extend(notices);
    report.notes(&said);

    let batch = usize::from(args.batch_size);
    let steps = (args.epochs as usize * entries.len()).div_ceil(batch);
    let training = TrainingRun {
        folder: output.join("training"),
        seed: args.seed,
        of: identity(args, folder.name(), &entries, engine.dtype).map_err(known)?,
        optimizer_config: OptimizerConfig {
            steps,
            rate: args.learning_rate,
            warm_up: (args.warmup_steps as usize).min(steps / 4),
            last: 0.0,
            betas: [0.9, 0.999],
            decay: 0.01,
            longest: 1.0,
            average: 0.0,
        },
        save_every: Duration::from_secs(300),
        at_once: None,
    };
    if args.force {
        remove(&training.folder.join("state.bin"))?;
    }
    fs::create_dir_all(&training.folder).map_err(|error| {
        CliError::new(format!("`{}` cannot be made", output.display()))
            .hint("name another folder with --output")
            .because(error)
    })?;
    let start = Instant::now();
    let progress = Progress::new(*report);
    let job = Learn {
        args,
        entries: &entries,
        folder: &folder,
        training: &training,
        shape: &shape,
        batch,
        output: &output,
        progress: &progress,
    };
    let learned = engine.run(job)?.map_err(known)?;
    said.extend(progress.finish().notices);
    let Some(losses) = learned else {
        let note = "the state is kept: the same command continues from it";
        report.note(note);
        return Err(Error::Cancelled.into());
    };
    let name = output.display().to_string();
    if args.json {
        let object = json!({
            "path": name,
            "songs": entries.len(),
            "steps": steps,
            "rank": shape.rank,
            "alpha": shape.alpha,
            "target_modules": shape.targets,
            "notices": fields::texts(&said),
            "loss": losses.map(|[first, last]| json!({ "first": first, "last": last })),
            "elapsed": start.elapsed().as_secs_f64(),
        });
        report.output(&format!("{object:#}"))?;
    } else {
        report::path(&output)?;
    }
    let fell =
        losses.map_or_else(String::new, |[first, last]| format!(", loss {first:.3} to {last:.3},"));
    report.line(&format!(
        "{steps} steps on {} songs{fell} in {} · {name}",
        entries.len(),
        progress::seconds(start.elapsed()),
    ));
    Ok(())
}

/// Checks the numbers of the command line and returns the adapter's shape.
fn shape(args: &Lora) -> Result<Shape, Error> {
    let least = |field: &'static str, value: f64, fits: bool, why: &str| match fits {
        true => Ok(()),
        false => {
            Err(Error::BadValue { field, value: value.to_string(), why: why.into(), near: None })
        }
    };
    let alpha = args.alpha.unwrap_or(2.0 * f64::from(args.rank));
    let rate = args.learning_rate;
    least("rank", args.rank.into(), (1..=1024).contains(&args.rank), "use 1 to 1024")?;
    least("alpha", alpha, alpha.is_finite() && alpha > 0.0, "use a number above 0")?;
    least("learning_rate", rate, rate > 0.0 && rate <= 1.0, "use a number above 0, at most 1")?;
    least("epochs", args.epochs.into(), args.epochs > 0, "use 1 or more")?;
    least("batch_size", args.batch_size.into(), args.batch_size > 0, "use 1 or more")?;
    let seconds = args.max_duration;
    least("max_duration", seconds, (1.0..=600.0).contains(&seconds), "use 1 to 600 seconds")?;
    Ok(Shape { rank: args.rank.into(), alpha, targets: args.target_modules.clone() })
}

/// The folder of the new adapter. It must not hold an adapter yet, except with `--force`.
fn output(args: &Lora) -> Result<PathBuf> {
    let output = match &args.output {
        Some(output) => output.clone(),
        None => {
            let songs = args.songs.canonicalize().unwrap_or_else(|_| args.songs.clone());
            let nameless = || {
                let message =
                    format!("`{}` has no name that one beside it could take", songs.display());
                CliError::usage(message).hint("name the folder of the adapter with --output")
            };
            let mut name = songs.file_name().ok_or_else(nameless)?.to_owned();
            name.push("-lora");
            songs.with_file_name(name)
        }
    };
    if output.join(ADAPTER).exists() && !args.force {
        let message = format!("`{}` holds an adapter already", output.display());
        let hint = "name another folder with --output, or replace it with --force";
        return Err(CliError::new(message).hint(hint).into());
    }
    Ok(output)
}

/// The facts that identify a training run; a saved state of another run cannot be used. One fact
/// per line. A song is identified by the content of its file and by its texts.
fn identity(
    args: &Lora,
    model: &str,
    entries: &[Entry],
    dtype: DType,
) -> Result<String, acestep_train::Error> {
    let Lora { rank, alpha, target_modules, batch_size, max_duration, .. } = args;
    let mut facts = vec![
        format!("--model: {model}"),
        format!("--dtype: {dtype:?}"),
        format!("--rank: {rank}"),
        format!("--alpha: {alpha:?}"),
        format!("--target-modules: {target_modules:?}"),
        format!("--batch-size: {batch_size}"),
        format!("--max-duration: {max_duration}"),
    ];
    for Entry { audio, caption, lyrics, language, metas } in entries {
        let name = audio.file_name().unwrap_or_default().to_string_lossy();
        let sound = fs::read(audio)
            .map_err(|source| acestep_train::Error::Read { path: audio.clone(), source })?;
        let texts = format!("{:?}", (caption, lyrics, language, metas.to_text()));
        facts.push(format!("sound of `{name}`: {}", digest([&sound[..]])));
        facts.push(format!("texts of `{name}`: {}", digest([texts.as_bytes()])));
    }
    // A name may contain line breaks, but a fact is one line.
    let one_line = |fact: String| fact.replace(['\n', '\r'], " ");
    Ok(facts.into_iter().map(one_line).collect::<Vec<_>>().join("\n"))
}

fn remove(file: &Path) -> Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(CliError::new(format!("`{}` cannot be removed", file.display()))
                .because(error)
                .hint("check its permissions, or name another folder with --output")
                .into())
        }
        _ => Ok(()),
    }
}

/// The hint if there are no usable songs.
const SONGS: &str = "name a folder of songs, each with a text beside it, or give all of them one with `--caption`: `acestep train lora --help`";

/// Turns a training error into one with a hint and an exit code.
fn known(error: acestep_train::Error) -> anyhow::Error {
    use acestep_train::Error as Learning;
    match error {
        Learning::File(error) => error.into(),
        Learning::Checkpoint(error) => error.into(),
        Learning::State { .. } => {
            CliError::new(error.to_string()).hint("start again with --force").into()
        }
        Learning::Diverged { .. } => {
            CliError::new(error.to_string()).hint("use a smaller --learning-rate").into()
        }
        Learning::Dataset { .. } => CliError::new(error.to_string()).hint(SONGS).into(),
        Learning::Read { path, source } => {
            let hint = match source.kind() {
                ErrorKind::NotFound | ErrorKind::NotADirectory => SONGS,
                _ => "check its permissions, and the disk",
            };
            let message = format!("cannot read `{}`", path.display());
            CliError::new(message).because(source).hint(hint).into()
        }
        Learning::Write { path, source } => {
            let hint =
                "check its permissions and the free space, or name another folder with --output";
            let message = format!("cannot write `{}`", path.display());
            CliError::new(message).because(source).hint(hint).into()
        }
        other => other.into(),
    }
}

/// The losses of the first step of this run and of its last row, if it took any step.
type Losses = Option<[f32; 2]>;

struct Learn<'a> {
    args: &'a Lora,
    entries: &'a [Entry],
    folder: &'a AceStep,
    training: &'a TrainingRun,
    shape: &'a Shape,
    batch: usize,
    output: &'a Path,
    progress: &'a Progress,
}

impl acestep_engine::Job for Learn<'_> {
    type Output = Result<Option<Losses>, acestep_train::Error>;

    fn run<B: Backend>(self, place: Place<B>) -> Self::Output {
        let Self { args, entries, folder, training, shape, batch, output, progress } = self;
        let device = place.device.clone();
        let needed =
            [Network::VaeEncoder, Network::TextEncoder, Network::Conditioner, Network::Dit];
        folder.check::<B>(&device, &needed)?;
        let (songs, common) = lora::prepare(entries, args.max_duration, folder, &place, progress)?;

        let stage = acestep_train::LEARNING;
        progress.event(Event::Loading(stage));
        let start = Instant::now();
        let learning = Place { device: device.clone(), dtype: place.dtype };
        let mut dit = folder.dit_dir().dit::<Autodiff<B>>(&learning)?.no_grad();
        let addition = Addition::init(&mut dit, shape, args.seed, &device);
        let times = match folder.is_turbo() {
            true => Times::Turbo,
            false => Times::Any(times::Times::of(&folder.configs().dit)),
        };
        let device_of = device.clone();
        let examples =
            Examples { dit: &dit, songs: &songs, common: &common, times, batch, device: device_of };
        let total = training.optimizer_config.steps;
        let (first, last) = (Cell::new(None), Cell::new(None));
        progress.event(Event::Advanced { stage, done: 0, total });
        let learned = training.run::<Autodiff<B>, _, 1>(
            addition,
            ["error"],
            |step, addition| {
                let loss = examples.loss(addition, seed_of(args.seed, step));
                let error = loss.clone().into_data().convert::<f32>().iter::<f32>().next();
                // The weights are memory-mapped. If their file changes, a NaN ends the run unsaved.
                let error = error.filter(|_| folder.unchanged().is_ok());
                first.set(first.get().or(error));
                progress.event(Event::Advanced { stage, done: step + 1, total });
                StepLoss { loss, parts: [error.unwrap_or(f32::NAN)] }
            },
            &mut |row: &Row<1>| last.set(Some(row.parts[0])),
            &|| progress.cancelled(),
        );
        folder.unchanged().map_err(acestep_engine::Error::checkpoint)?;
        let Some(learned) = learned? else { return Ok(None) };
        lora::write(output, &learned, shape, folder.name())?;
        progress.event(Event::Finished { stage, elapsed: start.elapsed() });
        Ok(Some(first.get().zip(last.get()).map(|(first, last)| [first, last])))
    }
}
