//! Commands of the stages that train the demo model.

mod stages;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use acestep_engine::device::{Device, kernels};
use anyhow::Context;
use clap::Parser;
use stages::{Setting, TrainingStage, at_least_one, report};

/// Trains the demo model, stage by stage; a stopped stage resumes at the next call.
#[derive(Debug, Parser)]
#[command(name = "acestep-demo", version)]
struct Arguments {
    #[command(subcommand)]
    stage: TrainingStage,
    /// Folder of all stages; released files are in its `model`
    #[arg(long, global = true, default_value = "target/demo", value_name = "DIR")]
    folder: PathBuf,
    /// Seed of everything random
    #[arg(long, global = true, default_value_t = 1)]
    seed: u64,
    /// Number of pieces in the corpus
    #[arg(long, global = true, default_value_t = 16_000, value_parser = at_least_one())]
    pieces: usize,
    /// Device: auto, cpu, cuda, cuda:N, wgpu or wgpu:N
    #[arg(long, global = true, default_value = "auto")]
    device: String,
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(Arguments { stage, folder, seed, pieces, device }: Arguments) -> anyhow::Result<()> {
    let device = if stage.computes() { open(&device, &folder)? } else { Device::Cpu };
    let stopped = Arc::new(AtomicBool::new(false));
    let pressed = stopped.clone();
    ctrlc::set_handler(move || pressed.store(true, Ordering::SeqCst))
        .context("Ctrl-C cannot be handled")?;
    let stop = || stopped.load(Ordering::SeqCst);
    stages::run(&stage, &Setting { folder, seed, pieces, device, stop: &stop })
}

/// Opens the requested device, with its kernel cache beside the stages.
fn open(name: &str, folder: &Path) -> anyhow::Result<Device> {
    let (device, notices) = Device::open(name)?;
    let kept = kernels::keep(Some(&folder.join("kernels")), device);
    notices.iter().chain(&kept.notice).for_each(|notice| report(&notice.0));
    report(&format!("on {device}"));
    Ok(device)
}
