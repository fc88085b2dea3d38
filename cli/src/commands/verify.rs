//! `acestep verify`: compares stored results of the reference with results of this machine.
//!
//! Every stored output is one case. A case runs through the code that `generate` uses, or it is
//! reported as skipped with the reason; it never passes without being computed. A case that panics
//! has failed, and the others go on. Each case is printed as soon as it is finished.

mod built_in;
mod case;
mod checkpoints;
mod child;
mod e2e;
mod files;
mod golden;
mod language;
mod ledger;
mod logic;
mod networks;
mod noise;
mod page;
mod plans;
mod rules;
mod sampling;
mod sheet;
mod tolerance;
mod vocabularies;
mod word;

use std::{
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use acestep_engine::Device;
use anyhow::{Context, Result};
use burn::tensor::DType;
use serde_json::json;

use crate::{
    args::{Global, device::OnDevice},
    commands::engine,
    error::{self, CliError},
    exit, interrupt, report, settings,
};
pub(super) use case::Case;
use checkpoints::Networks;
use files::Verify;
use golden::Set;
use ledger::{Gone, Tell};
use vocabularies::Real;
use word::{Done, Word};

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
    let (engine, notices) = engine::open(&args.place.in_f32())?;
    let given = Given {
        goldens: args.goldens.as_deref(),
        models: args.models.as_deref(),
        tokenizer: args.tokenizer.as_deref(),
    };
    if args.worker {
        return work(given, engine.device);
    }
    notices.iter().for_each(|notice| global.report().note(&notice.0));
    let quiet = global.report().is_quiet();
    let tell = |word: &Word| match word {
        Word::Case(case) if !args.json && (!quiet || case.pass == Some(false)) => {
            report::bytes(format!("{}\n", case.line()).as_bytes())
        }
        _ => Ok(()),
    };
    let cases = compare(given, engine.device, &tell)?;
    let count = |pass: Option<bool>| cases.iter().filter(|case| case.pass == pass).count();
    let (passed, failed, skipped) = (count(Some(true)), count(Some(false)), count(None));
    let device = engine.to_string();
    if args.json {
        let object = serde_json::to_string_pretty(&json!({
            "device": device,
            "passed": passed,
            "failed": failed,
            "skipped": skipped,
            "cases": cases,
        }))?;
        report::bytes(format!("{object}\n").as_bytes())?;
    } else {
        let counts = format!("{passed} passed, {failed} failed, {skipped} skipped");
        report::bytes(format!("{device}: {counts}\n").as_bytes())?;
    }
    if passed + failed == 0 {
        let refusal = CliError::new("nothing could be compared, so nothing is proved");
        return Err(refusal.hint("pass --models DIR, the checkpoints of these goldens").into());
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(exit::FAILED) })
}

/// The files to compare with; by default the built-in set.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Given<'a> {
    /// The directory of the goldens.
    pub(super) goldens: Option<&'a Path>,
    /// The directory of their checkpoints.
    pub(super) models: Option<&'a Path>,
    /// The directory of the released tokenizers.
    pub(super) tokenizer: Option<&'a Path>,
}

/// The sets of goldens in a directory: its subfolders that are sets, or the directory itself.
pub(super) fn sets(goldens: &Path) -> Vec<PathBuf> {
    let listing = std::fs::read_dir(goldens).into_iter().flatten();
    let mut sets: Vec<_> = listing.filter_map(|entry| Some(entry.ok()?.path())).collect();
    sets.retain(|path| golden::is_set(path));
    sets.sort();
    if sets.is_empty() || golden::is_set(goldens) { vec![goldens.to_owned()] } else { sets }
}

/// Checks that a set of goldens can be read.
///
/// # Errors
/// If it cannot be read.
pub(super) fn readable(goldens: &Path) -> Result<()> {
    Set::read(goldens).map(drop)
}

/// Computes every case of the goldens that needs no real vocabulary.
///
/// # Errors
/// If they or the checkpoints cannot be read, or the device is absent.
pub(super) fn cases(given: Given<'_>, device: Device) -> Result<Vec<Case>> {
    compare(given, device, &|_| Ok(()))
}

/// Computes every case. On a GPU it uses child processes, because a failure may end a process.
fn compare(given: Given<'_>, device: Device, tell: &Tell<'_>) -> Result<Vec<Case>> {
    let read = Read::new(given)?;
    if !device.is_card() {
        return read.compare(device, &Done::default(), tell);
    }
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let command = || {
        let mut command = Command::new(&program);
        settings::alone(&mut command);
        command.args(["verify", "--worker", "--device", &device.to_string()]);
        let Given { goldens, models, tokenizer } = given;
        for (flag, folder) in
            [("--goldens", goldens), ("--models", models), ("--tokenizer", tokenizer)]
        {
            if let Some(folder) = folder {
                command.arg(flag).arg(folder);
            }
        }
        command
    };
    child::run(command, tell)
}

/// The child process: computes, and reports each finished case on stdout.
fn work(given: Given<'_>, device: Device) -> Result<ExitCode> {
    let known: Done = serde_json::from_reader(std::io::stdin().lock())
        .context("standard input has no list of finished cases")?;
    let tell = |word: &Word| {
        // A word holds names, numbers and texts, so conversion to JSON cannot fail.
        let line = serde_json::to_string(word).unwrap_or_default();
        report::bytes(format!("{line}\n").as_bytes())
    };
    let done = Read::new(given).and_then(|read| read.compare(device, &known, &tell));
    let Err(error) = done else {
        tell(&Word::End)?;
        return Ok(ExitCode::SUCCESS);
    };
    if interrupt::was_pressed() {
        return Ok(ExitCode::from(exit::INTERRUPTED));
    }
    // If the device is unusable, another process computes the rest.
    if !error.chain().any(|cause| cause.is::<Gone>()) {
        let hint = error::hint(&error);
        tell(&Word::Error { message: format!("{error:#}"), hint })?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The goldens and the checkpoints to compute them with.
struct Read {
    set: Set,
    networks: Networks,
    real: Option<Real>,
}

impl Read {
    fn new(given: Given<'_>) -> Result<Self> {
        let real = given.tokenizer.map(Real::open).transpose()?;
        let (set, networks) = match given.goldens {
            Some(goldens) => {
                let networks = match models_dir(goldens, given.models)? {
                    Some(models) => Networks::find(&models)?,
                    // Some sets need no checkpoints; other cases report what is missing.
                    None => Networks::default(),
                };
                (Set::read(goldens)?, networks)
            }
            None => (built_in::set()?, Networks::built_in()?),
        };
        Ok(Self { set, networks, real })
    }

    fn compare(&self, device: Device, known: &Done, tell: &Tell<'_>) -> Result<Vec<Case>> {
        let Self { set, networks, real } = self;
        let verify = Verify { set, networks, real: real.as_ref(), tell, known };
        // The stored values are f32, except for some cases, which set the type themselves.
        device.run(DType::F32, verify)?
    }
}

/// The checkpoints' directory: the one of `--models`, or the one beside the goldens.
fn models_dir(goldens: &Path, typed: Option<&Path>) -> Result<Option<PathBuf>> {
    if let Some(models) = typed {
        return Ok(Some(models.to_owned()));
    }
    let name = goldens.canonicalize().map_err(|error| {
        CliError::new(format!("there are no goldens in `{}`", goldens.display()))
            .because(error)
            .hint("--goldens names a directory such as tests/goldens/a of the source")
    })?;
    let name = name.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let beside = goldens.join("..").join(format!("checkpoints_{name}"));
    Ok(beside.is_dir().then_some(beside))
}
