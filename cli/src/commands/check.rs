//! `acestep check`: all checks of a machine with a GPU, in one command.

use std::{
    ffi::OsString,
    num::NonZero,
    path::PathBuf,
    process::{Command, ExitCode},
    time::Duration,
};

use acestep_engine::{
    Device, Engine, Notice,
    device::{BUILT_IN, dtype},
};
use acestep_proof::{
    Ceilings,
    check::{self, CheckPart, Child, FILES, Options},
    families::Preset,
    verify::Given,
};
use anyhow::Result;
use clap::{ValueHint, builder::TypedValueParser};

use super::{engine, proof, verify};
use crate::{
    args::{Global, device::Where, values::words},
    error::CliError,
    exit, interrupt, report, settings,
};

/// Flags of `check`.
///
/// If a flag is given twice, the last one counts, so that scripts can have defaults.
#[derive(Debug, Clone, clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct Args {
    /// Directory of goldens, or of several such directories.
    ///
    /// It is used as by `verify`, with its checkpoints beside it. Without the flag, the small
    /// built-in set is used.
    #[arg(long, value_name = "DIR")]
    goldens: Option<PathBuf>,

    /// Directory with released models.
    ///
    /// Its turbo model makes the songs of `lengths` and, with its language model, the comparison of
    /// `types`. Without the flag, the built-in tiny models are used.
    #[arg(long, value_name = "DIR")]
    models: Option<PathBuf>,

    /// Run only these parts.
    #[arg(long, value_parser = part(CheckPart::ALL), value_name = "PART", value_delimiter = ',')]
    only: Vec<CheckPart>,

    /// Run only these presets in `bench`.
    #[arg(long, value_parser = proof::preset(), value_name = "PRESET")]
    #[arg(value_delimiter = ',')]
    preset: Vec<&'static Preset>,

    /// Use a few small shapes and short songs.
    ///
    /// This tests that the check works, but does not measure the device.
    #[arg(long)]
    quick: bool,

    /// Python with PyTorch, to measure the same stages.
    #[arg(long, value_name = "PYTHON", value_hint = ValueHint::CommandName)]
    torch: Option<OsString>,

    /// Time limit of one item in seconds; a slower item fails and its process is killed [default:
    /// none].
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,

    /// Folder for check.json and check.md.
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,

    /// Commit that the program was built from, for the report.
    #[arg(long, value_name = "HASH", env = "ACESTEP_COMMIT", hide = true)]
    commit: Option<String>,

    /// Run one part and print its results line by line, for the parent process.
    #[arg(long, value_parser = part([CheckPart::Device].into_iter().chain(CheckPart::ALL)), hide = true)]
    part: Option<CheckPart>,

    /// First item of that part.
    #[arg(long, default_value = "0", hide = true)]
    from: usize,

    /// Ceilings that are already measured: operations and bytes per second.
    #[arg(long, value_delimiter = ',', hide = true)]
    ceilings: Vec<f64>,

    #[command(flatten)]
    place: Where,
}

/// Parses one of `parts`.
fn part(parts: impl IntoIterator<Item = CheckPart>) -> impl TypedValueParser<Value = CheckPart> {
    let row = |part: CheckPart| (part.name(), part.about(), part);
    proof::by_name(parts.into_iter().map(row).collect())
}

/// Runs the command: exit code 1 if anything fails.
pub(crate) fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let (device, mut notices) = Device::open(&args.place.device)?;
    if args.place.device == "auto" && device == Device::Cpu {
        return Err(no_card(&notices).into());
    }
    let (engine, more) = engine::open(&Where { device: device.to_string(), ..args.place.clone() })?;
    notices.extend(more);
    let options = Options {
        goldens: args.goldens,
        models: args.models,
        only: args.only,
        presets: args.preset,
        quick: args.quick,
        torch: args.torch,
        limit: args.limit.map(Duration::from_secs),
        out: args.out,
        commit: args.commit,
    };
    let host = global.report();
    let failed = if let Some(part) = args.part {
        let ceilings = match args.ceilings[..] {
            [flop_per_s, bytes_per_s] => Some(Ceilings { flop_per_s, bytes_per_s }),
            _ => None,
        };
        let worker = |given: Given<'_>| verify::worker(given, engine.device);
        let items = Child { part, from: args.from, ceilings };
        check::work(&options, items, engine, &worker, &host)?;
        false
    } else {
        let children = |items: Child| child(&options, items, engine, args.place.threads);
        let results = check::run(&options, engine, &notices, &children, &host)?;
        for name in FILES {
            report::path(&options.out.join(name))?;
        }
        results.failed()
    };
    Ok(ExitCode::from(match (interrupt::was_pressed(), failed) {
        (true, _) => exit::INTERRUPTED,
        (false, true) => exit::FAILED,
        (false, false) => exit::OK,
    }))
}

/// Refuses a check of the CPU by default: it takes hours, and its report looks like one of a GPU.
fn no_card(notices: &[Notice]) -> CliError {
    let reasons: Vec<&str> = notices.iter().map(|notice| notice.0.as_str()).collect();
    let why = match &reasons[..] {
        [] if BUILT_IN == ["cpu"] => "this build has only cpu".to_owned(),
        [] => "none was found".to_owned(),
        reasons => reasons.join("; "),
    };
    CliError::new(format!("there is no GPU to check: {why}"))
        .hint("pass `--device cpu` to try the check itself")
}

/// Returns the command of a process that computes some items.
fn child(
    options: &Options,
    items: Child,
    engine: Engine,
    threads: Option<NonZero<usize>>,
) -> Result<Command> {
    let (Child { part, from, ceilings }, Engine { device, dtype }) = (items, engine);
    let mut command = settings::child()?;
    command.args(["check", "--part", part.name(), "--from", &from.to_string()]);
    command.args(["--device", &device.to_string(), "--dtype", dtype::name(dtype)]);
    command.args(words("--threads", threads.map(|count| count.to_string())));
    command.args(words("--goldens", options.goldens.as_ref()));
    command.args(words("--models", options.models.as_ref()));
    if options.quick {
        command.arg("--quick");
    }
    for preset in &options.presets {
        command.args(["--preset", preset.name]);
    }
    if let Some(Ceilings { flop_per_s, bytes_per_s }) = ceilings {
        command.arg(format!("--ceilings={flop_per_s:e},{bytes_per_s:e}"));
    }
    Ok(command)
}

#[cfg(test)]
mod tests {
    use burn::tensor::DType;

    use super::*;

    #[test]
    fn a_process_computes_with_the_typed_threads() {
        let options = Options { quick: true, ..Options::default() };
        let engine = Engine { device: Device::Cpu, dtype: DType::F32 };
        let words = |threads| {
            let items = Child { part: CheckPart::Device, from: 2, ceilings: None };
            let command = child(&options, items, engine, threads).expect("a command");
            let words = command.get_args().map(|word| word.to_string_lossy().into_owned());
            words.collect::<Vec<_>>().join(" ")
        };
        assert!(words(NonZero::new(3)).contains("--from 2 --device cpu --dtype f32 --threads 3"));
        assert!(!words(None).contains("--threads"));
    }
}
