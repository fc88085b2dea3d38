//! One stage a file; each leaves what the next ones start from.
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

use std::path::{Path, PathBuf};

use acestep_import::{Directory, DitFolder, VaeFolder};
use acestep_model::{Backend, Place, acestep::AudioCodec};
use acestep_runtime::{Device, Engine, Job};
use acestep_train::course::{Row, seed_of};
use anyhow::Context;
use burn::tensor::DType;
use clap::{Args, Subcommand, builder::RangedU64ValueParser};

use product::Product;

#[derive(Debug, Subcommand)]
pub(crate) enum Stage {
    /// The tokenizers, from what is said of pieces
    Words,
    /// The autoencoder: sound to latents and back
    Vae(Taught),
    /// The autoencoder's decoder once more; latents stay what they are
    Decoder(Taught),
    /// Pieces as latents; the stages below make them too if they are missing
    Corpus,
    /// The audio codes: what is worth remembering of a moment
    Codes(Taught),
    /// The diffusion transformer and the encoders it listens to
    Flow(Taught),
    /// The transformer and these encoders once more, at a lower rate
    Polish(Taught),
    /// The language model
    Language(Taught),
    /// No stage: composed pieces as files, to hear, or for `acestep train lora`
    Pieces(pieces::Pieces),
}

/// How long a stage learns.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Taught {
    /// Steps; otherwise the stage's own number
    #[arg(long, value_parser = at_least_one())]
    steps: Option<usize>,
}

impl Stage {
    /// Whether there is a network in it.
    pub(crate) fn computes(&self) -> bool {
        !matches!(self, Self::Words | Self::Pieces(_))
    }
}

/// A number of which nothing comes if it is zero.
pub(crate) fn at_least_one() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..)
}

/// What all stages are told.
pub(crate) struct Setting<'a> {
    pub(crate) folder: PathBuf,
    pub(crate) seed: u64,
    pub(crate) pieces: usize,
    /// Where it is computed.
    pub(crate) device: Device,
    /// Whether to save and leave.
    pub(crate) stop: &'a dyn Fn() -> bool,
}

impl Setting<'_> {
    /// How the parts of a step are computed: on a processor together, with matrices in what it multiplies fastest.
    fn at_once(&self) -> Option<DType> {
        #[cfg(target_arch = "x86_64")]
        let has_bf16 = std::arch::is_x86_feature_detected!("avx512bf16");
        #[cfg(not(target_arch = "x86_64"))]
        let has_bf16 = false;
        (!self.device.is_card()).then_some(if has_bf16 { DType::BF16 } else { DType::F32 })
    }

    /// The folder of what is released, or one in it.
    fn released(&self, name: &str) -> anyhow::Result<PathBuf> {
        let folder = self.folder.join("model").join(name);
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("{}: cannot be made", folder.display()))?;
        Ok(folder)
    }

    /// What latents are made by, as its stage left it.
    fn encoder(&self) -> anyhow::Result<Product> {
        Ok(Product::encoder(self.released("vae")?.join(vae::FILE)))
    }

    /// What audio codes are made by, as its stage left it.
    fn codes(&self) -> anyhow::Result<Product> {
        Ok(Product::codes(self.released("acestep-v15-demo")?.join("model.safetensors")))
    }

    /// The audio codes as their stage left them.
    fn codec<B: Backend>(&self, place: &Place<B>) -> anyhow::Result<AudioCodec<B>> {
        let folder = Directory::Disk(self.folder.join("model/acestep-v15-demo"));
        let model = DitFolder::open(folder).context("the stage `codes` comes first")?;
        Ok(model.audio_codec(place)?)
    }

    /// The autoencoder as its stage left it.
    fn vae(&self) -> anyhow::Result<VaeFolder> {
        let folder = self.folder.join("model/vae");
        VaeFolder::open(Directory::Disk(folder)).context("the stage `vae` comes first")
    }
}

/// Runs a stage.
pub(crate) fn run(stage: &Stage, setting: &Setting<'_>) -> anyhow::Result<()> {
    let done = match stage {
        Stage::Words => words::run(setting)?,
        Stage::Pieces(pieces) => pieces::run(setting, pieces)?,
        Stage::Vae(_)
        | Stage::Decoder(_)
        | Stage::Corpus
        | Stage::Codes(_)
        | Stage::Flow(_)
        | Stage::Polish(_)
        | Stage::Language(_) => {
            let engine = Engine { device: setting.device, dtype: DType::F32 };
            engine.run(Computed { stage, setting })??
        }
    };
    if !done {
        report("stopped; the same command goes on from here");
    }
    Ok(())
}

/// A stage with networks.
struct Computed<'a> {
    stage: &'a Stage,
    setting: &'a Setting<'a>,
}

impl Job for Computed<'_> {
    /// Whether it came to its end.
    type Output = anyhow::Result<bool>;

    fn run<B: Backend>(self, place: Place<B>) -> Self::Output {
        let Self { stage, setting } = self;
        // What networks begin with follows from it too.
        B::seed(&place.device, setting.seed);
        match stage {
            Stage::Vae(taught) => vae::run(setting, *taught, &place),
            Stage::Decoder(taught) => decoder::run(setting, *taught, &place),
            Stage::Corpus => Ok(corpus::read(setting, &place)?.is_some()),
            Stage::Codes(taught) => codes::run(setting, *taught, &place),
            Stage::Flow(taught) => flow::run(setting, *taught, &place),
            Stage::Polish(taught) => polish::run(setting, *taught, &place),
            Stage::Language(taught) => language::run(setting, *taught, &place),
            Stage::Words | Stage::Pieces(_) => unreachable!("no network is in these"),
        }
    }
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("{}: cannot be written", path.display()))
}

/// The seeds of the two halves of a step.
fn halves(seed: u64, step: usize) -> Vec<u64> {
    [0, 1].map(|half| seed_of(seed, 2 * step + half)).to_vec()
}

/// Shows a row of losses.
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
