//! Flags of `codec`.

use std::path::PathBuf;

use acestep_engine::Error;
use acestep_music::latents::LatentsFormat;
use clap::Subcommand;

use super::{device::Where, files::Files, sound::Sound, values::seed};

/// Direction of the codec.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Way {
    /// Encode a sound to latents.
    Encode(Box<Encode>),
    /// Decode latents to a sound.
    Decode(Box<Decode>),
}

/// Flags of `codec encode`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Encode {
    /// Sound: WAV, FLAC, MP3, Ogg Vorbis, M4A, ..
    ///
    /// Samples after the last whole frame (40 ms in the released models) are dropped; --json gives
    /// their number.
    #[arg(value_name = "SOUND")]
    pub(crate) input: PathBuf,

    /// safetensors, vae, nac8 or nac4 [default: as --output ends, else safetensors].
    ///
    /// vae, nac8 and nac4 are acestep.cpp's formats; nac8 and nac4 round to eight and four bits.
    #[arg(long, value_name = "FORMAT", value_parser = latents_format)]
    pub(crate) format: Option<LatentsFormat>,

    /// Sample the latents from their distribution, as upstream does, instead of using its mean.
    #[arg(long)]
    pub(crate) sample: bool,

    /// Seed of the sampled latents [default: random].
    #[arg(long, value_name = "SEED", value_parser = seed, requires = "sample")]
    pub(crate) seed: Option<u64>,

    #[command(flatten)]
    pub(crate) common: Common,
}

/// Flags of `codec decode`.
#[derive(Debug, Clone, clap::Args)]
#[command(mut_arg("normalization_db", |level| {
    level.help("Peak level in dB relative to full scale, -60 to 0 [default: as decoded]")
}))]
pub(crate) struct Decode {
    /// Latents: .safetensors, or acestep.cpp's .vae, .nac8 and .nac4, detected by their content.
    #[arg(value_name = "LATENTS")]
    pub(crate) input: PathBuf,

    #[command(flatten)]
    pub(crate) sound: Sound,

    #[command(flatten)]
    pub(crate) common: Common,
}

/// Flags of both directions.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Common {
    /// File to write; - is standard output [default: beside the input, with its name
    /// and another extension].
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    pub(crate) output: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) files: Files,

    /// Model whose VAE is used: turbo, demo, .. or a directory [default: turbo].
    #[arg(long, value_name = "NAME|DIR", help_heading = "Model and device")]
    pub(crate) model: Option<String>,

    #[command(flatten)]
    pub(crate) place: Where,

    /// Latent frames per chunk, 25 per second in the released models [default: 750 to encode, 512
    /// to decode, or what fits].
    #[arg(long, value_name = "FRAMES", help_heading = "Model and device")]
    vae_chunk: Option<i64>,

    /// Latent frames of overlap on each side, whose result is discarded [default: 50 to encode, 64
    /// to decode].
    #[arg(long, value_name = "FRAMES", help_heading = "Model and device")]
    vae_overlap: Option<i64>,
}

impl Common {
    /// Returns the typed frames per chunk, and their overlap.
    pub(crate) fn tiles(&self) -> (Option<i64>, Option<i64>) {
        (self.vae_chunk, self.vae_overlap)
    }
}

/// Parses a format; clap adds the names of flag and value to an error.
fn latents_format(text: &str) -> Result<LatentsFormat, String> {
    text.parse().map_err(|error| match error {
        Error::BadValue { why, .. } => why,
        other => other.to_string(),
    })
}
