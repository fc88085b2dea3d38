//! Outputs of commands: files that are checked before any work, or standard output.

use std::{
    collections::HashSet,
    fmt,
    path::{Path, PathBuf},
};

use acestep_engine::files::Existing;
use acestep_session::outputs::place;
use anyhow::Result;
use serde::{Serialize, Serializer};

use super::text::write_bytes;
use crate::{error::CliError, report};

/// True if `path` means standard output.
pub(crate) fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// Output of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    File(PathBuf),
    Stdout,
}

impl Target {
    /// Returns the output of `path`, where `-` is standard output, which cannot carry JSON too.
    pub(crate) fn new(path: PathBuf, json: bool) -> Result<Self, CliError> {
        if !is_stdout(&path) {
            return Ok(Self::File(path));
        }
        if json {
            return Err(CliError::usage("`--output -` and `--json` both want standard output")
                .hint("name a file with --output"));
        }
        Ok(Self::Stdout)
    }

    /// Returns the path of a file.
    pub(crate) fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Stdout => None,
        }
    }

    /// Writes all of the output; a file appears complete or not at all.
    pub(crate) fn write(&self, bytes: &[u8], existing: Existing) -> Result<()> {
        match self {
            Self::File(path) => write_bytes(path, bytes, existing)?,
            Self::Stdout => report::bytes(bytes)?,
        }
        Ok(())
    }
}

/// The path, or `-`.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.file().unwrap_or(Path::new("-")).display().fmt(f)
    }
}

impl Serialize for Target {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// Refuses two `paths` of one file.
pub(crate) fn check_distinct<'a>(
    paths: impl Iterator<Item = &'a Path>,
    hint: &str,
) -> Result<(), CliError> {
    let mut seen = HashSet::new();
    let mut twice = paths.filter(|path| !seen.insert(place(path)));
    twice.next().map_or(Ok(()), |path| {
        let message = format!("`{}` would be written twice", path.display());
        Err(CliError::usage(message).hint(hint))
    })
}
