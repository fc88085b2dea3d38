//! `acestep train`: trains an adapter on a folder of songs.

use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    time::Instant,
};

use acestep_engine::{Error, error::counted, on_engine};
use acestep_import::{AceStep, Network};
use acestep_train::{
    lora::{self, DatasetSong, Losses, Shape, TrainingSettings},
    run::TrainingRun,
};
use anyhow::Result;
use burn::tensor::DType;
use serde_json::json;

use super::engine::{self, Started};
use crate::{
    args::train::Lora,
    error::CliError,
    fields,
    progress::{self, Progress},
    report::{self, Report},
    settings as environment,
};

/// The file that marks a folder as an adapter.
const ADAPTER: &str = "adapter_config.json";

/// Trains an adapter.
pub(crate) fn lora(args: &Lora, report: &Report) -> Result<()> {
    let settings = &settings_of(args);
    settings.check()?;
    let output = output(args)?;
    let (entries, mut said) =
        lora::read(&args.songs, args.custom_tag.as_deref(), args.caption.as_deref())
            .map_err(known)?;
    let layout = environment::layout();
    let model = args.model.clone().unwrap_or_else(environment::model);
    let folder = &acestep_import::open(&model, &layout)?;
    folder.require(Network::Dit)?;
    let Started { engine, notices, .. } = engine::start(&args.place)?;
    if let Err(message) = lora::check_dtype(engine.dtype) {
        return Err(CliError::usage(message).hint("choose --dtype bf16 or f32").into());
    }
    said.extend(notices);
    report.notes(&said);

    let facts = facts(args, folder.name(), engine.dtype);
    let training = settings.training(&output, &entries, facts).map_err(known)?;
    let _lock = training.lock().map_err(known)?;
    if args.force {
        remove(&training.folder.join("state.bin"))?;
    }
    let start = Instant::now();
    let shown = Progress::new(*report);
    let (training, entries, output, progress) = (&training, &entries[..], &*output, &shown);
    let learned = on_engine!(engine,
    for<'a>(settings: &'a TrainingSettings, training: &'a TrainingRun, entries: &'a [DatasetSong],
            folder: &'a AceStep, output: &'a Path, progress: &'a Progress)
        -> Result<Option<Losses>, acestep_train::Error>,
    |place: B| {
        lora::learn::<B>(settings, training, entries, folder, output, &place, progress)
    })?
    .map_err(known)?;
    said.extend(shown.finish().notices);
    let Some(losses) = learned else {
        report.note("the state is kept: the same command without --force continues from it");
        return Err(Error::Cancelled.into());
    };
    let (name, steps) = (output.display().to_string(), training.optimizer_config.steps);
    if args.json {
        let object = json!({
            "path": name,
            "songs": entries.len(),
            "steps": steps,
            "rank": settings.shape.rank,
            "alpha": settings.shape.alpha,
            "dropout": settings.shape.dropout,
            "target_modules": settings.shape.targets,
            "notices": fields::texts(&said),
            "loss": losses.map(|[first, last]| json!({ "first": first, "last": last })),
            "elapsed": start.elapsed().as_secs_f64(),
        });
        report.object(&object)?;
    } else {
        report::path(output)?;
    }
    let fell =
        losses.map_or_else(String::new, |[first, last]| format!(", loss {first:.3} to {last:.3},"));
    report.line(&format!(
        "{} on {}{fell} in {} · {name}",
        counted(steps, "step"),
        counted(entries.len(), "song"),
        progress::seconds(start.elapsed()),
    ));
    Ok(())
}

fn settings_of(args: &Lora) -> TrainingSettings {
    let rank = usize::from(args.rank);
    let alpha = args.alpha.unwrap_or(2.0 * rank as f64);
    TrainingSettings {
        shape: Shape { rank, alpha, dropout: args.dropout, targets: args.target_modules.clone() },
        seed: args.seed,
        epochs: args.epochs as usize,
        batch: usize::from(args.batch_size),
        rate: args.learning_rate,
        warm_up: args.warmup_steps as usize,
        longest: args.max_duration,
    }
}

/// The folder of the new adapter. It must not hold an adapter yet, except with `--force`, or if a run with
/// `--force` was stopped.
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
            let own = if songs.is_file() { songs.file_stem() } else { songs.file_name() };
            let mut name = own.ok_or_else(nameless)?.to_owned();
            name.push("-lora");
            songs.with_file_name(name)
        }
    };
    let may_replace = args.force || TrainingRun::is_stopped(&output.join("training"));
    if output.join(ADAPTER).exists() && !may_replace {
        let message = format!("`{}` holds an adapter already", output.display());
        let hint = "name another folder with --output, or replace it with --force";
        return Err(CliError::new(message).hint(hint).into());
    }
    Ok(output)
}

/// The flags that identify a training run, beside its songs.
fn facts(args: &Lora, model: &str, dtype: DType) -> Vec<String> {
    let Lora { rank, alpha, dropout, target_modules, batch_size, max_duration, .. } = args;
    vec![
        format!("--model: {model}"),
        format!("--dtype: {dtype:?}"),
        format!("--rank: {rank}"),
        format!("--alpha: {alpha:?}"),
        format!("--dropout: {dropout}"),
        format!("--target-modules: {target_modules:?}"),
        format!("--batch-size: {batch_size}"),
        format!("--max-duration: {max_duration}"),
    ]
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

/// Unwraps the errors of other crates, which have hints and exit codes of their own.
fn known(error: acestep_train::Error) -> anyhow::Error {
    match error {
        acestep_train::Error::File(error) => error.into(),
        acestep_train::Error::Checkpoint(error) => error.into(),
        other => other.into(),
    }
}
