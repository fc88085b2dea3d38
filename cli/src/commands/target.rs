//! Outputs of commands: files that are checked before any work, or standard output.

use std::{
    collections::HashSet,
    fmt,
    path::{Path, PathBuf},
};

use acestep_engine::files::{Existing, check_target};
use anyhow::Result;
use serde::{Serialize, Serializer};

use super::{formats::is_stdout, text::write_bytes};
use crate::{error::CliError, report};

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

/// Refuses a file that cannot be written, or that is also an input.
pub(crate) fn check(path: &Path, inputs: &[&Path], existing: Existing) -> Result<()> {
    if inputs.iter().any(|input| is_same(input, path)) {
        let message = format!("`{}` would be written over itself", path.display());
        return Err(CliError::usage(message).hint("name another file with --output").into());
    }
    Ok(check_target(path, existing)?)
}

/// Refuses a picture name without the extension of a PNG; `flag` is the flag that gave it.
pub(crate) fn check_png(flag: &str, path: &Path) -> Result<(), CliError> {
    if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("png")) {
        return Ok(());
    }
    let message = format!("`--{flag} {}` is no name of a PNG file", path.display());
    let instead = path.with_extension("png");
    Err(CliError::usage(message).hint(format!("name it `{}`", instead.display())))
}

/// Refuses an output beside an input that has no folder, such as a pipe.
pub(crate) fn check_place(input: &Path) -> Result<(), CliError> {
    if input.metadata().is_ok_and(|of| !of.is_file() && !of.is_dir()) {
        let message = format!("`{}` is a pipe, and no file can lie beside it", input.display());
        return Err(CliError::usage(message).hint("name the file that is written with --output"));
    }
    Ok(())
}

/// Refuses the same path twice in `paths`.
pub(crate) fn check_distinct<'a>(
    paths: impl Iterator<Item = &'a Path>,
    hint: &str,
) -> Result<(), CliError> {
    let mut seen = HashSet::new();
    let mut twice = paths.filter(|path| !seen.insert(*path));
    twice.next().map_or(Ok(()), |path| {
        let message = format!("`{}` would be written twice", path.display());
        Err(CliError::usage(message).hint(hint))
    })
}

/// Returns `codes.txt` for one song, and `codes_1.txt`, `codes_2.txt` for several.
pub(crate) fn numbered(template: &Path, songs: usize) -> Vec<PathBuf> {
    if songs == 1 {
        return vec![template.to_owned()];
    }
    let number = |i: usize| {
        let mut name = template.file_stem().unwrap_or_default().to_owned();
        name.push(format!("_{i}"));
        if let Some(extension) = template.extension() {
            name.push(".");
            name.push(extension);
        }
        template.with_file_name(name)
    };
    (1..=songs).map(number).collect()
}

/// True if both names lead to the same file.
fn is_same(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}
