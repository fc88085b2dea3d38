//! Flags of `doctor` and `warmup`.

use super::device::Where;

pub(crate) const EXAMPLES: &str = "\
Examples:
  acestep doctor
      shows what is built in and what this machine has; makes one second of a song on each device
  acestep doctor --device cuda:0 --json
      tests one device, with output for a program";

pub(crate) const WARMUP_EXAMPLES: &str = "\
Examples:
  acestep warmup --model turbo --duration 60
      compiles and tunes the kernels for a one-minute song; later songs start at once
  acestep warmup --device wgpu
      does so for the built-in model, which has fewer and smaller kernels";

/// Flags of `doctor`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Doctor {
    #[command(flatten)]
    pub(crate) place: Where,

    /// Make no song.
    #[arg(long)]
    pub(crate) no_song: bool,

    /// Print one JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Flags of `warmup`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Warmup {
    /// Model whose kernels are wanted [default: turbo if installed, else a built-in one].
    #[arg(long, value_name = "NAME|PATH", help_heading = "Model and device")]
    pub(crate) model: Option<String>,

    /// Language model [default: the first that is installed].
    #[arg(long, value_name = "NAME|PATH", help_heading = "Model and device")]
    pub(crate) lm_model: Option<String>,

    #[command(flatten)]
    pub(crate) place: Where,

    /// Length of the song in seconds; kernels are tuned for sizes.
    #[arg(long, value_name = "SECONDS", default_value = "10")]
    pub(crate) duration: f64,
}
