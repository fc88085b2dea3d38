//! Files of the cache: their lengths, their second names, errors with their place.

use std::{fs, io, path::Path};

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
