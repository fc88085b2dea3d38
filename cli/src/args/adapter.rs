//! Flags of `adapter`: the contents of a LoRA or similar adapter.

use clap::Subcommand;

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
