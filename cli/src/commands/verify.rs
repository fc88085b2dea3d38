//! `acestep verify`: compares stored results of the reference with results of this machine.

use std::{
    path::PathBuf,
    process::{Command, ExitCode},
};

use acestep_engine::Device;
use acestep_import::Qwen3Tts;
use acestep_proof::{
    families,
    verify::{self, Case, Given, Report},
};
use anyhow::Result;

use super::engine;
use crate::{
    args::{
        Global,
        device::{OnDevice, Where},
        values::words,
    },
    error::CliError,
    exit,
    fields::as_flags,
    interrupt, report, settings,
};

/// The flags of `verify`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// A directory of goldens: tensors and text of the reference. Without it a small built-in set
    /// is used.
    #[arg(long, value_name = "DIR")]
    goldens: Option<PathBuf>,

    /// The directory with the checkpoints that the goldens were made with, as directories or GGUF
    /// files; by default `checkpoints_NAME` beside the goldens `NAME`.
    #[arg(long, value_name = "DIR", requires = "goldens")]
    models: Option<PathBuf>,

    /// A directory with the released tokenizers, for the goldens that were made with the real
    /// vocabulary: the folder of a language model (acestep-5Hz-lm-*) or of Qwen3-Embedding-0.6B, or
    /// the folder that holds both. Their weights are not needed.
    #[arg(long, value_name = "DIR")]
    tokenizer: Option<PathBuf>,

    /// Compare a speech model in a narrower type with itself in f32 instead: a name of `acestep model
    /// list`, a directory, or tiny-speech.
    ///
    /// Both read the same frames. It prints how often they choose the same code, for each codebook,
    /// and how far logits and sound are apart.
    #[arg(long, value_name = "NAME|DIR", conflicts_with_all = ["goldens", "models", "tokenizer"])]
    model: Option<String>,

    /// The narrower type: bf16, f16 or q8 [default: bf16].
    #[arg(long, value_name = "TYPE", requires = "model")]
    dtype: Option<String>,

    /// Frames of 80 ms that are compared, 1 to 1000.
    #[arg(long, value_name = "NUMBER", default_value = "50", requires = "model")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    frames: u32,

    #[command(flatten)]
    place: OnDevice,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,

    /// Compute the cases that are missing in the list on standard input, for the parent process.
    #[arg(long, hide = true)]
    worker: bool,
}

/// Runs the command: exit code 1 if a case fails.
pub(crate) fn run(args: Args, global: &Global) -> Result<ExitCode> {
    if let Some(model) = &args.model {
        return agreement(model, &args, global.report());
    }
    let (engine, notices) = engine::open(&args.place.in_f32())?;
    let given = Given {
        goldens: args.goldens.as_deref(),
        models: args.models.as_deref(),
        tokenizer: args.tokenizer.as_deref(),
    };
    let host = global.report();
    if args.worker {
        verify::work(given, engine.device, &host, std::io::stdin().lock())?;
        return Ok(match interrupt::was_pressed() {
            true => ExitCode::from(exit::INTERRUPTED),
            false => ExitCode::SUCCESS,
        });
    }
    host.notes(&notices);
    let tell = |case: &Case| match args.json || host.is_quiet() && case.pass != Some(false) {
        true => Ok(()),
        false => acestep_proof::Host::output(&host, &as_flags(&case.line())),
    };
    let worker = |given: Given<'_>| worker(given, engine.device);
    let mut cases = verify::run(given, engine.device, &worker, &host, &tell)?;
    for why in cases.iter_mut().filter_map(|case| case.skipped.as_mut()) {
        *why = as_flags(why);
    }
    let found = Report::new(engine.to_string(), cases);
    report::result(args.json, &found, found.line() + "\n")?;
    if found.passed + found.failed == 0 {
        let error = CliError::new("nothing could be compared, so nothing is proved");
        return Err(error.hint("pass --models DIR, the checkpoints of these goldens").into());
    }
    Ok(ExitCode::from(if found.failed == 0 { exit::OK } else { exit::FAILED }))
}

/// Compares a speech model in a narrower type with itself in f32.
fn agreement(model: &str, args: &Args, host: report::Report) -> Result<ExitCode> {
    let dtype = args.dtype.clone().unwrap_or_else(|| "bf16".to_owned());
    let (engine, notices) = engine::open(&Where { dtype, ..args.place.clone().in_f32() })?;
    host.notes(&notices);
    let model = Qwen3Tts::find(Some(model), &settings::layout())?;
    let found = families::agreement(&model, engine, args.frames as usize, &host)?;
    report::result(args.json, &found, found.text())?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the command of a process that computes cases on a GPU.
pub(super) fn worker(given: Given<'_>, device: Device) -> Result<Command> {
    let mut command = settings::child()?;
    command.args(["verify", "--worker", "--device", &device.to_string()]);
    let Given { goldens, models, tokenizer } = given;
    command.args(words("--goldens", goldens));
    command.args(words("--models", models));
    command.args(words("--tokenizer", tokenizer));
    Ok(command)
}
