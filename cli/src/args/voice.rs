//! Flags of `voice`: voices of recordings, kept for `speak`.

use std::path::PathBuf;

use clap::{Subcommand, ValueHint};

use super::{device::Where, files::Files};

/// Shown under the long help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  acestep voice make me --reference me.wav --transcript \"These are my words.\"
      keeps the voice of a recording, with its words also its manner
  acestep speak \"Good morning.\" --voice me
      speaks with it, and with the model that made it; the recording is not needed any more
  acestep voice list
      shows the kept voices
  acestep voice show me
      shows its model, its words and its file
  acestep voice remove me
      deletes one

A voice is one file in acestep/voices of the user's data directory, on Linux ~/.local/share. It holds
the voice's vector, the codes of the recording, and the state of the model after the rows of its prompt
that do not depend on the text. Other models of the same size can use it too, but read the prompt anew.";

/// Flags of `voice`.
#[derive(Debug, Clone, clap::Args)]
#[command(arg_required_else_help = true, subcommand_required = true)]
#[command(disable_help_subcommand = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Actions on voices.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Command {
    /// Keep the voice of a recording under a name.
    Make(Make),
    /// List the kept voices.
    List(List),
    /// Show one voice: its model, its words, its length.
    Show(Show),
    /// Delete voices.
    Remove(Remove),
}

/// Flags of `voice make`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Make {
    /// Name: letters, digits, - and _.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// Recording of the voice: 3 to 15 seconds of clear speech.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) reference: PathBuf,

    /// Words of the recording; with them the manner of speaking is kept too. @FILE reads a file.
    #[arg(long, value_name = "TEXT")]
    pub(crate) transcript: Option<String>,

    /// Language that will be spoken; another one later reads the prompt anew [default: auto].
    #[arg(long, value_name = "NAME")]
    pub(crate) language: Option<String>,

    /// Base model that makes it: a name of `acestep model list` or a directory [default: the first
    /// installed base model].
    #[arg(long, value_name = "NAME|DIR|FILE", help_heading = "Model and device")]
    pub(crate) model: Option<String>,

    #[command(flatten)]
    pub(crate) place: Where,

    #[command(flatten)]
    pub(crate) files: Files,
}

/// Flags of `voice list`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct List {
    /// Print one JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Flags of `voice show`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Show {
    /// Name, as `acestep voice list` shows it.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// Print one JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Flags of `voice remove`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Remove {
    /// Names, as `acestep voice list` shows them.
    #[arg(value_name = "NAME", required = true)]
    pub(crate) names: Vec<String>,
}
