//! The flags of `plan`, `inspire`, `format` and `understand`.

use std::path::PathBuf;

use acestep_runtime::files::Existing;
use clap::ValueHint;

use super::{
    device::Where,
    generate::Words,
    language::{Drawing, Outline},
    thinking::Decisions,
};

/// Shown under the long help of `plan`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  acestep plan \"upbeat pop, female voice\" --lyrics @song.txt -o pop.json
      tempo, key, metre, length and outline for the words of song.txt
  acestep generate --request pop.json
      makes that song
  acestep plan \"upbeat pop\" --lyrics @song.txt --no-codes --output-dir pop
      the same without the outline, each value in a file of its own
  acestep plan --system \"Write a song in the style of a sea shanty\" --user \"about a lighthouse\"
      an instruction of one's own";

/// Shown under the long help of `inspire`.
pub(crate) const INSPIRE_EXAMPLES: &str = "\
Examples:
  acestep inspire \"a soft love song for a quiet evening\" -o love.json
      caption, lyrics and metadata, to be read and changed
  acestep generate --request love.json -o love.wav
      makes that song
  acestep inspire \"film music for a storm at sea\" --instrumental --duration 90 -o -
      no voice, a minute and a half; the request goes to standard output
  acestep inspire \"a lullaby\" --vocal-language bn --model tiny
      proves that everything works, without any download; the words are nonsense";

/// Shown under the long help of `format`.
pub(crate) const FORMAT_EXAMPLES: &str = "\
Examples:
  acestep format \"latin pop, reggaeton\" --lyrics @draft.txt -o song.json
      caption and lyrics in the form that the model was trained on
  acestep generate --request song.json -o song.wav
      makes that song
  acestep format --request song.json --bpm 96 -o - | acestep generate --request - -o song.wav
      both in one line, at a tempo of one's own";

/// Shown under the long help of `understand`.
pub(crate) const UNDERSTAND_EXAMPLES: &str = "\
Examples:
  acestep understand song.mp3
      what the song is, in words
  acestep understand song.mp3 -o like.json
      also the request for a song like it
  acestep understand --audio-codes @codes.txt --json
      the same from an outline that acestep plan --output-codes wrote";

/// What flags that several verbs share mean to one of them: verb, flag, help.
pub(crate) const OTHER_WORDS: &[(&str, &[(&str, &str)])] = &[
    ("plan", &[("duration", MODELS_LENGTH)]),
    (
        "inspire",
        &[
            ("positional_caption", "What the song is to be about, in any words"),
            ("caption", "The same as QUERY"),
            ("duration", MODELS_LENGTH),
        ],
    ),
    ("format", &[("duration", MODELS_LENGTH)]),
    (
        "understand",
        &[
            (
                "lm_temperature",
                "Spread of its draws, 0 to 2; 0 takes the likeliest token [default: 0.3]",
            ),
            (
                "lm_top_p",
                "Draws from the likeliest tokens with this share together; 0, 1: all [default: 1]",
            ),
        ],
    ),
];

const MODELS_LENGTH: &str = "Seconds, up to 600 [default: the model's choice]";

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
    pub(crate) decisions: Decisions,

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
    pub(crate) drawing: Drawing,

    #[command(flatten)]
    pub(crate) outline: Outline,

    /// What the song will be made with [default: turbo].
    ///
    /// It is kept in the request. demo and tiny are built in, and have language models of their own.
    /// That of demo knows songs without words only; those of tiny are random networks that prove that
    /// everything works.
    #[arg(long, value_name = "NAME|PATH", help_heading = "Model and device")]
    pub(crate) model: Option<String>,

    #[command(flatten)]
    pub(crate) place: Place,

    /// The request to write, for `acestep generate --request`; - is standard output
    /// [default: plan.json, inspire.json or format.json].
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
    #[command(flatten)]
    pub(crate) compute: Where,
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
        allow_hyphen_values = true,
        help_heading = "Song"
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
    pub(crate) drawing: Drawing,

    /// The model whose networks turn sound into codes: turbo, demo, .. or a path
    /// [default: turbo].
    #[arg(long, value_name = "NAME|PATH", help_heading = "Model and device")]
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
