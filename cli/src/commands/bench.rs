//! `acestep bench`: measures the speed of each stage alone, at full size, with random weights.

use std::{path::PathBuf, time::Duration};

use acestep_engine::{
    device::dtype,
    files::{Existing, check_target},
};
use acestep_proof::{
    BenchStage,
    bench::{self, BenchRun, Options, Peer},
    families::{PRESETS, Preset, STAGES},
};
use anyhow::Result;
use clap::builder::TypedValueParser;

use super::{engine, proof};
use crate::{
    args::{Global, device::Where},
    error::CliError,
    report::{self, Report},
    settings,
};

/// Flags of `bench`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// Sizes of a released model, or of a part of it.
    #[arg(long, value_parser = proof::preset(), default_value = "turbo")]
    preset: &'static Preset,

    /// Measure only these stages of the preset.
    #[arg(long, value_parser = stage(), value_delimiter = ',')]
    stage: Vec<&'static BenchStage>,

    /// Length of the song in seconds, 0.2 to 600, for codes, steps and sound.
    #[arg(long, value_name = "SECONDS", default_value = "10")]
    duration: f64,

    /// Speak for so long instead, up to 1440, without a pause: frames a second, real-time factors,
    /// memory.
    ///
    /// For presets of Qwen3-TTS. The weights are random.
    #[arg(long, value_name = "MINUTES", conflicts_with_all = ["stage", "model", "page"])]
    stress: Option<f64>,

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
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,

    /// Measure nothing; make the page from files that --json wrote.
    ///
    /// The files can be of several types and presets.
    #[arg(long, value_name = "FILE", requires = "page")]
    #[arg(conflicts_with_all = ["preset", "stage", "duration", "model", "device", "dtype", "json"])]
    from: Vec<PathBuf>,

    /// Times of other programs for the page, as JSON.
    ///
    /// The file has a name, threads, and rows of preset, stage, dtype, duration_s, wall_s for the
    /// same stages.
    #[arg(long, value_name = "FILE", requires = "page")]
    peers: Vec<PathBuf>,
}

/// Parses a stage.
fn stage() -> impl TypedValueParser<Value = &'static BenchStage> {
    proof::by_name(STAGES.iter().map(|&stage| (stage.name, stage.about, stage)).collect())
}

pub(crate) fn run(args: Args, global: &Global) -> Result<()> {
    let report = global.report();
    if let Some(minutes) = args.stress {
        return stress(&args, minutes, report);
    }
    // Read and check these files before the minutes of measuring.
    args.page.iter().try_for_each(|path| check_target(path, Existing::Replace))?;
    let peers = args.peers.iter().map(|path| Peer::read(path)).collect::<Result<Vec<_>>>()?;
    let runs = if args.from.is_empty() {
        vec![measured(&args, report)?]
    } else {
        args.from.iter().map(|path| BenchRun::read(path)).collect::<Result<_>>()?
    };
    if let Some(twice) = bench::repeated(&runs) {
        let error = CliError::usage(format!("the results have {twice} twice"));
        return Err(error.hint("leave out one of the files").into());
    }
    if let [run] = &runs[..]
        && args.from.is_empty()
    {
        report::result(args.json, run, bench::text(run))?;
    }
    if let Some(path) = &args.page {
        bench::write(path, &runs, &peers, &report)?;
        report.line(&format!("written: {}", path.display()));
    }
    Ok(())
}

/// Measures a sustained load.
fn stress(args: &Args, minutes: f64, report: Report) -> Result<()> {
    if !(0.01..=1440.0).contains(&minutes) {
        let message = format!("`--stress {minutes}` is out of range: 0.01 to 1440 minutes");
        return Err(CliError::usage(message).hint("five minutes say most").into());
    }
    let (engine, notices) = engine::open(&args.place)?;
    report.notes(&notices);
    let length = Duration::from_secs_f64(minutes * 60.0);
    let Some(result) = args.preset.stress(length, engine, &report) else {
        let message = format!("`--stress` is not for the preset {}", args.preset.name);
        return Err(CliError::usage(message).hint("pass --preset qwen3-tts-0.6b").into());
    };
    let result = result?;
    report::result(args.json, &result, result.text())
}

/// Measures the chosen stages.
fn measured(args: &Args, report: Report) -> Result<BenchRun> {
    let mut stages = chosen(args)?;
    let (engine, notices) = engine::open(&args.place)?;
    if engine.dtype != dtype::of_others(engine.dtype) {
        stages.retain(|stage| stage.is_kept_as_asked);
        let name = dtype::name(engine.dtype);
        if stages.is_empty() && args.model.is_none() {
            let message = format!("no network of these stages is kept in {name}");
            let others = dtype::name(dtype::of_others(engine.dtype));
            let hint = format!("pass --dtype {others}, in which they are then");
            return Err(CliError::usage(message).hint(hint).into());
        }
        report.note(&format!("only the networks that are kept in {name} are measured"));
    }
    report.notes(&notices);
    let open = |choice| args.preset.open(choice, &settings::layout());
    let model = args.model.as_deref().map(open).transpose()?;
    let options = Options { preset: args.preset, stages, duration_s: args.duration };
    bench::run(options, model, engine, &report)
}

/// Returns the chosen stages, in the order of the pipeline.
fn chosen(args: &Args) -> Result<Vec<&'static BenchStage>> {
    if !(0.2..=600.0).contains(&args.duration) {
        let message = format!("`--duration {}` is out of range: 0.2 to 600 seconds", args.duration);
        return Err(CliError::usage(message).hint("a song of 10 to 60 seconds says most").into());
    }
    let of_preset: Vec<_> = args.preset.stages().collect();
    if let Some(stage) = args.stage.iter().find(|stage| !of_preset.contains(stage)) {
        let message = format!("the preset has no stage {}", stage.name);
        let with = PRESETS.iter().filter(|preset| preset.stages().any(|own| own == *stage));
        let names: Vec<_> = with.map(|preset| preset.name).collect();
        let hint = format!("leave out --stage, or pass --preset {}", names.join(" or "));
        return Err(CliError::usage(message).hint(hint).into());
    }
    let wanted = |stage: &&'static BenchStage| args.stage.is_empty() || args.stage.contains(stage);
    Ok(of_preset.into_iter().filter(wanted).collect())
}
