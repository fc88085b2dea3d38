//! The state and the content of a file, to know whether it is still the same.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use acestep_engine::Error;
use sha2::{Digest, Sha256};

use crate::texts::unread;

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
        let found = fs::metadata(path).map_err(unread(path))?;
        let modified = found.modified().ok();
        Ok(Self { path: path.to_owned(), bytes: found.len(), modified })
    }

    /// Looks again. True if the file is as it was.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub(super) fn is_unchanged(&self) -> Result<bool, Error> {
        Ok(Self::of(&self.path)? == *self)
    }

    /// Returns the SHA-256 of its bytes.
    ///
    /// # Errors
    /// [`Error::File`] if it cannot be read.
    pub(super) fn sum(&self) -> Result<[u8; 32], Error> {
        let mut sum = Sha256::new();
        let copied = fs::File::open(&self.path).and_then(|mut file| io::copy(&mut file, &mut sum));
        copied.map_err(unread(&self.path))?;
        Ok(sum.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_written_again_is_another_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        fs::write(&path, "one").expect("written");
        let seen = Seen::of(&path).expect("a file");
        assert_eq!(seen.bytes, 3);
        assert!(seen.is_unchanged().expect("a file"));
        fs::write(&path, "four").expect("written");
        assert!(!seen.is_unchanged().expect("a file"));
        fs::remove_file(&path).expect("removed");
        assert!(seen.is_unchanged().is_err());
    }
}
