//! The state of a file, to know whether it is still the same.

use std::{
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use acestep_engine::{Action, Error};

/// A file as it was seen; one that was written again is another one.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Seen {
    path: PathBuf,
    /// Its size.
    pub(super) bytes: u64,
    modified: Option<SystemTime>,
}

impl Seen {
    /// Looks at a file.
    ///
    /// # Errors
    /// [`Error::File`] if it cannot be looked at.
    pub(super) fn of(path: &Path) -> Result<Self, Error> {
        let path = path.to_owned();
        match fs::metadata(&path) {
            Ok(found) => Ok(Self { path, bytes: found.len(), modified: found.modified().ok() }),
            Err(source) => Err(Error::File { action: Action::Read, path, source }),
        }
    }
}
