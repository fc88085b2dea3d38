//! Files of a directory of the disk.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Returns the files of `place` with that extension, in alphabetical order.
pub(crate) fn files_in(place: &Path, ending: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(place) else { return Vec::new() };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut paths: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|own| own.eq_ignore_ascii_case(ending)))
        .filter(|path| path.is_file())
        .collect();
    paths.sort();
    paths
}
