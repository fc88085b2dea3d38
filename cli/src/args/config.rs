//! Flags of `config`, `completions` and `man`.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};
use clap_complete::Shell;

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
