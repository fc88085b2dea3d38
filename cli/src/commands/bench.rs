//! `acestep bench`: measures the speed of each stage alone, at full size, with random weights.
//!
//! Speeds are shown beside ceilings from the same run, so that numbers of a busy machine are not
//! mistaken for those of the program.
//!
//! | module | contents |
//! |---|---|
//! | [`stages`], [`language`], [`sound`], [`load`] | one run of each stage |
//! | [`presets`], [`cost`] | released sizes, and the computed cost of a stage |
//! | [`ceilings`], `silicon`, [`measure`] | ceilings of the device, the floor, clocks and memory |
//! | [`results`], [`table`], [`section`], [`page`], [`peers`] | JSON, terminal, book |

pub(super) mod ceilings;
mod cost;
pub(super) mod language;
mod load;
pub(super) mod measure;
mod page;
mod peers;
pub(super) mod presets;
mod results;
mod section;
#[cfg(feature = "cpu")]
mod silicon;
mod sound;
pub(super) mod stages;
mod table;

use std::{path::PathBuf, process::ExitCode};

use acestep_engine::{Device, Job, device::dtype};
use acestep_model::{Backend, Place};
use anyhow::Result;
use ceilings::Peaks;
use clap::{ValueEnum, ValueHint};
use load::Model;
use peers::Peer;
use presets::Preset;
use results::Results;
use stages::{Measured, Song, Stage};

use super::check::machine;
use crate::{
    args::{Global, device::Where},
    commands::engine,
    error::CliError,
    interrupt,
    report::{self, Report},
    settings,
};

/// Flags of `bench`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// Sizes of a released model, or of a part of it.
    #[arg(long, value_enum, default_value = "turbo")]
    preset: Preset,

    /// Measure only these stages of the preset.
    #[arg(long, value_enum, value_delimiter = ',')]
    stage: Vec<Stage>,

    /// Length of the song in seconds, for codes, steps and sound.
    #[arg(long, value_name = "SECONDS", default_value = "10")]
    duration: f64,

    /// Use random weights: the default, and the only kind so far.
    #[arg(long)]
    random_weights: bool,

    /// Also load the networks of this model: turbo, .. or a directory.
    #[arg(long, value_name = "NAME|DIR")]
    model: Option<String>,

    #[command(flatten)]
    place: Where,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,

    /// Write or replace this machine's section of a Markdown page.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    page: Option<PathBuf>,

    /// Measure nothing; make the page from files that --json wrote.
    ///
    /// The files can be of several types and presets.
    #[arg(
        long,
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        requires = "page",
        conflicts_with_all = ["preset", "stage", "duration", "model", "device", "dtype", "json"],
    )]
    from: Vec<PathBuf>,

    /// Times of other programs for the page, as JSON.
    ///
    /// The file has a name, threads, and rows of preset, stage, dtype, duration_s, wall_s for the
    /// same stages.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "page")]
    peers: Vec<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let report = global.report();
    // Read these files before the minutes of measuring.
    let peers = args.peers.iter().map(|path| Peer::read(path)).collect::<Result<Vec<_>>>()?;
    let runs = if args.from.is_empty() {
        vec![measured(&args, report)?]
    } else {
        args.from.iter().map(|path| Results::read(path)).collect::<Result<_>>()?
    };
    results::refuse_twice(&runs)?;
    if let [run] = &runs[..]
        && args.from.is_empty()
    {
        if args.json {
            report::bytes(format!("{}\n", serde_json::to_string_pretty(run)?).as_bytes())?;
        } else {
            report::bytes(table::text(run).as_bytes())?;
        }
    }
    if let Some(path) = &args.page {
        page::write(path, &runs, &peers)?;
        report.line(&format!("written: {}", path.display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Measures the chosen stages.
fn measured(args: &Args, report: Report) -> Result<Results> {
    let mut stages = chosen(args)?;
    let (engine, notices) = engine::open(&args.place)?;
    if engine.dtype != dtype::of_others(engine.dtype) {
        stages.retain(|stage| stage.is_kept_as_asked());
        let name = dtype::name(engine.dtype);
        if stages.is_empty() && args.model.is_none() {
            let message = format!("no network of these stages is kept in {name}");
            let others = dtype::name(dtype::of_others(engine.dtype));
            let hint = format!("pass --dtype {others}, in which they are then");
            return Err(CliError::usage(message).hint(hint).into());
        }
        report.note(&format!("only the networks that are kept in {name} are measured"));
    }
    notices.iter().for_each(|notice| report.note(&notice.0));
    let layout = settings::layout();
    let model = args.model.as_deref().map(|choice| Model::open(choice, args.preset, &layout));
    let song = Song { preset: args.preset, duration_s: args.duration };
    let tell = |line: &str| report.line(line);
    let (date, load_1m) = (machine::now(), measure::load_1m());
    let bench =
        Bench { device: engine.device, stages, song, model: model.transpose()?, tell: &tell };
    let (ceilings, stages) = engine.run(bench)??;
    let results = Results {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        date,
        machine: machine::describe(engine.device),
        threads: threads(),
        load_1m,
        preset: args.preset,
        duration_s: args.duration,
        dtype: dtype::name(engine.dtype).to_owned(),
        ceilings,
        stages,
    };
    if results.was_busy() {
        report
            .note("other programs were at work when it began: times are longer than they need be");
    }
    Ok(results)
}

/// Returns the number of CPU threads that compute.
fn threads() -> usize {
    #[cfg(feature = "cpu")]
    return silicon::threads();
    #[cfg(not(feature = "cpu"))]
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Returns a value as it is typed.
pub(super) fn typed(value: impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// Returns the chosen stages, in the order of the pipeline.
fn chosen(args: &Args) -> Result<Vec<Stage>> {
    let of_preset = stages::of(args.preset);
    if !(0.2..=600.0).contains(&args.duration) {
        let message = format!("`--duration {}` is out of range: 0.2 to 600 seconds", args.duration);
        return Err(CliError::usage(message).hint("a song of 10 to 60 seconds says most").into());
    }
    if let Some(stage) = args.stage.iter().find(|stage| !of_preset.contains(stage)) {
        let message = format!("the preset has no stage {}", typed(*stage));
        return Err(CliError::usage(message).hint("leave out --stage, or choose turbo").into());
    }
    let wanted = |stage: &&Stage| args.stage.is_empty() || args.stage.contains(stage);
    Ok(of_preset.iter().filter(wanted).copied().collect())
}

struct Bench<'a> {
    device: Device,
    stages: Vec<Stage>,
    song: Song,
    model: Option<Model>,
    tell: &'a dyn Fn(&str),
}

impl Job for Bench<'_> {
    type Output = Result<(Peaks, Vec<Measured>)>;

    fn run<B: Backend>(self, place: Place<B>) -> Self::Output {
        let Self { device, stages, song, model, tell } = self;
        let go_on = || match interrupt::was_pressed() {
            true => Err(acestep_engine::Error::Cancelled),
            false => Ok(()),
        };
        tell("measuring what the device can do");
        let peaks = Peaks::measure(device, &place);
        let mut measured = Vec::new();
        if let Some(model) = model {
            for &part in Model::parts(song.preset) {
                go_on()?;
                tell(&format!("load: {part}"));
                measured.push(model.measure(part, peaks.used, &place)?);
            }
        }
        for stage in stages {
            go_on()?;
            tell(&format!("{}: making weights, then measuring", typed(stage)));
            measured.push(stages::run(stage, song, peaks.used, &place)?);
        }
        Ok((peaks, measured))
    }
}
