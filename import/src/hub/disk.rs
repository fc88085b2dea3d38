//! Files of the cache: their lengths, their second names, errors with their place.

use std::{
    fs::{self, TryLockError},
    io,
    path::Path,
};

use super::HubError;

/// The length of a file, if it is one.
pub(super) fn length(path: &Path) -> Option<u64> {
    fs::metadata(path).ok().filter(fs::Metadata::is_file).map(|file| file.len())
}

/// Gives `blob` the name `link`, by a path that holds wherever the cache is; where there are no links,
/// by a second name of the file, or a copy.
pub(super) fn name(link: &Path, blob: &Path) -> io::Result<()> {
    // A name that leads nowhere would be worse than none.
    fs::metadata(blob)?;
    let leads = |path: &Path| path.canonicalize().ok();
    if leads(link).is_some_and(|target| Some(target) == leads(blob)) {
        return Ok(());
    }
    let Some(directory) = link.parent() else { return Ok(()) };
    fs::create_dir_all(directory)?;
    // Another file, or nothing any more.
    if link.symlink_metadata().is_ok() {
        fs::remove_file(link)?;
    }
    let second = || fs::hard_link(blob, link).or_else(|_| fs::copy(blob, link).map(drop));
    #[cfg(unix)]
    {
        // Both lie below the repository's directory.
        let above = directory.ancestors().take_while(|above| !blob.starts_with(above)).count();
        let mut target = std::path::PathBuf::from_iter(std::iter::repeat_n("..", above));
        target.extend(blob.components().skip(directory.components().count() - above));
        std::os::unix::fs::symlink(target, link).or_else(|_| second())
    }
    #[cfg(not(unix))]
    second()
}

/// An error of the disk with its place.
pub(super) fn on<T>(path: &Path, result: io::Result<T>) -> Result<T, HubError> {
    result.map_err(|source| HubError::Disk { path: path.to_owned(), source })
}

/// True if another run has the file that was to be locked. Some file systems, those of networks above all,
/// know no locks and say so in one of several ways: there nobody else is expected, and two at once are damage
/// that the checksum finds.
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
        for kind in [
            io::ErrorKind::Unsupported,
            io::ErrorKind::PermissionDenied,
            io::ErrorKind::Interrupted,
        ] {
            assert!(!is_of_another(Err(TryLockError::Error(kind.into()))), "{kind}");
        }
        // ENOSYS, ENOLCK and EOPNOTSUPP of Linux: no such call, no locks left, not here.
        for number in [38, 37, 95] {
            let error = io::Error::from_raw_os_error(number);
            assert!(!is_of_another(Err(TryLockError::Error(error))), "{number}");
        }
        let file = tempfile::NamedTempFile::new()?;
        let [first, second] = [fs::File::open(file.path())?, fs::File::open(file.path())?];
        assert!(!is_of_another(first.try_lock()));
        assert!(is_of_another(second.try_lock()));
        Ok(())
    }
}
