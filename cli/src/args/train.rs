//! The flags of `train`.

use std::path::PathBuf;

use acestep_train::lora::TARGETS;
use clap::{Subcommand, ValueHint, builder::PossibleValuesParser};

use super::plan::Place;

/// Shown under the long help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  acestep train lora songs/ --model turbo
      learn from the songs of a folder; the adapter is written to songs-lora/
  acestep train lora songs/ --custom-tag \"my band\" --epochs 300
      the same for longer; captions with \"my band\" call it
  acestep generate \"my band, slow\" --adapter songs-lora
      and use it

Beside `song.flac` may lie `song.caption.txt`, `song.lyrics.txt` and `song.json` with caption, lyrics,
bpm, keyscale, timesignature and language. Every song needs a caption, or all of them --caption.";

/// Flags of `train`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Train {
    #[command(subcommand)]
    pub(crate) what: What,
}

/// What learns.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum What {
    /// Learn an adapter from a folder of songs.
    ///
    /// Only what is added to the model learns, the model stays as it is. Losses and the state lie in
    /// `training/` beside the adapter: a run that was stopped goes on when it is started again.
    Lora(Box<Lora>),
}

/// Flags of `train lora`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Lora {
    /// The folder of songs, with what is said of them beside.
    #[arg(value_name = "SONGS", value_hint = ValueHint::DirPath)]
    pub(crate) songs: PathBuf,

    /// The folder of the adapter [default: the songs' name and `-lora`, beside them].
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = "Output")]
    pub(crate) output: Option<PathBuf>,

    /// Replaces an adapter that exists; what was learned for it is begun anew.
    #[arg(long, help_heading = "Output")]
    pub(crate) force: bool,

    /// One JSON object on standard output, in place of the path.
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,

    /// What songs are like that have no caption of their own.
    #[arg(long, value_name = "TEXT")]
    pub(crate) caption: Option<String>,

    /// Words put before every caption, which call the adapter later.
    #[arg(long, value_name = "TEXT", alias = "custom_tag")]
    pub(crate) custom_tag: Option<String>,

    /// Seconds of a song that are learned from, its first: 1 to 600.
    #[arg(long, value_name = "SECONDS", default_value_t = 240.0, alias = "max_duration")]
    pub(crate) max_duration: f64,

    /// Width of what is learned, 1 to 1024.
    ///
    /// More takes more, and more of the songs.
    #[arg(long, value_name = "N", default_value_t = 8, help_heading = "Learning")]
    pub(crate) rank: u16,

    /// What is learned counts so much, divided by the rank [default: twice the rank].
    #[arg(long, value_name = "X", help_heading = "Learning")]
    pub(crate) alpha: Option<f64>,

    /// The maps of each layer that are added to.
    ///
    /// Of q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj and down_proj.
    #[arg(
        long,
        hide_possible_values = true,
        value_name = "NAME,..",
        value_delimiter = ',',
        default_value = "q_proj,k_proj,v_proj,o_proj",
        value_parser = PossibleValuesParser::new(TARGETS),
        alias = "target_modules",
        help_heading = "Learning"
    )]
    pub(crate) target_modules: Vec<String>,

    /// How often a song is learned from, on average.
    #[arg(long, value_name = "N", default_value_t = 100, help_heading = "Learning")]
    pub(crate) epochs: u32,

    /// Songs of a step, one after the other.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        alias = "batch_size",
        help_heading = "Learning"
    )]
    pub(crate) batch_size: u16,

    /// How far a step goes.
    #[arg(
        long,
        value_name = "X",
        default_value_t = 1e-4,
        alias = "learning_rate",
        help_heading = "Learning"
    )]
    pub(crate) learning_rate: f64,

    /// Steps until it goes so far.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 100,
        alias = "warmup_steps",
        hide_short_help = true,
        help_heading = "Learning"
    )]
    pub(crate) warmup_steps: u32,

    /// Learns the same again.
    #[arg(
        long,
        value_name = "SEED",
        default_value_t = 42,
        value_parser = super::generate::fixed_seed,
        help_heading = "Learning"
    )]
    pub(crate) seed: u64,

    /// The model: turbo, base, demo, .. or a directory [default: turbo].
    #[arg(long, value_name = "NAME|DIR", help_heading = "Model and device")]
    pub(crate) model: Option<String>,

    #[command(flatten)]
    pub(crate) place: Place,
}
