//! The flags of `doctor` and `warmup`: whether it works here, and making it quick.

use super::device::Where;

/// Shown under the long help of `doctor`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  acestep doctor
      what is built in, what this machine has, and a second of a song on each device
  acestep doctor --device cuda:0 --json
      one device, for a program to read";

/// Shown under the long help of `warmup`.
pub(crate) const WARMUP_EXAMPLES: &str = "\
Examples:
  acestep warmup --model turbo --duration 60
      compiles and tunes what a song of a minute needs; later songs start at once
  acestep warmup --device wgpu
      the same with the built-in model, which has fewer and smaller kernels";

/// Flags of `doctor`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Doctor {
    #[command(flatten)]
    pub(crate) place: Where,

    /// Makes no song.
    #[arg(long, alias = "no_song")]
    pub(crate) no_song: bool,

    /// One JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Flags of `warmup`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Warmup {
    /// The model whose kernels are wanted [default: turbo if it is here, else one built in].
    #[arg(long, value_name = "NAME|PATH", help_heading = "Model and device")]
    pub(crate) model: Option<String>,

    /// The language model [default: the first that is here].
    #[arg(long, value_name = "NAME|PATH", alias = "lm_model", help_heading = "Model and device")]
    pub(crate) lm_model: Option<String>,

    #[command(flatten)]
    pub(crate) place: Where,

    /// Length of the song in seconds: kernels are tuned for sizes.
    #[arg(long, value_name = "SECONDS", default_value = "10")]
    pub(crate) duration: f64,
}
