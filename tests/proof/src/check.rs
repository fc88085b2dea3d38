//! `check`: all checks of a machine with a GPU, in one command.
//!
//! It has five parts: the reference's stored results; every kernel against the CPU; songs of many
//! lengths; networks in every weight type; every preset at full size, compared with the device's
//! ceilings and with PyTorch. A failure does not stop the rest. The results are written after every
//! part, as JSON and as a page.

mod goldens;
mod kernels;
mod page;
mod part;
mod speed;
mod torch;

use std::{cell::Cell, ffi::OsString, path::PathBuf, process::Command, time::Duration};

use acestep_engine::{BackendWork, Engine, Notice, device::dtype};
use acestep_model::{Backend, Place};
use anyhow::{Context, Result};

pub use self::part::CheckPart;
pub use crate::rows::Results;
use crate::{
    Error, Host,
    families::{Preset, songs, types},
    machine::{self, Machine},
    measure::ceilings::Ceilings,
    rows::{Item, Kernel, Line, Summary, Tell},
    verify::WorkerCommand,
};

/// Names of the files with the results.
pub const FILES: [&str; 2] = ["check.json", "check.md"];

/// The things to check.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Directory of goldens, or of several such directories; by default the built-in set.
    pub goldens: Option<PathBuf>,
    /// Directory with released models; by default the built-in tiny models.
    pub models: Option<PathBuf>,
    /// The parts, in any order; if empty, all parts.
    pub only: Vec<CheckPart>,
    /// The presets of [`CheckPart::Bench`]; if empty, all presets.
    pub presets: Vec<&'static Preset>,
    /// True for a few small shapes and short songs.
    pub quick: bool,
    /// Python with PyTorch.
    pub torch: Option<OsString>,
    /// Time limit of an item.
    pub limit: Option<Duration>,
    /// Folder for the results.
    pub out: PathBuf,
    /// Commit that the program was built from.
    pub commit: Option<String>,
}

/// The items that a child process computes: those of one group.
#[derive(Debug, Clone, Copy)]
pub struct Child {
    /// The part.
    pub part: CheckPart,
    /// Index of the first item.
    pub from: usize,
    /// Ceilings that are already measured.
    pub ceilings: Option<Ceilings>,
}

/// Returns the command of a process that calls [`work`].
pub type Children<'a> = dyn Fn(Child) -> Result<Command> + 'a;

/// Checks a device and writes the results; `notices` are shown at the beginning.
///
/// # Errors
/// If the device cannot be used, something cannot be read, or the results cannot be written.
pub fn run(
    options: &Options,
    engine: Engine,
    notices: &[Notice],
    child: &Children<'_>,
    host: &dyn Host,
) -> Result<Results> {
    let machine = machine::describe(engine.device);
    let name = machine.name.as_ref().map_or(String::new(), |name| format!(" ({name})"));
    host.line(&format!("checking {}{name} in {}", engine.device, dtype::name(engine.dtype)));
    notices.iter().for_each(|notice| host.note(&notice.0));
    Check { options, engine, child, host }.run(machine)
}

/// The parent process, which writes the report.
struct Check<'a> {
    options: &'a Options,
    engine: Engine,
    child: &'a Children<'a>,
    host: &'a dyn Host,
}

impl Check<'_> {
    fn run(self, machine: Machine) -> Result<Results> {
        let Self { options, engine, host, .. } = self;
        let is_wanted = |part: &CheckPart| options.only.is_empty() || options.only.contains(part);
        let wanted: Vec<CheckPart> = CheckPart::ALL.into_iter().filter(is_wanted).collect();
        self.refuse_what_cannot_be_read(&wanted)?;
        if options.torch.is_some() && !wanted.contains(&CheckPart::Bench) {
            host.note("`torch` is not used: PyTorch is measured beside `bench`, which is left out");
        }
        std::fs::create_dir_all(&options.out)
            .with_context(|| format!("cannot make the folder `{}`", options.out.display()))?;
        let mut results = Results {
            date: machine::now(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: options.commit.clone().filter(|commit| !commit.is_empty()),
            quick: options.quick,
            dtype: dtype::name(engine.dtype).to_owned(),
            machine,
            ..Results::default()
        };
        // Check the device first; otherwise every part would fail because of it.
        let found = self.part(CheckPart::Device, &mut results)?;
        if host.is_cancelled() {
            return Err(acestep_engine::Error::Cancelled.into());
        }
        if let Some(problem) = found.problems.into_iter().next() {
            let device = engine.device.to_string();
            return Err(Error::Unusable { device, problem }.into());
        }
        for part in wanted {
            let done = self.part(part, &mut results)?;
            results.parts.push(done);
            self.save(&results)?;
        }
        self.compare_with_torch(&mut results)?;
        self.save(&results)?;
        for part in &results.parts {
            let Summary { name, passed, failed, skipped, seconds, .. } = part;
            let counts = format!("{passed} passed, {failed} failed, {skipped} skipped");
            host.line(&format!("{name:<8} {counts}, {seconds:.0} s"));
            part.problems.iter().for_each(|problem| host.note(problem));
        }
        Ok(results)
    }

    /// Checks the paths first, so that a wrong path does not stop the command after an hour.
    fn refuse_what_cannot_be_read(&self, wanted: &[CheckPart]) -> Result<()> {
        let Options { goldens, models, .. } = self.options;
        if let Some(goldens) = goldens.as_deref().filter(|_| wanted.contains(&CheckPart::Verify)) {
            goldens::readable(goldens)?;
        }
        if wanted.contains(&CheckPart::Lengths) || wanted.contains(&CheckPart::Types) {
            songs::model(models.as_deref())?;
        }
        Ok(())
    }

    /// Runs a part in child processes.
    fn part(&self, part: CheckPart, results: &mut Results) -> Result<Summary> {
        let host = self.host;
        let items = items(part, self.options);
        let ceilings = Cell::new(None);
        // Burn has no large int8 matrix product to compare with.
        let dtype = dtype::name(dtype::of_others(self.engine.dtype));
        let command = |from| (self.child)(Child { part, from, ceilings: ceilings.get() });
        let take = |line: &Line| match line.clone() {
            Line::Backend(name) => results.machine.backend = Some(name),
            Line::Verified(row) => row.add_to(&mut results.verified),
            Line::Kernel(row) => {
                if !row.passes() {
                    host.line(&format!("         {}: {}", row.dtype, row.difference()));
                }
                results.kernels.push(row);
            }
            Line::Timed { operation, shape, dtype, is_reference, seconds } => {
                let whose = if is_reference { "plain operations" } else { "kernel" };
                host.line(&format!("         {dtype}, {whose}: {:.4} ms", seconds * 1e3));
                let name = [operation, shape, dtype];
                let of =
                    |row: &&mut Kernel| [&row.operation, &row.shape, &row.dtype] == name.each_ref();
                if let Some(row) = results.kernels.iter_mut().find(of) {
                    let time = if is_reference { &mut row.reference_s } else { &mut row.kernel_s };
                    *time = Some(seconds);
                }
            }
            Line::Length(row) => {
                let problems = row.problems().join(", ");
                host.line(&format!("         {}: {:.2} s {problems}", row.dtype, row.wall_s));
                results.lengths.push(row);
            }
            Line::Rounded(row) => results.rounded.push(row),
            Line::Ceiling(row) => {
                if row.dtype == dtype {
                    ceilings.set(Some(row.measured));
                }
                results.ceilings.push(row);
            }
            Line::Speed(row) => {
                let (ms, share) = (row.wall_s * 1e3, row.share_of_floor * 100.0);
                host.line(&format!("         {ms:.3} ms, {share:.0} % of the floor"));
                results.speeds.push(row);
            }
            // A run that is killed leaves only these lines.
            Line::Problem(text) | Line::Failed(text) => host.line(&format!("         {text}")),
            Line::Begin { .. } | Line::Skipped(_) => {}
        };
        part::run(part.name(), &items, self.options.limit, host, command, take)
    }

    fn compare_with_torch(&self, results: &mut Results) -> Result<()> {
        let Self { options, engine, host, .. } = *self;
        // It takes as long as all parts before it.
        let python = options.torch.as_ref().filter(|_| !host.is_cancelled());
        let Some(python) = python else { return Ok(()) };
        let of_bench = |part: &Summary| part.name == CheckPart::Bench.name();
        let Some(place) = results.parts.iter().position(of_bench) else { return Ok(()) };
        let tasks = speed::tasks(options.quick, &options.presets);
        let dtype = results.dtype.clone();
        let absent = torch::run(python, engine.device, &dtype, &tasks, host, results)?;
        if let Some(why) = absent {
            // A missing PyTorch is not a failure of this program.
            host.note(&format!("not compared with PyTorch: {why}"));
            results.parts[place].skipped += 1;
            results.parts[place].not_run.push(format!("PyTorch: {why}"));
        }
        Ok(())
    }

    fn save(&self, results: &Results) -> Result<()> {
        let json = format!("{}\n", serde_json::to_string_pretty(results)?);
        for (name, text) in FILES.into_iter().zip([json, page::markdown(results)]) {
            let path = self.options.out.join(name);
            self.host
                .write(&path, &text)
                .with_context(|| format!("cannot write `{}`", path.display()))?;
        }
        Ok(())
    }
}

/// Returns the items of a part.
fn items(part: CheckPart, options: &Options) -> Vec<Item> {
    match part {
        CheckPart::Device => vec![Item { name: "whether it is there".to_owned(), group: 0 }],
        CheckPart::Verify => goldens::items(options.goldens.as_deref()),
        CheckPart::Kernels => kernels::items(options.quick),
        CheckPart::Lengths => songs::items(options.quick),
        CheckPart::Types => types::items(),
        CheckPart::Bench => speed::items(&speed::tasks(options.quick, &options.presets)),
    }
}

/// Computes the items of `child` and writes their results to standard output, line by line.
///
/// # Errors
/// If standard output is closed or full.
pub fn work(
    options: &Options,
    child: Child,
    engine: Engine,
    worker: &WorkerCommand<'_>,
    host: &dyn Host,
) -> Result<()> {
    let Child { part, from, .. } = child;
    let Options { goldens, models, quick, .. } = options;
    let (goldens, models) = (goldens.as_deref(), models.as_deref());
    let items = items(part, options);
    let failure = Cell::new(None);
    let tell = |line: Line| {
        let written = serde_json::to_string(&line).map_err(anyhow::Error::from);
        let written = written.and_then(|text| Ok(host.output(&text).map_err(Error::Output)?));
        if let Err(error) = written {
            failure.set(Some(error));
        }
    };
    let group = items.get(from).map(|item| item.group);
    let own = items.iter().enumerate().skip(from).filter(|(_, item)| Some(item.group) == group);
    for (index, item) in own {
        if host.is_cancelled() {
            return Ok(());
        }
        tell(Line::Begin { index, name: item.name.clone() });
        let done = match part {
            CheckPart::Device | CheckPart::Kernels | CheckPart::Bench => {
                let step = Step { options, child, index, tell: &tell };
                engine.run(step).map_err(Into::into).flatten()
            }
            CheckPart::Verify => goldens::run(index, goldens, engine.device, worker, host, &tell),
            CheckPart::Lengths => songs::run(index, *quick, models, engine, host, &tell),
            CheckPart::Types => types::run(index, *quick, models, engine, host, &tell),
        };
        if let Err(error) = done {
            if host.is_cancelled() {
                return Ok(());
            }
            tell(Line::Problem(format!("{error:#}")));
        }
        if let Some(error) = failure.take() {
            return Err(error);
        }
    }
    Ok(())
}

/// One item of a part that depends on the backend.
struct Step<'a> {
    options: &'a Options,
    child: Child,
    index: usize,
    tell: &'a Tell<'a>,
}

impl BackendWork for Step<'_> {
    type Output = Result<()>;

    fn run<B: Backend>(self, place: Place<B>) -> Self::Output {
        let Self { options, child, index, tell } = self;
        match child.part {
            CheckPart::Kernels => kernels::run::<B>(index, options.quick, &place.device, tell),
            CheckPart::Bench => {
                let tasks = speed::tasks(options.quick, &options.presets);
                speed::run(index, &tasks, child.ceilings, &place, tell)
            }
            CheckPart::Device | CheckPart::Verify | CheckPart::Lengths | CheckPart::Types => {
                B::sync(&place.device).map_err(|error| anyhow::anyhow!("{error:?}"))?;
                tell(Line::Backend(B::name(&place.device)));
                Ok(())
            }
        }
    }
}
