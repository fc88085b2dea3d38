//! The stages, one per file; each creates the inputs of the next ones.
//!
//! ```text
//! words  vae -> corpus -> codes -> flow -> polish
//!                            codes -> language
//!        vae -> decoder
//! ```

mod codes;
mod corpus;
mod decoder;
mod flow;
mod language;
mod pieces;
mod polish;
mod product;
mod vae;
mod words;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use acestep_engine::{BackendWork, Device, Engine};
use acestep_import::{Directory, DitDir, VaeDir};
use acestep_model::{Backend, Place, acestep::AudioCodec};
use acestep_train::{
    learner::OptimizerConfig,
    release::{Tensors, write_tensors},
    run::{Row, TrainingRun, seed_of},
};
use anyhow::Context;
use burn::tensor::DType;
use clap::{Args, Subcommand, builder::RangedU64ValueParser};
use product::Product;

#[derive(Debug, Subcommand)]
pub(crate) enum TrainingStage {
    /// Trains the tokenizers on the texts of composed pieces
    Words,
    /// Trains the autoencoder: sound to latents and back
    Vae(Taught),
    /// Trains the autoencoder's decoder again; the latents do not change
    Decoder(Taught),
    /// Encodes composed pieces to latents; the stages below do this too if needed
    Corpus,
    /// Trains the audio codes
    Codes(Taught),
    /// Trains the diffusion transformer and its condition encoders
    Flow(Taught),
    /// Trains the transformer and these encoders again, at a lower rate
    Polish(Taught),
    /// Trains the language model
    Language(Taught),
    /// Writes composed pieces to files, to listen to, or for `acestep train lora`
    Pieces(pieces::Pieces),
}

/// Length of a stage's training.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Taught {
    /// Number of steps; each stage has its own default
    #[arg(long, value_parser = at_least_one())]
    steps: Option<usize>,
}

impl Taught {
    /// Returns the configuration of the stage, with the number of steps that is asked for.
    fn of(self, stage: OptimizerConfig) -> OptimizerConfig {
        OptimizerConfig { steps: self.steps.unwrap_or(stage.steps), ..stage }
    }
}

impl TrainingStage {
    /// True if the stage computes networks.
    pub(crate) fn computes(&self) -> bool {
        !matches!(self, Self::Words | Self::Pieces(_))
    }
}

/// Returns a parser of numbers that must not be zero.
pub(crate) fn at_least_one() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..)
}

/// Settings that all stages share.
pub(crate) struct Setting<'a> {
    pub(crate) folder: PathBuf,
    pub(crate) seed: u64,
    pub(crate) pieces: usize,
    /// The device.
    pub(crate) device: Device,
    /// Returns true to save the state and stop.
    pub(crate) stop: &'a dyn Fn() -> bool,
}

impl Setting<'_> {
    /// Returns the type of matrices for parallel parts of a step: on a CPU its fastest type, on a
    /// GPU none.
    fn at_once(&self) -> Option<DType> {
        #[cfg(target_arch = "x86_64")]
        let has_bf16 = std::arch::is_x86_feature_detected!("avx512bf16");
        #[cfg(not(target_arch = "x86_64"))]
        let has_bf16 = false;
        (!self.device.is_gpu()).then_some(if has_bf16 { DType::BF16 } else { DType::F32 })
    }

    /// Returns the training run whose state is in the folder `name`. `of` describes sizes and data.
    fn training(
        &self,
        name: &str,
        seed: u64,
        of: String,
        optimizer_config: OptimizerConfig,
    ) -> TrainingRun {
        let (save_every, at_once) = (Duration::from_secs(300), self.at_once());
        let folder = self.folder.join(name);
        TrainingRun { folder, seed, of, optimizer_config, save_every, at_once }
    }

    /// Writes the tensors of a network and its configuration.
    fn release(&self, name: &str, tensors: &Tensors, config: &str) -> anyhow::Result<()> {
        let folder = self.released(name)?;
        write_tensors(&folder.join("model.safetensors"), tensors)?;
        write(&folder.join("config.json"), config)
    }

    /// Creates and returns a folder in the folder of released files.
    fn released(&self, name: &str) -> anyhow::Result<PathBuf> {
        let folder = self.folder.join("model").join(name);
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("{}: cannot be made", folder.display()))?;
        Ok(folder)
    }

    /// Returns the released encoder of latents.
    fn encoder(&self) -> anyhow::Result<Product> {
        Ok(Product::encoder(self.released("vae")?.join(vae::FILE)))
    }

    /// Returns the released encoder of audio codes.
    fn codes(&self) -> anyhow::Result<Product> {
        Ok(Product::codes(self.released("acestep-v15-demo")?.join("model.safetensors")))
    }

    /// Opens the released audio codec.
    fn codec<B: Backend>(&self, place: &Place<B>) -> anyhow::Result<AudioCodec<B>> {
        let folder = Directory::Disk(self.folder.join("model/acestep-v15-demo"));
        let model = DitDir::open(folder).context("the stage `codes` comes first")?;
        Ok(model.audio_codec(place)?)
    }

    /// Opens the released autoencoder.
    fn vae(&self) -> anyhow::Result<VaeDir> {
        let folder = self.folder.join("model/vae");
        VaeDir::open(Directory::Disk(folder)).context("the stage `vae` comes first")
    }
}

/// Runs a stage.
pub(crate) fn run(stage: &TrainingStage, setting: &Setting<'_>) -> anyhow::Result<()> {
    let done = match stage {
        TrainingStage::Words => words::run(setting)?,
        TrainingStage::Pieces(pieces) => pieces::run(setting, pieces)?,
        TrainingStage::Vae(_)
        | TrainingStage::Decoder(_)
        | TrainingStage::Corpus
        | TrainingStage::Codes(_)
        | TrainingStage::Flow(_)
        | TrainingStage::Polish(_)
        | TrainingStage::Language(_) => {
            let engine = Engine { device: setting.device, dtype: DType::F32 };
            engine.run(Computed { stage, setting })??
        }
    };
    if !done {
        report("stopped; the same command goes on from here");
    }
    Ok(())
}

/// A stage that computes networks.
struct Computed<'a> {
    stage: &'a TrainingStage,
    setting: &'a Setting<'a>,
}

impl BackendWork for Computed<'_> {
    /// True if the stage finished, false if it was stopped.
    type Output = anyhow::Result<bool>;

    fn run<B: Backend>(self, place: Place<B>) -> Self::Output {
        let Self { stage, setting } = self;
        // The initial weights depend on this seed too.
        B::seed(&place.device, setting.seed);
        match stage {
            TrainingStage::Vae(taught) => vae::run(setting, *taught, &place),
            TrainingStage::Decoder(taught) => decoder::run(setting, *taught, &place),
            TrainingStage::Corpus => Ok(corpus::read(setting, &place)?.is_some()),
            TrainingStage::Codes(taught) => codes::run(setting, *taught, &place),
            TrainingStage::Flow(taught) => flow::run(setting, *taught, &place),
            TrainingStage::Polish(taught) => polish::run(setting, *taught, &place),
            TrainingStage::Language(taught) => language::run(setting, *taught, &place),
            TrainingStage::Words | TrainingStage::Pieces(_) => {
                unreachable!("no network is in these")
            }
        }
    }
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("{}: cannot be written", path.display()))
}

/// Returns the seeds of the two halves of a step.
fn halves(seed: u64, step: usize) -> Vec<u64> {
    [0, 1].map(|half| seed_of(seed, 2 * step + half)).to_vec()
}

/// Prints a row of losses.
fn tell<const N: usize>(row: &Row<N>) {
    let parts: String = row.parts.iter().map(|part| format!("  {part:7.4}")).collect();
    let Row { step, steps, seconds, rate, gradient, .. } = row;
    let left = seconds / *step as f64 * (steps - step) as f64;
    report(&format!(
        "{step:6} of {steps}  {:5.1} min, {:5.1} left  rate {rate:.1e}  gradient {gradient:7.3}{parts}",
        seconds / 60.0,
        left / 60.0
    ));
}

#[expect(clippy::print_stderr, reason = "progress is for whoever looks on")]
pub(crate) fn report(line: &str) {
    eprintln!("{line}");
}
