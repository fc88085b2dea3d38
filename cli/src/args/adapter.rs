//! Flags of `adapter`: the contents of a LoRA or similar adapter.

use clap::{Subcommand, ValueHint};

/// Shown under the long help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  acestep adapter show voice.safetensors
      shows its kind, rank and alpha, and the layers that it changes
  acestep adapter show lora/final/adapter --model turbo
      checks whether it fits that model, and measures how much it changes it";

/// Flags of `adapter`.
#[derive(Debug, Clone, clap::Args)]
#[command(arg_required_else_help = true, subcommand_required = true)]
#[command(disable_help_subcommand = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Actions on an adapter.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Command {
    /// Show an adapter's contents, and check if it fits a model.
    Show(Show),
}

/// Flags of `adapter show`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Show {
    /// A .safetensors file, a directory as PEFT writes it, or a name in `adapters/` of the models
    /// directory.
    #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub(crate) path: String,

    /// Model to compare with; its weights are read to measure the change.
    #[arg(long, value_name = "NAME|DIR", help_heading = "Model and device")]
    pub(crate) model: Option<String>,

    /// Print one JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}
