//! Flags of `config`, `completions` and `man`.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};
use clap_complete::Shell;

pub(crate) const EXAMPLES: &str = "\
Examples:
  acestep config show
      shows every setting, its value, and its source
  acestep config init
      writes a file that explains every key, for you to change
  acestep config path
      shows the path of that file, even if it does not exist
  ACESTEP_DEVICE=cpu acestep generate \"jazz trio\"
      every key is also a variable

A flag has priority over a variable, a variable over the file, and the file over the built-in
default. The keys below [request] in the file have the names of a request file. They are the
defaults of every song that is made without --request.";

pub(crate) const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  acestep completions bash > ~/.local/share/bash-completion/completions/acestep
  acestep completions zsh > ~/.zfunc/_acestep
  acestep completions fish > ~/.config/fish/completions/acestep.fish";

pub(crate) const MAN_EXAMPLES: &str = "\
Examples:
  acestep man | man -l -
      shows the manual of the program
  acestep man generate | man -l -
      shows the manual of one command
  acestep man --output ~/.local/share/man/man1
      writes a page for each command";

/// Actions on settings.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Command {
    /// Show the settings and their sources.
    Show {
        /// Print one JSON object on standard output.
        #[arg(long)]
        json: bool,
    },
    /// Show the path of the file.
    Path,
    /// Write a file with every key, for you to change.
    Init {
        /// Replace an existing file.
        #[arg(long)]
        force: bool,
    },
}

/// Flags of `completions`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Completions {
    /// Shell.
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
}

/// Flags of `man`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Man {
    /// Command, with its subcommand if it has one [default: the whole program].
    #[arg(value_name = "COMMAND", conflicts_with = "output")]
    pub(crate) command: Vec<String>,

    /// Write a page for each command to this directory.
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,

    /// Format of the pages.
    #[arg(long, value_name = "FORMAT", default_value = "roff")]
    pub(crate) format: ManFormat,
}

/// Format of manual pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ManFormat {
    /// For man.
    Roff,
    /// For a book.
    Markdown,
}
