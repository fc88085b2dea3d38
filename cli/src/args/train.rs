//! Flags of `train`.

use std::path::PathBuf;

use acestep_train::lora::TARGETS;
use clap::{Subcommand, builder::PossibleValuesParser};

use super::{device::Where, values::fixed_seed};

/// Kinds of training.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum What {
    /// Train an adapter from a folder of songs.
    ///
    /// Only the added weights learn; the model stays as it is. Losses and the training state lie in
    /// `training/` beside the adapter. To continue a stopped run, start it again.
    Lora(Box<Lora>),
}

/// Flags of `train lora`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Lora {
    /// Folder of songs and texts, or a JSON of ACE-Step's dataset builder.
    #[arg(value_name = "SONGS")]
    pub(crate) songs: PathBuf,

    /// Folder of the adapter [default: the songs' name and `-lora`, beside them].
    #[arg(short, long, value_name = "DIR", help_heading = "Output")]
    pub(crate) output: Option<PathBuf>,

    /// Replace an existing adapter, and restart its training.
    #[arg(long, help_heading = "Output")]
    pub(crate) force: bool,

    /// Print one JSON object on standard output, in place of the path.
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,

    /// Caption for songs that have none of their own.
    #[arg(long, value_name = "TEXT")]
    pub(crate) caption: Option<String>,

    /// Trigger words, put before every caption.
    #[arg(long, value_name = "TEXT")]
    pub(crate) custom_tag: Option<String>,

    /// Seconds of each song to train on, from its start: 1 to 600.
    #[arg(long, value_name = "SECONDS", default_value_t = 240.0)]
    pub(crate) max_duration: f64,

    /// Rank of the adapter, 1 to 1024.
    ///
    /// A higher rank needs more memory and learns more of the songs.
    #[arg(long, value_name = "N", default_value_t = 8, help_heading = "Learning")]
    pub(crate) rank: u16,

    /// Scale of the adapter, 0.000001 or more, divided by the rank [default: twice the rank].
    #[arg(long, value_name = "X", help_heading = "Learning")]
    pub(crate) alpha: Option<f64>,

    /// Share of the adapter's inputs that a step ignores, 0 to 0.9.
    #[arg(long, value_name = "X", default_value_t = 0.1, help_heading = "Learning")]
    pub(crate) dropout: f64,

    /// Linear maps of each layer that get an adapter.
    ///
    /// Any of q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj and down_proj.
    #[arg(long, hide_possible_values = true, value_name = "NAME,..")]
    #[arg(value_delimiter = ',', default_value = "q_proj,k_proj,v_proj,o_proj")]
    #[arg(value_parser = PossibleValuesParser::new(TARGETS), help_heading = "Learning")]
    pub(crate) target_modules: Vec<String>,

    /// Average number of times that each song is used.
    #[arg(long, value_name = "N", default_value_t = 100, help_heading = "Learning")]
    pub(crate) epochs: u32,

    /// Songs per step, one after the other.
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Learning")]
    pub(crate) batch_size: u16,

    /// Learning rate.
    #[arg(long, value_name = "X", default_value_t = 1e-4, help_heading = "Learning")]
    pub(crate) learning_rate: f64,

    /// Steps until the full learning rate, at most a quarter of all.
    #[arg(long, value_name = "N", default_value_t = 100, hide_short_help = true)]
    #[arg(help_heading = "Learning")]
    pub(crate) warmup_steps: u32,

    /// Random seed; the same seed repeats the training.
    #[arg(long, value_name = "SEED", default_value_t = 42, value_parser = fixed_seed)]
    #[arg(help_heading = "Learning")]
    pub(crate) seed: u64,

    /// Model: turbo, base, demo, .. or a directory [default: turbo].
    #[arg(long, value_name = "NAME|DIR", help_heading = "Model and device")]
    pub(crate) model: Option<String>,

    #[command(flatten)]
    pub(crate) place: Where,
}
