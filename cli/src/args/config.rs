//! The flags of `config`, `completions` and `man`.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum, ValueHint};
use clap_complete::Shell;

/// Shown under the long help of `config`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  acestep config show
      every setting, its value, and who says so
  acestep config init
      writes a file with every key, each with what it does, to be changed
  acestep config path
      where that file is, or would be
  ACESTEP_DEVICE=cpu acestep generate \"jazz trio\"
      every key is a variable too

A flag goes before a variable, a variable before the file, the file before what is built in. What
stands in the file below [request], in the names of a request file, is what every song begins with
that is made without --request.";

/// Shown under the long help of `completions`.
pub(crate) const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  acestep completions bash > ~/.local/share/bash-completion/completions/acestep
  acestep completions zsh > ~/.zfunc/_acestep
  acestep completions fish > ~/.config/fish/completions/acestep.fish";

/// Shown under the long help of `man`.
pub(crate) const MAN_EXAMPLES: &str = "\
Examples:
  acestep man | man -l -
      the manual of the program
  acestep man generate | man -l -
      that of one command
  acestep man --output ~/.local/share/man/man1
      a page for each command";

/// Flags of `config`.
#[derive(Debug, Clone, clap::Args)]
#[command(arg_required_else_help = true, subcommand_required = true)]
#[command(disable_help_subcommand = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do with settings.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Command {
    /// Say what holds, and who says so.
    Show(Show),
    /// Say where the file is.
    Path,
    /// Write a file with every key, to be changed.
    Init(Init),
}

/// Flags of `config show`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Show {
    /// One JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Flags of `config init`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Init {
    /// Replaces the file that is there.
    #[arg(long)]
    pub(crate) force: bool,
}

/// Flags of `completions`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Completions {
    /// The shell.
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
}

/// Flags of `man`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Man {
    /// The command, with the one below it if there is one [default: all of the program].
    #[arg(value_name = "COMMAND", conflicts_with = "output")]
    pub(crate) command: Vec<String>,

    /// Writes a page for each command into this directory.
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) output: Option<PathBuf>,

    /// What the pages are written in.
    #[arg(long, value_name = "FORMAT", default_value = "roff")]
    pub(crate) format: ManFormat,
}

/// What pages of the manual are written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ManFormat {
    /// For man.
    Roff,
    /// For a book.
    Markdown,
}

impl super::Command {
    /// Whether it looks for models.
    pub(crate) fn uses_models(&self) -> bool {
        let others = matches!(
            self,
            Self::Completions(_) | Self::Man(_) | Self::Config(_) | Self::Plot(_) | Self::Play(_)
        );
        !others
    }

    /// Whether it is run as the configuration says: not what has to work where that is broken.
    pub(crate) fn is_configured(&self) -> bool {
        match self {
            Self::Completions(_) | Self::Man(_) => false,
            Self::Config(args) => matches!(args.command, Command::Show(_)),
            _ => true,
        }
    }
}
