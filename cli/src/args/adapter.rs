//! Flags of `adapter`: the contents of a LoRA or similar adapter.

use clap::Subcommand;

pub(crate) const EXAMPLES: &str = "\
Examples:
  acestep adapter show voice.safetensors
      shows its kind, rank and alpha, and the layers that it changes
  acestep adapter show lora/final/adapter --model turbo
      checks whether it fits that model, and measures how much it changes it";

/// Actions on an adapter.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Command {
    /// Show an adapter's contents, and check if it fits a model.
    Show {
        /// A .safetensors file, a directory as PEFT writes it, or a name in `adapters/` of the models
        /// directory.
        #[arg(value_name = "PATH")]
        path: String,

        /// Model to compare with; its weights are read to measure the change.
        #[arg(long, value_name = "NAME|DIR", help_heading = "Model and device")]
        model: Option<String>,

        /// Print one JSON object on standard output.
        #[arg(long)]
        json: bool,
    },
}
