//! The flags of `plan`, `inspire`, `format` and `understand`.

use std::path::PathBuf;

use acestep_runtime::files::Existing;
use clap::ValueHint;

use super::{generate::Words, language::Language};

/// Shown under the long help of `plan`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  acestep plan \"upbeat pop, female voice\" --lyrics @song.txt -o pop.json
      tempo, key, metre, length and outline for the words of song.txt
  acestep generate --request pop.json
      makes that song
  acestep inspire \"a soft love song for a quiet evening\" --vocal-language bn
      caption, lyrics and metadata from a description
  acestep format \"latin pop, reggaeton\" --lyrics @draft.txt -o -
      caption and lyrics in the form that the model was trained on
  acestep plan --system \"Write a song in the style of a sea shanty\" --user \"about a lighthouse\"
      an instruction of one's own";

/// Flags of `plan`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Plan {
    #[command(flatten)]
    pub(crate) words: Words,

    /// An instruction of one's own, in place of those the model was trained on.
    #[arg(
        long,
        value_name = "TEXT",
        requires = "user",
        conflicts_with_all = ["positional_caption", "caption", "lyrics"],
        allow_hyphen_values = true,
        help_heading = "Song"
    )]
    pub(crate) system: Option<String>,

    /// What that instruction is about.
    #[arg(
        long,
        value_name = "TEXT",
        requires = "system",
        allow_hyphen_values = true,
        help_heading = "Song"
    )]
    pub(crate) user: Option<String>,

    /// Writes no audio codes: metadata and words alone.
    #[arg(long, alias = "no_codes", help_heading = "Song")]
    pub(crate) no_codes: bool,

    #[command(flatten)]
    pub(crate) common: Common,
}

/// Flags of `inspire`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Inspire {
    #[command(flatten)]
    pub(crate) words: Words,

    /// Also writes audio codes.
    #[arg(long, help_heading = "Song")]
    pub(crate) codes: bool,

    #[command(flatten)]
    pub(crate) common: Common,
}

/// Flags of `format`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Format {
    #[command(flatten)]
    pub(crate) words: Words,

    /// Also writes audio codes.
    #[arg(long, help_heading = "Song")]
    pub(crate) codes: bool,

    #[command(flatten)]
    pub(crate) common: Common,
}

/// What the three have in common.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Common {
    /// Makes the same plan again [default: random].
    ///
    /// The outlines of a batch count up from it, or a list gives each its own: 7,9,11.
    #[arg(
        long,
        value_name = "SEED",
        value_delimiter = ',',
        value_parser = super::generate::seed,
        allow_negative_numbers = true,
        help_heading = "Sampling"
    )]
    pub(crate) seed: Option<Vec<u64>>,

    /// How many outlines, 1 to 8 [default: 1].
    #[arg(
        long,
        value_name = "N",
        alias = "batch_size",
        allow_negative_numbers = true,
        help_heading = "Sampling"
    )]
    pub(crate) batch_size: Option<i64>,

    #[command(flatten)]
    pub(crate) language: Language,

    #[command(flatten)]
    pub(crate) place: Place,

    /// The request to write, for `acestep generate --request`; - is standard output
    /// [default: plan.json].
    #[arg(
        short,
        long,
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        help_heading = "Output"
    )]
    pub(crate) output: Option<PathBuf>,

    /// Writes the audio codes to a file, as 17,4,...
    ///
    /// Those of several songs go to files that end in _1, _2.
    #[arg(
        long,
        value_name = "FILE",
        alias = "output_codes",
        value_hint = ValueHint::FilePath,
        help_heading = "Output"
    )]
    pub(crate) output_codes: Option<PathBuf>,

    /// Writes caption, lyrics, bpm, duration, keyscale, timesignature and language to a folder.
    ///
    /// One file each, named so, with the value alone and no line end after it.
    #[arg(
        long,
        value_name = "DIR",
        alias = "output_dir",
        value_hint = ValueHint::DirPath,
        help_heading = "Output"
    )]
    pub(crate) output_dir: Option<PathBuf>,

    /// Writes what the model said, word for word; also if it cannot be used.
    #[arg(
        long,
        value_name = "FILE",
        alias = "output_text",
        value_hint = ValueHint::FilePath,
        help_heading = "Output"
    )]
    pub(crate) output_text: Option<PathBuf>,

    /// Replaces files that exist.
    #[arg(long, help_heading = "Output")]
    pub(crate) force: bool,

    /// One JSON object on standard output, in place of paths.
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

/// Where models lie, and where they run.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Model and device")]
pub(crate) struct Place {
    /// Where models lie.
    ///
    /// [default: acestep/models in the user's data directory, on Linux ~/.local/share]
    /// [env: ACESTEP_MODELS_DIR]
    #[arg(long, value_name = "DIR", alias = "models_dir", value_hint = ValueHint::DirPath)]
    pub(crate) models_dir: Option<PathBuf>,

    /// auto, cpu, cuda[:N] or wgpu [default: auto].
    #[arg(long, value_name = "DEVICE", default_value = "auto", hide_default_value = true)]
    pub(crate) device: String,
}

impl Common {
    /// What becomes of files that are there already.
    pub(crate) fn existing(&self) -> Existing {
        if self.force { Existing::Replace } else { Existing::Keep }
    }
}

/// Flags of `understand`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Understand {
    /// The song: WAV, FLAC, MP3, Ogg Vorbis or M4A.
    #[arg(value_name = "SONG", required_unless_present = "audio_codes")]
    pub(crate) song: Option<PathBuf>,

    /// Its audio codes in place of its sound; @FILE is read from a file.
    #[arg(
        long,
        value_name = "CODES|@FILE",
        alias = "audio_codes",
        conflicts_with = "song",
        allow_hyphen_values = true
    )]
    pub(crate) audio_codes: Option<String>,

    /// Hears the same again [default: random].
    #[arg(
        long,
        value_name = "SEED",
        value_parser = super::generate::seed,
        allow_negative_numbers = true,
        help_heading = "Sampling"
    )]
    pub(crate) seed: Option<u64>,

    #[command(flatten)]
    pub(crate) language: Language,

    /// The model whose networks turn sound into codes: turbo, tiny, .. or a directory
    /// [default: turbo].
    #[arg(long, value_name = "NAME|DIR", help_heading = "Model and device")]
    pub(crate) model: Option<String>,

    #[command(flatten)]
    pub(crate) place: Place,

    /// Also writes a request that makes a song like it, with its codes.
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

    /// One JSON object in place of text.
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}
