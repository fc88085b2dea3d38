//! Flags of the commands that write files.

use acestep_engine::files::Existing;

/// Flags of every command that writes files and prints their paths.
#[derive(Debug, Clone, Copy, clap::Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct Files {
    /// Replace existing files.
    #[arg(long)]
    pub(crate) force: bool,

    /// Print one JSON object on standard output, in place of paths.
    #[arg(long)]
    pub(crate) json: bool,
}

impl Files {
    /// Returns the treatment of existing files.
    pub(crate) fn existing(self) -> Existing {
        existing(self.force)
    }
}

/// Returns the treatment of existing files; `force` replaces them.
pub(crate) fn existing(force: bool) -> Existing {
    if force { Existing::Replace } else { Existing::Keep }
}
