//! What is here: whole or not, verified, taken away.

use std::{
    collections::HashSet,
    fs, io,
    path::{Path, PathBuf},
};

use super::{Checksum, Hub, HubError, Piece, Pin, Pins, Published, pull::on};

/// A directory of a model in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    /// The directory.
    pub path: PathBuf,
    /// Its commit.
    pub revision: String,
    /// Whether this program pulled it, and not another one.
    pub pinned: bool,
}

/// Whether a directory is here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// It is not.
    Absent,
    /// It was pulled, and is not whole any more: these files are gone or of another length.
    Broken(Installed, Vec<String>),
    /// It is.
    Whole(Installed),
}

/// What became of one file when it was compared with its checksum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// The file.
    pub path: PathBuf,
    /// Bytes.
    pub size: u64,
    /// `None` where no checksum is known.
    pub checksum: Option<Checksum>,
    /// Whether it is what was published.
    pub is_whole: bool,
}

/// What was taken away.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removed {
    /// Names of files.
    pub files: usize,
    /// Bytes that are free again.
    pub bytes: u64,
}

impl Hub {
    /// Whether `piece` is here.
    pub fn state(&self, piece: &Piece) -> State {
        let Some(installed) = self.find(piece) else { return State::Absent };
        let pins = Pins::read(&self.models_dir).unwrap_or_default();
        let Some(pin) = pins.of(piece).filter(|_| installed.pinned) else {
            return State::Whole(installed);
        };
        let is_gone = |name: &str, size| {
            fs::metadata(installed.path.join(name)).map_or(true, |file| file.len() != size)
        };
        let gone = pin.files.iter().filter(|(name, file)| is_gone(name, file.size));
        let gone: Vec<_> = gone.map(|(name, _)| name.clone()).collect();
        if gone.is_empty() { State::Whole(installed) } else { State::Broken(installed, gone) }
    }

    /// Compares every file of `piece` with the checksum that it was published with; `read` is told
    /// of bytes.
    ///
    /// # Errors
    /// [`HubError::Disk`] for what cannot be read; [`HubError::BadPins`].
    pub fn verify(
        &self,
        piece: &Piece,
        read: &mut dyn FnMut(u64) -> io::Result<()>,
    ) -> Result<Vec<Verified>, HubError> {
        let pins = Pins::read(&self.models_dir)?;
        let Some(installed) = self.find(piece) else { return Ok(vec![]) };
        let pin = pins.of(piece).filter(|_| installed.pinned);
        let files = match pin {
            Some(pin) => of_pin(pin, &installed.path),
            None => of_links(&installed.path)?,
        };
        files.into_iter().map(|(path, checksum)| one(path, checksum, read)).collect()
    }

    /// Takes `piece` away, at every commit, and all files that no other name leads to.
    ///
    /// # Errors
    /// [`HubError::Disk`]; [`HubError::BadPins`].
    pub fn remove(&self, piece: &Piece) -> Result<Removed, HubError> {
        let mut pins = Pins::read(&self.models_dir)?;
        let repository = self.repository(piece.repo);
        let mut removed = Removed::default();
        for snapshot in directories(&repository.join("snapshots")) {
            let directory = snapshot.join(piece.prefix);
            removed.files += links(&directory).len();
            if directory.is_dir() {
                on(&directory, fs::remove_dir_all(&directory))?;
            }
            // Empty, if that was all of it.
            drop(fs::remove_dir(&snapshot));
        }
        let used: HashSet<_> = links(&repository.join("snapshots"))
            .into_iter()
            .filter_map(|link| link.canonicalize().ok())
            .collect();
        let nothing_left = directories(&repository.join("snapshots")).is_empty();
        for blob in files(&repository.join("blobs")) {
            let is_used = blob.canonicalize().is_ok_and(|blob| used.contains(&blob));
            // A part may be of what is fetched right now for another directory.
            let is_blob = blob.extension().is_none();
            if !is_used && (is_blob || nothing_left) {
                removed.bytes += fs::metadata(&blob).map_or(0, |file| file.len());
                on(&blob, fs::remove_file(&blob))?;
            }
        }
        if nothing_left && repository.is_dir() {
            on(&repository, fs::remove_dir_all(&repository))?;
        }
        if pins.take(piece).is_some() {
            pins.write(&self.models_dir)?;
        }
        Ok(removed)
    }
}

impl Published {
    /// Compares every file of `directory` that was published; `read` is told of bytes.
    ///
    /// # Errors
    /// [`HubError::Disk`] for what cannot be read.
    pub fn verify(
        &self,
        directory: &Path,
        read: &mut dyn FnMut(u64) -> io::Result<()>,
    ) -> Result<Vec<Verified>, HubError> {
        if self.0.is_empty() {
            return files(directory).into_iter().map(|path| one(path, None, read)).collect();
        }
        let file = |(name, checksum): &(String, Checksum)| {
            one(directory.join(name), Some(checksum.clone()), read)
        };
        self.0.iter().map(file).collect()
    }
}

/// Every file that was pulled, with its checksum.
fn of_pin(pin: &Pin, directory: &Path) -> Vec<(PathBuf, Option<Checksum>)> {
    let file = |(name, file): (&String, &super::pins::PinnedFile)| {
        (directory.join(name), Some(file.checksum.clone()))
    };
    pin.files.iter().map(file).collect()
}

/// Every file of a directory that another program fetched: a link says by its target what it should
/// be.
fn of_links(directory: &Path) -> Result<Vec<(PathBuf, Option<Checksum>)>, HubError> {
    let mut files = Vec::new();
    for path in links(directory) {
        let target = on(&path, path.canonicalize())?;
        let name = target.file_name().and_then(|name| name.to_str());
        let checksum = name.and_then(Checksum::from_name);
        files.push((path, checksum));
    }
    Ok(files)
}

fn one(
    path: PathBuf,
    checksum: Option<Checksum>,
    read: &mut dyn FnMut(u64) -> io::Result<()>,
) -> Result<Verified, HubError> {
    let size = fs::metadata(&path).map_or(0, |file| file.len());
    let is_whole = match &checksum {
        None => path.is_file(),
        Some(_) if !path.is_file() => false,
        Some(checksum) => on(&path, checksum.matches(&path, read))?,
    };
    Ok(Verified { path, size, checksum, is_whole })
}

/// What lies in `directory`, in alphabetical order.
fn entries(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return vec![] };
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths
}

fn directories(place: &Path) -> Vec<PathBuf> {
    entries(place).into_iter().filter(|path| path.is_dir()).collect()
}

fn files(place: &Path) -> Vec<PathBuf> {
    entries(place).into_iter().filter(|path| path.is_file()).collect()
}

/// Every name of a file below `directory`.
fn links(directory: &Path) -> Vec<PathBuf> {
    let (below, here): (Vec<_>, Vec<_>) =
        entries(directory).into_iter().partition(|path| path.is_dir());
    below.iter().flat_map(|directory| links(directory)).chain(here).collect()
}
