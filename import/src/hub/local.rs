//! Installed files: state, verification.

use std::{
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
};

use serde::de::IgnoredAny;

use super::{
    Checksum, Hub, HubError, Pin, Pins, Published,
    disk::{is_of_another, length, on},
};
use crate::{Directory, NemoArchive, Release, families, foreign, header};

/// A directory of a model in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstalledModel {
    /// The directory.
    pub path: PathBuf,
    /// Its commit.
    pub revision: String,
    /// True if this program pulled it, false if another one did.
    pub pinned: bool,
}

/// State of a directory in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CacheState {
    /// It is not there.
    Absent,
    /// It was pulled, but these files are missing or have another length.
    Broken(InstalledModel, Vec<String>),
    /// It is complete.
    Whole(InstalledModel),
}

/// Result of the verification of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedFile {
    /// The file.
    pub path: PathBuf,
    /// Bytes.
    pub size: u64,
    /// `None` if no checksum is known.
    pub checksum: Option<Checksum>,
    /// True if it matches the published file; without a checksum, if its own content shows no damage.
    pub is_whole: bool,
}

impl Hub {
    /// Returns the state of `release`.
    pub fn state(&self, release: &Release) -> CacheState {
        let pins = Pins::read(self).unwrap_or_default();
        if let Some(pin) = pins.of(release) {
            let path = self.snapshot(release.repo, &pin.revision).join(release.prefix);
            let is_gone = |name: &str, size| {
                fs::metadata(path.join(name)).map_or(true, |file| file.len() != size)
            };
            let gone = pin.files.iter().filter(|(name, file)| is_gone(name, file.size));
            let gone: Vec<_> = gone.map(|(name, _)| name.clone()).collect();
            let installed = InstalledModel { path, revision: pin.revision.clone(), pinned: true };
            if gone.is_empty() {
                return CacheState::Whole(installed);
            }
            if installed.path.is_dir() {
                return CacheState::Broken(installed, gone);
            }
        }
        self.of_others(release).map_or(CacheState::Absent, CacheState::Whole)
    }

    /// Returns the place of `release` in the cache, even if files of it are missing.
    pub fn installed(&self, release: &Release) -> Option<InstalledModel> {
        match self.state(release) {
            CacheState::Whole(installed) | CacheState::Broken(installed, _) => Some(installed),
            CacheState::Absent => None,
        }
    }

    /// Compares every file of `release` with its published checksum. `read` receives numbers of
    /// bytes.
    ///
    /// # Errors
    /// [`HubError::Disk`] if a file cannot be read; [`HubError::BadPins`].
    pub fn verify(
        &self,
        release: &Release,
        read: &mut dyn FnMut(u64) -> io::Result<()>,
    ) -> Result<Vec<VerifiedFile>, HubError> {
        let pins = Pins::read(self)?;
        let Some(installed) = self.installed(release) else { return Ok(vec![]) };
        let pin = pins.of(release).filter(|_| installed.pinned);
        let files = match pin {
            Some(pin) => of_pin(pin, &installed.path),
            None => of_links(&installed.path)?,
        };
        files.into_iter().map(|(path, checksum)| one(path, checksum, read)).collect()
    }

    /// Locks `repo`, so that other runs of this program cannot change its files.
    pub(super) fn lock(&self, repo: &str) -> Result<fs::File, HubError> {
        let file = self.lock_file(&repo.replace('/', "--"))?;
        match is_of_another(file.try_lock()) {
            false => Ok(file),
            true => Err(HubError::Locked { file: repo.to_owned() }),
        }
    }

    /// Opens the file `name` of the locks.
    pub(super) fn lock_file(&self, name: &str) -> Result<fs::File, HubError> {
        let locks = self.data.join("locks");
        let path = locks.join(name);
        let file = fs::create_dir_all(locks).and_then(|()| fs::File::create(&path));
        file.map_err(|source| HubError::Data { path, source })
    }
}

impl Published {
    /// Compares every published file of `directory`. `read` receives numbers of bytes.
    ///
    /// # Errors
    /// [`HubError::Disk`] if a file cannot be read.
    pub fn verify(
        &self,
        directory: &Path,
        read: &mut dyn FnMut(u64) -> io::Result<()>,
    ) -> Result<Vec<VerifiedFile>, HubError> {
        if self.0.is_empty() {
            let folders = families::with_folders(directory);
            let files: Vec<_> = folders.iter().map(|of| entries(of)).collect::<Result<_, _>>()?;
            let files = files.into_iter().flatten().filter(|path| path.is_file());
            return files.map(|path| one(path, None, read)).collect();
        }
        let file = |(name, checksum): &(String, Checksum)| {
            one(directory.join(name), Some(checksum.clone()), read)
        };
        self.0.iter().map(file).collect()
    }
}

/// Returns every pulled file, with its checksum.
fn of_pin(pin: &Pin, directory: &Path) -> Vec<(PathBuf, Option<Checksum>)> {
    let file = |(name, file): (&String, &super::pins::PinnedFile)| {
        (directory.join(name), Some(file.checksum.clone()))
    };
    pin.files.iter().map(file).collect()
}

/// Returns every file of a directory that another program fetched. The target of a link is named by
/// the checksum.
fn of_links(directory: &Path) -> Result<Vec<(PathBuf, Option<Checksum>)>, HubError> {
    let file = |path: PathBuf| {
        // A dangling link also names its target.
        let target = fs::read_link(&path).unwrap_or_else(|_| path.clone());
        let name = target.file_name().and_then(|name| name.to_str());
        (path, name.and_then(Checksum::from_name))
    };
    Ok(links(directory)?.into_iter().map(file).collect())
}

fn one(
    path: PathBuf,
    checksum: Option<Checksum>,
    read: &mut dyn FnMut(u64) -> io::Result<()>,
) -> Result<VerifiedFile, HubError> {
    let size = length(&path).unwrap_or(0);
    let is_whole = match &checksum {
        None => path.is_file() && seems_whole(&path),
        Some(_) if !path.is_file() => false,
        Some(checksum) => on(&path, checksum.matches(&path, read))?,
    };
    Ok(VerifiedFile { path, size, checksum, is_whole })
}

/// False for a file whose own content shows damage: invalid JSON, a cut archive of NeMo, and safetensors or
/// GGUF files that are cut or have no header.
pub(crate) fn seems_whole(path: &Path) -> bool {
    let is_json = |text: Vec<u8>| serde_json::from_slice::<IgnoredAny>(&text).is_ok();
    match path.extension().and_then(OsStr::to_str) {
        Some("safetensors") => {
            Directory::open_file(path).and_then(|file| header::parse(path, file.all())).is_ok()
        }
        Some("gguf") => foreign::is_whole_gguf(path),
        Some("json") => fs::read(path).is_ok_and(is_json),
        Some("nemo") => NemoArchive::open(path).is_ok(),
        // Nothing is known of other files.
        _ => true,
    }
}

/// Returns the entries of `directory`, sorted; empty if it does not exist.
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

/// Returns every file name below `directory`.
pub(super) fn links(directory: &Path) -> Result<Vec<PathBuf>, HubError> {
    let mut files = Vec::new();
    for path in entries(directory)? {
        // A link to a directory counts as a file name and is not followed.
        match on(&path, path.symlink_metadata())?.is_dir() {
            true => files.extend(links(&path)?),
            false => files.push(path),
        }
    }
    Ok(files)
}
