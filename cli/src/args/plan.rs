//! Flags of `plan`, `inspire`, `format` and `understand`.

use std::path::PathBuf;

use super::{
    device::Where,
    files::Files,
    generate::Words,
    language::{Drawing, Outline},
    thinking::Decisions,
    values::seed,
};

/// Help texts of shared flags that differ for one command: command, flag, help.
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
                "Sampling temperature, 0 to 2; 0 takes the likeliest token [default: 0.3]",
            ),
            (
                "lm_top_p",
                "Sample from the likeliest tokens with this total probability; 0 and 1 are all \
                 [default: 1]",
            ),
            ("json", "Print one JSON object in place of text"),
        ],
    ),
];

const MODELS_LENGTH: &str = "Seconds, up to 600 [default: the model's choice]";

/// Flags of `plan`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Plan {
    #[command(flatten)]
    pub(crate) words: Words,

    /// Your own instruction, in place of the ones that the model was trained on.
    #[arg(long, value_name = "TEXT", requires = "user")]
    #[arg(conflicts_with_all = ["positional_caption", "caption", "lyrics"])]
    #[arg(help_heading = "Song")]
    pub(crate) system: Option<String>,

    /// Input for that instruction.
    #[arg(long, value_name = "TEXT", requires = "system", help_heading = "Song")]
    #[arg(conflicts_with_all = ["positional_caption", "caption", "lyrics"])]
    pub(crate) user: Option<String>,

    /// Write no audio codes, only metadata and text.
    #[arg(long, help_heading = "Song")]
    pub(crate) no_codes: bool,

    #[command(flatten)]
    pub(crate) decisions: Decisions,

    #[command(flatten)]
    pub(crate) common: Common,
}

/// Flags of `inspire` and `format`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Text {
    #[command(flatten)]
    pub(crate) words: Words,

    /// Also write audio codes.
    #[arg(long, help_heading = "Song")]
    pub(crate) codes: bool,

    #[command(flatten)]
    pub(crate) common: Common,
}

/// Flags that the three commands share.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Common {
    /// Seed of the plan [default: random].
    ///
    /// The same seed makes the same plan again. The outlines of a batch count up from it, or a list
    /// gives each its own: 7,9,11.
    #[arg(long, value_name = "SEED", value_delimiter = ',', value_parser = seed)]
    #[arg(help_heading = "Sampling")]
    pub(crate) seed: Option<Vec<u64>>,

    /// Number of outlines, 1 to 8 [default: 1].
    #[arg(long, value_name = "N", help_heading = "Sampling")]
    pub(crate) batch_size: Option<i64>,

    #[command(flatten)]
    pub(crate) drawing: Drawing,

    #[command(flatten)]
    pub(crate) outline: Outline,

    /// Model for the later song [default: turbo].
    ///
    /// The request keeps its name. demo and tiny are built in and have language models of their
    /// own. The language model of demo only knows songs without words; tiny is a set of random
    /// networks that test the pipeline.
    #[arg(long, value_name = "NAME|PATH", help_heading = "Model and device")]
    pub(crate) model: Option<String>,

    #[command(flatten)]
    pub(crate) place: Where,

    /// Request to write, for `acestep generate --request`; - is standard output
    /// [default: plan.json, inspire.json or format.json].
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    pub(crate) output: Option<PathBuf>,

    /// Write the audio codes to a file, as 17,4,...
    ///
    /// The codes of several songs go to files that end in _1, _2.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) output_codes: Option<PathBuf>,

    /// Write caption, lyrics, bpm, duration, keyscale, timesignature and language to a folder.
    ///
    /// One file each, with that name; it has only the value and no line end.
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub(crate) output_dir: Option<PathBuf>,

    /// Write the model's answer word for word, even if it cannot be used.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) output_text: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) files: Files,
}

/// Flags of `understand`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Understand {
    /// Song: WAV, FLAC, MP3, Ogg Vorbis or M4A.
    #[arg(value_name = "SONG", required_unless_present = "audio_codes")]
    pub(crate) song: Option<PathBuf>,

    /// Audio codes in place of a song's sound; @FILE reads them from a file.
    #[arg(long, value_name = "CODES|@FILE", conflicts_with = "song", help_heading = "Song")]
    pub(crate) audio_codes: Option<String>,

    /// Seed; the same seed gives the same answer [default: random].
    #[arg(long, value_name = "SEED", value_parser = seed, help_heading = "Sampling")]
    pub(crate) seed: Option<u64>,

    #[command(flatten)]
    pub(crate) drawing: Drawing,

    /// Model whose networks encode sound to codes: turbo, demo, .. or a path [default: turbo].
    #[arg(long, value_name = "NAME|PATH", help_heading = "Model and device")]
    pub(crate) model: Option<String>,

    #[command(flatten)]
    pub(crate) place: Where,

    /// Also write a request that makes a song like it, with its codes.
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    pub(crate) output: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) files: Files,
}
