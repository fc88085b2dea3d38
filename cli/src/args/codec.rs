//! The flags of `codec`.

use std::path::PathBuf;

use acestep_runtime::{Error, files::Existing, latents::Format};
use clap::{Subcommand, ValueHint};

use super::{plan::Place, sound::Sound};

/// Shown under the long help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  acestep codec encode song.flac
      the latents of a song, in song.safetensors
  acestep codec encode song.mp3 -o song.nac8
      the same in a quarter of the room, as acestep.cpp writes them
  acestep codec decode song.nac8 -o song.wav
      and back to sound";

/// Flags of `codec`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Codec {
    #[command(subcommand)]
    pub(crate) way: Way,
}

/// There, or back.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Way {
    /// Turn a sound into latents.
    Encode(Box<Encode>),
    /// Turn latents into a sound.
    Decode(Box<Decode>),
}

/// Flags of `codec encode`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Encode {
    /// The sound: WAV, FLAC, MP3, Ogg Vorbis, M4A, ..
    ///
    /// What it has after its last whole frame (40 ms in the released models) is dropped; --json says how
    /// many samples.
    #[arg(value_name = "SOUND", value_hint = ValueHint::FilePath)]
    pub(crate) input: PathBuf,

    /// safetensors, vae, nac8 or nac4 [default: as --output ends, else safetensors].
    ///
    /// vae, nac8 and nac4 are acestep.cpp's; nac8 and nac4 round to eight and four bits.
    #[arg(long, value_name = "FORMAT", value_parser = latents_format)]
    pub(crate) format: Option<Format>,

    /// Draws the latents from their distribution, as upstream does, in place of its mean.
    #[arg(long)]
    pub(crate) sample: bool,

    /// Draws the same again [default: random].
    #[arg(
        long,
        value_name = "SEED",
        value_parser = super::generate::seed,
        allow_negative_numbers = true,
        requires = "sample"
    )]
    pub(crate) seed: Option<u64>,

    #[command(flatten)]
    pub(crate) common: Common,
}

/// Flags of `codec decode`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Decode {
    /// The latents: .safetensors, or .vae, .nac8 and .nac4 of acestep.cpp, told by their content.
    #[arg(value_name = "LATENTS", value_hint = ValueHint::FilePath)]
    pub(crate) input: PathBuf,

    #[command(flatten)]
    pub(crate) sound: Sound,

    #[command(flatten)]
    pub(crate) common: Common,
}

/// What both ways have in common.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Common {
    /// The file to write; - is standard output [default: beside the input, with its name
    /// and another extension].
    #[arg(
        short,
        long,
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        help_heading = "Output"
    )]
    pub(crate) output: Option<PathBuf>,

    /// Replaces files that exist.
    #[arg(long, help_heading = "Output")]
    pub(crate) force: bool,

    /// One JSON object on standard output, in place of the path.
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,

    /// The model whose VAE it is: turbo, demo, .. or a directory [default: turbo].
    #[arg(long, value_name = "NAME|DIR", help_heading = "Model and device")]
    pub(crate) model: Option<String>,

    #[command(flatten)]
    pub(crate) place: Place,

    /// Latent frames at once, in the released models 25 a second [default: 750 to encode, 512 to decode,
    /// or what fits].
    #[arg(
        long,
        value_name = "FRAMES",
        alias = "vae_chunk",
        allow_negative_numbers = true,
        help_heading = "Model and device"
    )]
    pub(crate) vae_chunk: Option<i64>,

    /// Latent frames on either side whose result is thrown away [default: 50 to encode, 64 to
    /// decode].
    #[arg(
        long,
        value_name = "FRAMES",
        alias = "vae_overlap",
        allow_negative_numbers = true,
        help_heading = "Model and device"
    )]
    pub(crate) vae_overlap: Option<i64>,
}

/// Reads a format; clap names the flag and the value itself.
fn latents_format(text: &str) -> Result<Format, String> {
    text.parse().map_err(|error| match error {
        Error::BadValue { why, .. } => why,
        other => other.to_string(),
    })
}

impl Common {
    /// What becomes of files that are there already.
    pub(crate) fn existing(&self) -> Existing {
        if self.force { Existing::Replace } else { Existing::Keep }
    }
}
