//! `acestep bench`: how fast each stage is, alone, at full size, with random weights.
//!
//! Speeds are given beside ceilings measured in the same run, so that figures of a busy machine
//! are not mistaken for those of the program.

mod cost;
pub(super) mod language;
pub(super) mod measure;
pub(super) mod presets;
pub(super) mod stages;

use std::process::ExitCode;

use acestep_model::{Backend, Place};
use acestep_runtime::{Engine, Job, device::dtype};
use anyhow::Result;
use clap::ValueEnum;
use serde_json::json;

use crate::{
    args::{Global, device::Where},
    commands::engine,
    error::Refusal,
    interrupt, report,
};
use measure::Ceilings;
use presets::Preset;
use stages::{Measured, Song, Stage};

/// The flags of `bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The sizes of a released model, or a part of it.
    #[arg(long, value_enum, default_value = "turbo")]
    preset: Preset,

    /// Only these stages of the preset.
    #[arg(long, value_enum, value_delimiter = ',')]
    stage: Vec<Stage>,

    /// Seconds of the song whose codes, steps and sound are measured.
    #[arg(long, value_name = "SECONDS", default_value = "10")]
    duration: f64,

    /// Random weights made on the device: the default, and the only kind so far.
    #[arg(long)]
    random_weights: bool,

    #[command(flatten)]
    place: Where,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let stages = chosen(&args)?;
    let (engine, notices) = engine::open(&args.place)?;
    notices.iter().for_each(|notice| global.report().note(&notice.0));
    let song = Song { preset: args.preset, duration_s: args.duration };
    let report = global.report();
    let tell = |line: &str| report.line(line);
    let (ceilings, measured) = engine.run(Bench { stages, song, tell: &tell })??;
    if args.json {
        let object = json!({
            "device": engine.device.to_string(),
            "preset": typed(args.preset),
            "duration_s": args.duration,
            "dtype": dtype::name(engine.dtype),
            "ceilings": ceilings,
            "stages": measured,
        });
        report::bytes(format!("{object:#}\n").as_bytes())?;
    } else {
        report::bytes(table(engine, ceilings, &measured).as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A value as it is typed.
pub(super) fn typed(value: impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// The stages that were asked for, in the order of the chain.
fn chosen(args: &Args) -> Result<Vec<Stage>> {
    let of_preset = stages::of(args.preset);
    if !(0.2..=600.0).contains(&args.duration) {
        let message = format!("`--duration {}` is out of range: 0.2 to 600 seconds", args.duration);
        return Err(Refusal::usage(message).into());
    }
    if let Some(stage) = args.stage.iter().find(|stage| !of_preset.contains(stage)) {
        let message = format!("the preset has no stage {}", typed(*stage));
        return Err(Refusal::usage(message).hint("leave out --stage, or choose turbo").into());
    }
    let wanted = |stage: &&Stage| args.stage.is_empty() || args.stage.contains(stage);
    Ok(of_preset.iter().filter(wanted).copied().collect())
}

struct Bench<'a> {
    stages: Vec<Stage>,
    song: Song,
    tell: &'a dyn Fn(&str),
}

impl Job for Bench<'_> {
    type Output = Result<(Ceilings, Vec<Measured>)>;

    fn run<B: Backend>(self, place: Place<B>) -> Self::Output {
        (self.tell)("measuring what the device can do");
        let ceilings = measure::ceilings(&place);
        let measured = self.stages.into_iter().map(|stage| {
            if interrupt::was_pressed() {
                return Err(acestep_runtime::Error::Cancelled.into());
            }
            (self.tell)(&format!("{}: making weights, then measuring", typed(stage)));
            stages::run(stage, self.song, ceilings, &place)
        });
        Ok((ceilings, measured.collect::<Result<_>>()?))
    }
}

fn table(engine: Engine, ceilings: Ceilings, measured: &[Measured]) -> String {
    let mut lines = vec![
        format!(
            "{}, {}: at most {:.0} GFLOP/s in a matrix product, {:.1} GB/s of memory",
            engine.device,
            dtype::name(engine.dtype),
            ceilings.flop_per_s / 1e9,
            ceilings.bytes_per_s / 1e9
        ),
        format!(
            "{:<14}{:<36}{:>12}{:>11}{:>11}{:>16}{:>16}{:>10}",
            "stage", "one run", "wall", "CPU", "median", "GFLOP/s (share)", "GB/s (share)", "peak"
        ),
    ];
    lines.extend(measured.iter().map(|m| {
        let peak = m.peak_bytes.map_or("-".to_owned(), |b| format!("{:.2} GB", b as f64 / 1e9));
        let share = |rate: f64, share: f64| format!("{:.1} ({:.0} %)", rate / 1e9, share * 100.0);
        format!(
            "{:<14}{:<36}{:>12}{:>11}{:>11}{:>16}{:>16}{:>10}\n{:<14}{:.3} {}",
            typed(m.stage),
            m.unit,
            format!("{:.4} s", m.time.wall_s),
            format!("{:.3} s", m.time.cpu_s),
            format!("{:.4} s", m.time.median_s),
            share(m.flop_per_s, m.flop_share_of_ceiling),
            share(m.weight_bytes_per_s, m.bytes_share_of_ceiling),
            peak,
            "",
            m.rate.value,
            m.rate.unit
        )
    }));
    lines.join("\n") + "\n"
}
