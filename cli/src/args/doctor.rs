//! Flags of `doctor` and `warmup`.

use super::device::Where;

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
