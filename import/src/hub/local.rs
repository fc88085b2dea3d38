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
        let pins = Pins::read(self).unwrap_or_default();
        if let Some(pin) = pins.of(piece) {
            let path = self.snapshot(piece.repo, &pin.revision).join(piece.prefix);
            let is_gone = |name: &str, size| {
                fs::metadata(path.join(name)).map_or(true, |file| file.len() != size)
            };
            let gone = pin.files.iter().filter(|(name, file)| is_gone(name, file.size));
            let gone: Vec<_> = gone.map(|(name, _)| name.clone()).collect();
            let installed = Installed { path, revision: pin.revision.clone(), pinned: true };
            if gone.is_empty() {
                return State::Whole(installed);
            }
            if installed.path.is_dir() {
                return State::Broken(installed, gone);
            }
        }
        self.of_others(piece).map_or(State::Absent, State::Whole)
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
        let pins = Pins::read(self)?;
        let (State::Whole(installed) | State::Broken(installed, _)) = self.state(piece) else {
            return Ok(vec![]);
        };
        let pin = pins.of(piece).filter(|_| installed.pinned);
        let files = match pin {
            Some(pin) => of_pin(pin, &installed.path),
            None => of_links(&installed.path)?,
        };
        files.into_iter().map(|(path, checksum)| one(path, checksum, read)).collect()
    }

    /// Takes `piece` away, at every commit, all files that no other name leads to, and what was begun
    /// and is not being fetched. What cannot be looked at is an error before anything is gone.
    ///
    /// # Errors
    /// [`HubError::Disk`]; [`HubError::BadPins`].
    pub fn remove(&self, piece: &Piece) -> Result<Removed, HubError> {
        let pins = Pins::read(self)?;
        let repository = self.repository(piece.repo);
        let (snapshots, blobs) = (repository.join("snapshots"), repository.join("blobs"));
        let mut removed = Removed::default();
        let (mut own, mut used) = (Vec::new(), HashSet::new());
        for snapshot in entries(&snapshots)? {
            let directory = snapshot.join(piece.prefix);
            for link in links(&snapshot)? {
                if link.starts_with(&directory) {
                    own.push(link);
                } else if link.exists() {
                    used.insert(on(&link, link.canonicalize())?);
                }
            }
        }
        let blobs = entries(&blobs)?;
        for link in &own {
            // A file that is no link is all that there is of it.
            let is_file = link.symlink_metadata().is_ok_and(|of| of.is_file());
            removed.bytes += if is_file { length(link) } else { 0 };
            on(link, fs::remove_file(link))?;
        }
        removed.files = own.len();
        for snapshot in entries(&snapshots)? {
            remove_empty(&snapshot.join(piece.prefix));
            remove_empty(&snapshot);
        }
        for blob in blobs {
            let is_used = blob.canonicalize().is_ok_and(|blob| used.contains(&blob));
            if !is_used && !is_busy(&blob) {
                removed.bytes += length(&blob);
                on(&blob, fs::remove_file(&blob))?;
            }
        }
        if repository.is_dir() && entries(&snapshots)?.is_empty() {
            on(&repository, fs::remove_dir_all(&repository))?;
        }
        if pins.of(piece).is_some() {
            Pins::change(self, |pins| drop(pins.take(piece)))?;
        }
        Ok(removed)
    }

    /// Bytes of files of `repo` that were begun and are not whole.
    pub fn begun(&self, repo: &str) -> u64 {
        let blobs = entries(&self.repository(repo).join("blobs")).unwrap_or_default();
        let is_part = |path: &&PathBuf| path.extension().is_some_and(|ending| ending == "part");
        blobs.iter().filter(is_part).map(|path| length(path)).sum()
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
            let files = entries(directory)?.into_iter().filter(|path| path.is_file());
            return files.map(|path| one(path, None, read)).collect();
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
    for path in links(directory)? {
        // A link that leads nowhere says what it should lead to as well.
        let target = fs::read_link(&path).unwrap_or_else(|_| path.clone());
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

/// What lies in `directory`, in alphabetical order; nothing, if it is not there.
pub(super) fn entries(directory: &Path) -> Result<Vec<PathBuf>, HubError> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
        Err(source) => return Err(HubError::Disk { path: directory.to_owned(), source }),
    };
    let paths = entries.map(|entry| Ok(on(directory, entry)?.path()));
    let mut paths = paths.collect::<Result<Vec<_>, _>>()?;
    paths.sort();
    Ok(paths)
}

/// Every name of a file below `directory`.
fn links(directory: &Path) -> Result<Vec<PathBuf>, HubError> {
    let mut files = Vec::new();
    for path in entries(directory)? {
        // A link to a directory is a name as any other, and not followed.
        match on(&path, path.symlink_metadata())?.is_dir() {
            true => files.extend(links(&path)?),
            false => files.push(path),
        }
    }
    Ok(files)
}

/// Takes a directory away if there is nothing in it.
fn remove_empty(directory: &Path) {
    drop(fs::remove_dir(directory));
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |file| file.len())
}

/// Whether a run is writing the file.
fn is_busy(path: &Path) -> bool {
    let open = fs::File::open(path);
    open.is_ok_and(|file| matches!(file.try_lock(), Err(fs::TryLockError::WouldBlock)))
}
