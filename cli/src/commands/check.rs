//! `acestep check`: all checks of a machine with a GPU, in one command.
//!
//! It has five parts: the reference's stored results; every kernel against the CPU; songs of many
//! lengths; networks in every weight type; every preset at full size, compared with the device's
//! ceilings and with PyTorch. A failure does not stop the rest. The results are written after every
//! part, as JSON and as a page.

mod goldens;
mod kernels;
mod lengths;
pub(super) mod machine;
pub(super) mod page;
mod part;
pub(super) mod results;
mod speed;
mod torch;
mod types;

use std::{
    cell::Cell,
    ffi::OsString,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    time::Duration,
};

use acestep_engine::{
    Device, Engine, Error, Job, Notice,
    device::{BUILT_IN, dtype},
};
use acestep_model::{Backend, Place};
use anyhow::{Context, Result};
use burn::tensor::DType;
use clap::ValueHint;
use part::{Item, Part};
use results::{Line, Results};
use speed::Task;

use super::bench::{ceilings::Ceilings, presets::Preset, typed};
use crate::{
    args::{Global, device::Where},
    commands::engine,
    error::CliError,
    exit, interrupt,
    report::{self, Report},
    settings,
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
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    goldens: Option<PathBuf>,

    /// Directory with released models.
    ///
    /// Its turbo model makes the songs of `lengths` and, with its language model, the comparison of
    /// `types`. Without the flag, the built-in tiny models are used.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    models: Option<PathBuf>,

    /// Run only these parts.
    #[arg(long, value_parser = part::asked_for(), value_name = "PART", value_delimiter = ',')]
    only: Vec<Part>,

    /// Run only these presets in `bench`.
    #[arg(long, value_enum, value_name = "PRESET", value_delimiter = ',')]
    preset: Vec<Preset>,

    /// Use a few small shapes and short songs.
    ///
    /// This tests that the check works, but does not measure the device.
    #[arg(long)]
    quick: bool,

    /// Python with PyTorch, to measure the same stages.
    #[arg(long, value_name = "PYTHON", value_hint = ValueHint::CommandName)]
    torch: Option<OsString>,

    /// Time limit of one item in seconds; a slower item fails and its process is killed.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,

    /// Folder for check.json and check.md.
    #[arg(long, value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    out: PathBuf,

    /// Commit that the program was built from, for the report.
    #[arg(long, value_name = "HASH", env = "ACESTEP_COMMIT", hide = true)]
    commit: Option<String>,

    /// Run one part and print its results line by line, for the parent process.
    #[arg(long, value_enum, hide = true)]
    part: Option<Part>,

    /// First item of that part.
    #[arg(long, default_value = "0", hide = true)]
    from: usize,

    /// Ceilings that are already measured: operations and bytes per second.
    #[arg(long, value_delimiter = ',', hide = true)]
    ceilings: Vec<f64>,

    #[command(flatten)]
    place: Where,
}

/// Runs the command: exit code 1 if anything fails.
pub(crate) fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let (device, mut notices) = Device::open(&args.place.device)?;
    if args.place.device == "auto" && device == Device::Cpu {
        return Err(no_card(&notices).into());
    }
    let (engine, more) = engine::open(&Where { device: device.to_string(), ..args.place.clone() })?;
    notices.extend(more);
    match args.part {
        Some(part) => work(&args, part, engine),
        None => Check { args, engine, notices, report: global.report() }.run(),
    }
}

/// Refuses a check of the CPU by default: it takes hours, and its report looks like one of a GPU.
fn no_card(notices: &[Notice]) -> CliError {
    let reasons: Vec<&str> = notices.iter().map(|notice| notice.0.as_str()).collect();
    let why = match &reasons[..] {
        [] if BUILT_IN == ["cpu"] => "this build has only cpu".to_owned(),
        [] => "none was found".to_owned(),
        reasons => reasons.join("; "),
    };
    CliError::new(format!("there is no card to check: {why}"))
        .hint("pass --device cpu to try the check itself")
}

/// The parent process, which writes the report.
struct Check {
    args: Args,
    engine: Engine,
    notices: Vec<Notice>,
    report: Report,
}

impl Check {
    fn run(self) -> Result<ExitCode> {
        let Self { args, engine, notices, report } = &self;
        let wanted: Vec<Part> = Part::ALL
            .into_iter()
            .filter(|part| args.only.is_empty() || args.only.contains(part))
            .collect();
        let machine = machine::describe(engine.device);
        let name = machine.name.as_ref().map_or(String::new(), |name| format!(" ({name})"));
        report.line(&format!("checking {}{name} in {}", engine.device, dtype::name(engine.dtype)));
        notices.iter().for_each(|notice| report.note(&notice.0));
        self.refuse_what_cannot_be_read(&wanted)?;
        if args.torch.is_some() && !wanted.contains(&Part::Bench) {
            report
                .note("--torch is not used: PyTorch is measured beside `bench`, which is left out");
        }
        std::fs::create_dir_all(&args.out)
            .with_context(|| format!("cannot make the folder `{}`", args.out.display()))?;
        let mut results = Results {
            date: machine::now(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: args.commit.clone().filter(|commit| !commit.is_empty()),
            quick: args.quick,
            dtype: dtype::name(engine.dtype).to_owned(),
            machine,
            ..Results::default()
        };
        // Check the device first; otherwise every part would fail because of it.
        let found = self.part(Part::Device, &mut results)?;
        if interrupt::was_pressed() {
            return Err(Error::Cancelled.into());
        }
        if let Some(problem) = found.problems.into_iter().next() {
            let refusal = CliError::new(format!("{} cannot be used: {problem}", engine.device));
            return Err(refusal.hint("pass --device cpu to try the check itself").into());
        }
        for part in wanted {
            let done = self.part(part, &mut results)?;
            results.parts.push(done);
            self.save(&results)?;
        }
        self.compare_with_torch(&mut results)?;
        self.save(&results)?;
        for part in &results.parts {
            let results::Part { name, passed, failed, skipped, seconds, .. } = part;
            let counts = format!("{passed} passed, {failed} failed, {skipped} skipped");
            report.line(&format!("{name:<8} {counts}, {seconds:.0} s"));
            part.problems.iter().for_each(|problem| report.note(problem));
        }
        report::path(&self.file("check.json"))?;
        report::path(&self.file("check.md"))?;
        Ok(match (interrupt::was_pressed(), results.failed()) {
            (true, _) => ExitCode::from(exit::INTERRUPTED),
            (false, true) => ExitCode::from(exit::FAILED),
            (false, false) => ExitCode::SUCCESS,
        })
    }

    /// Checks the paths first, so that a wrong path does not stop the command after an hour.
    fn refuse_what_cannot_be_read(&self, wanted: &[Part]) -> Result<()> {
        if let Some(goldens) =
            self.args.goldens.as_deref().filter(|_| wanted.contains(&Part::Verify))
        {
            goldens::readable(goldens)?;
        }
        if wanted.contains(&Part::Lengths) || wanted.contains(&Part::Types) {
            lengths::model(self.args.models.as_deref())?;
        }
        Ok(())
    }

    /// Runs a part in child processes.
    fn part(&self, part: Part, results: &mut Results) -> Result<results::Part> {
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let items = items(part, &self.args);
        let ceilings = Cell::new(None);
        // Burn has no large int8 matrix product to compare with.
        let dtype = dtype::name(dtype::of_others(self.engine.dtype));
        let command = |from: usize| self.command(&program, part, from, ceilings.get());
        let take = |line: &Line| match line.clone() {
            Line::Backend(name) => results.machine.backend = Some(name),
            Line::Verified(row) => results.verified.push(row),
            Line::Kernel(row) => results.kernels.push(row),
            Line::Length(row) => results.lengths.push(row),
            Line::Rounded(row) => results.rounded.push(row),
            Line::Ceiling(row) => {
                if row.dtype == dtype {
                    ceilings.set(Some(row.measured));
                }
                results.ceilings.push(row);
            }
            Line::Speed(row) => results.speeds.push(row),
            Line::Begin { .. } | Line::Problem(_) | Line::Failed(_) | Line::Skipped(_) => {}
        };
        let limit = self.args.limit.map(Duration::from_secs);
        Ok(part::run(&typed(part), &items, limit, &self.report, command, take))
    }

    fn command(
        &self,
        program: &Path,
        part: Part,
        from: usize,
        ceilings: Option<Ceilings>,
    ) -> Command {
        let args = &self.args;
        let mut command = Command::new(program);
        settings::alone(&mut command);
        command.args(["check", "--part", &typed(part), "--from", &from.to_string()]);
        let Engine { device, dtype } = self.engine;
        command.args(["--device", &device.to_string(), "--dtype", dtype::name(dtype)]);
        for (flag, folder) in [("--goldens", &args.goldens), ("--models", &args.models)] {
            if let Some(folder) = folder {
                command.arg(flag).arg(folder);
            }
        }
        if args.quick {
            command.arg("--quick");
        }
        for preset in &args.preset {
            command.args(["--preset", &typed(*preset)]);
        }
        if let Some(Ceilings { flop_per_s, bytes_per_s }) = ceilings {
            command.arg(format!("--ceilings={flop_per_s:e},{bytes_per_s:e}"));
        }
        command
    }

    fn compare_with_torch(&self, results: &mut Results) -> Result<()> {
        // It takes as long as all parts before it.
        let python = self.args.torch.as_ref().filter(|_| !interrupt::was_pressed());
        let Some(python) = python else { return Ok(()) };
        let Some(place) = results.parts.iter().position(|part| part.name == typed(Part::Bench))
        else {
            return Ok(());
        };
        let tasks = speed::tasks(self.args.quick, &self.args.preset);
        let dtype = results.dtype.clone();
        let absent = torch::run(python, self.engine.device, &dtype, &tasks, &self.report, results)?;
        if let Some(why) = absent {
            // A missing PyTorch is not a failure of this program.
            self.report.note(&format!("not compared with PyTorch: {why}"));
            results.parts[place].skipped += 1;
            results.parts[place].not_run.push(format!("PyTorch: {why}"));
        }
        Ok(())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.args.out.join(name)
    }

    fn save(&self, results: &Results) -> Result<()> {
        let json = format!("{}\n", serde_json::to_string_pretty(results)?);
        for (name, text) in [("check.json", json), ("check.md", page::markdown(results))] {
            let path = self.file(name);
            interrupt::whole(|| std::fs::write(&path, text))
                .with_context(|| format!("cannot write `{}`", path.display()))?;
        }
        Ok(())
    }
}

/// Returns the engine in f32, which has the tightest tolerances, and in the requested type.
fn engines(engine: Engine) -> impl Iterator<Item = Engine> {
    let exact = Engine { dtype: DType::F32, ..engine };
    std::iter::once(exact).chain((engine != exact).then_some(engine))
}

/// Returns the items of a part.
fn items(part: Part, args: &Args) -> Vec<Item> {
    let one = |name: &str| Item { name: name.to_owned(), group: 0 };
    match part {
        Part::Device => vec![one("whether it is there")],
        Part::Verify => goldens::items(args.goldens.as_deref()),
        Part::Kernels => kernels::items(args.quick),
        Part::Lengths => lengths::items(args.quick),
        Part::Types => types::items(),
        Part::Bench => speed::items(&speed::tasks(args.quick, &args.preset)),
    }
}

/// Runs in the child process: the items of one group, from `args.from` on.
fn work(args: &Args, part: Part, engine: Engine) -> Result<ExitCode> {
    let items = items(part, args);
    let failure = Cell::new(None);
    let tell = |line: Line| {
        let written = serde_json::to_string(&line).map_err(anyhow::Error::from);
        let written = written.and_then(|text| Ok(report::bytes(format!("{text}\n").as_bytes())?));
        if let Err(error) = written {
            failure.set(Some(error));
        }
    };
    let group = items.get(args.from).map(|item| item.group);
    let own =
        items.iter().enumerate().skip(args.from).filter(|(_, item)| Some(item.group) == group);
    for (index, item) in own {
        if interrupt::was_pressed() {
            return Ok(ExitCode::from(exit::INTERRUPTED));
        }
        tell(Line::Begin { index, name: item.name.clone() });
        let done = match part {
            Part::Device | Part::Kernels | Part::Bench => {
                engine.run(Step { args, part, index, tell: &tell }).map_err(Into::into).flatten()
            }
            Part::Verify => goldens::run(index, args.goldens.as_deref(), engine.device, &tell),
            Part::Lengths => lengths::run(index, args.quick, args.models.as_deref(), engine, &tell),
            Part::Types => types::run(index, args.quick, args.models.as_deref(), engine, &tell),
        };
        if let Err(error) = done {
            if interrupt::was_pressed() {
                return Ok(ExitCode::from(exit::INTERRUPTED));
            }
            tell(Line::Problem(format!("{error:#}")));
        }
        if let Some(error) = failure.take() {
            return Err(error);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// One item of a part that depends on the backend.
struct Step<'a> {
    args: &'a Args,
    part: Part,
    index: usize,
    tell: &'a part::Tell<'a>,
}

impl Job for Step<'_> {
    type Output = Result<()>;

    fn run<B: Backend>(self, place: Place<B>) -> Self::Output {
        let Self { args, part, index, tell } = self;
        match part {
            Part::Kernels => kernels::run::<B>(index, args.quick, &place.device, tell),
            Part::Bench => {
                let tasks: Vec<Task> = speed::tasks(args.quick, &args.preset);
                let ceilings = match args.ceilings[..] {
                    [flop_per_s, bytes_per_s] => Some(Ceilings { flop_per_s, bytes_per_s }),
                    _ => None,
                };
                speed::run(index, &tasks, ceilings, &place, tell)
            }
            Part::Device | Part::Verify | Part::Lengths | Part::Types => {
                B::sync(&place.device).map_err(|error| anyhow::anyhow!("{error:?}"))?;
                tell(Line::Backend(B::name(&place.device)));
                Ok(())
            }
        }
    }
}
