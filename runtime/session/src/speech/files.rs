//! The state of a file, to know whether it is still the same.

use std::{
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

/// A file as it was seen; one that was written again is another one.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Seen {
    path: PathBuf,
    /// Its size.
    pub(super) bytes: u64,
    modified: Option<SystemTime>,
}

impl Seen {
    /// Looks at a file; none if it is not there.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let found = fs::metadata(path).ok()?;
        let (path, bytes) = (path.to_owned(), found.len());
        Some(Self { path, bytes, modified: found.modified().ok() })
    }
}
