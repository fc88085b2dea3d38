//! Files of a directory of the disk, and the types in their names.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

/// Type suffixes of GGUF files, from most to least precise.
const TYPES: [&str; 18] = [
    "F32", "BF16", "F16", "Q8_0", "Q6_K", "Q5_K_M", "Q5_K_S", "Q5_1", "Q5_0", "Q4_K_M", "Q4_K_S",
    "Q4_1", "Q4_0", "Q3_K_L", "Q3_K_M", "Q3_K_S", "Q2_K", "Q4_K",
];

/// Returns the directory of the file at `path`: `.` for a bare name, whose `Path::parent` is empty.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|place| !place.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Opens the file at `path`. A pipe or a device in its place is refused, because opening or reading it
/// may never end.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    let found = fs::metadata(path)?;
    // The read of a directory has its own error.
    match found.is_file() || found.is_dir() {
        true => File::open(path),
        false => Err(io::Error::other("it is not a regular file")),
    }
}

/// Reads the text of the file at `path`, as [`open_regular`] opens it.
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    io::read_to_string(open_regular(path)?)
}

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

/// Adds the places of `more` that `places` does not have.
pub(crate) fn add_places(places: &mut Vec<PathBuf>, more: &[PathBuf]) {
    for place in more {
        if !places.contains(place) {
            places.push(place.clone());
        }
    }
}

/// Returns the place of `kind`, a type in a name, among all from the most precise on.
pub(crate) fn rank(kind: &str) -> Option<usize> {
    TYPES.iter().position(|known| known.eq_ignore_ascii_case(kind))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_device_in_the_place_of_a_file_is_not_read() {
        let error = read_text(Path::new("/dev/zero")).expect_err("endless");
        assert_eq!(error.to_string(), "it is not a regular file");
    }
}
