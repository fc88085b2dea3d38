//! Files of the cache: lengths, links, and errors with a path.

use std::{
    fs::{self, TryLockError},
    io,
    path::Path,
};

use super::HubError;

/// Returns the length of the file at `path`; `None` if it is not a file.
pub(super) fn length(path: &Path) -> Option<u64> {
    fs::metadata(path).ok().filter(fs::Metadata::is_file).map(|file| file.len())
}

/// Links `link` to `blob` by a relative path, which stays valid if the cache is moved. Without
/// symbolic links: a hard link, or a copy.
pub(super) fn name(link: &Path, blob: &Path) -> io::Result<()> {
    // A dangling link would be worse than none.
    fs::metadata(blob)?;
    let leads = |path: &Path| path.canonicalize().ok();
    if leads(link).is_some_and(|target| Some(target) == leads(blob)) {
        return Ok(());
    }
    let Some(directory) = link.parent() else { return Ok(()) };
    fs::create_dir_all(directory)?;
    // The link leads to another file, or to nothing.
    if link.symlink_metadata().is_ok() {
        fs::remove_file(link)?;
    }
    let second = || fs::hard_link(blob, link).or_else(|_| fs::copy(blob, link).map(drop));
    #[cfg(unix)]
    {
        // Both are inside the repository's directory.
        let above = directory.ancestors().take_while(|above| !blob.starts_with(above)).count();
        let mut target = std::path::PathBuf::from_iter(std::iter::repeat_n("..", above));
        target.extend(blob.components().skip(directory.components().count() - above));
        std::os::unix::fs::symlink(target, link).or_else(|_| second())
    }
    #[cfg(not(unix))]
    second()
}

/// Adds the path to an error of the disk.
pub(super) fn on<T>(path: &Path, result: io::Result<T>) -> Result<T, HubError> {
    result.map_err(|source| HubError::Disk { path: path.to_owned(), source })
}

/// True if another run holds the lock. Some file systems, mostly of networks, have no locks and
/// report this with different errors. There, a second run is not expected; the checksum would find
/// its damage.
pub(super) fn is_of_another(locked: Result<(), TryLockError>) -> bool {
    match locked {
        Ok(()) | Err(TryLockError::Error(_)) => false,
        Err(TryLockError::WouldBlock) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_without_locks_is_used_as_if_nobody_else_did() -> io::Result<()> {
        use io::ErrorKind::{Interrupted, PermissionDenied, Unsupported};
        let kinds = [Unsupported, PermissionDenied, Interrupted].map(io::Error::from);
        // ENOSYS, ENOLCK and EOPNOTSUPP of Linux: no such call, no locks left, not supported.
        for error in kinds.into_iter().chain([38, 37, 95].map(io::Error::from_raw_os_error)) {
            let text = error.to_string();
            assert!(!is_of_another(Err(TryLockError::Error(error))), "{text}");
        }
        let file = tempfile::NamedTempFile::new()?;
        let [first, second] = [fs::File::open(file.path())?, fs::File::open(file.path())?];
        assert!(!is_of_another(first.try_lock()));
        assert!(is_of_another(second.try_lock()));
        Ok(())
    }
}
