//! Pins: the pulled commit of each directory, with the size and checksum of every file.
//!
//! The file is in the user's data directory and has the pins of every cache. The cache is shared:
//! another program may fetch a newer commit, or only a part of it. Songs use the pinned commit
//! until the next pull.

use std::{collections::BTreeMap, fs, io, path::Path};

use serde::{Deserialize, Serialize};

use super::{Checksum, Hub, HubError};
use crate::Release;

/// The file of the pins in the data directory.
const FILE: &str = "pulled.json";

// ANCHOR: pin
/// The pulled commit of one directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// Its repository.
    pub repo: String,
    /// The commit.
    pub revision: String,
    /// Its files by name.
    pub files: BTreeMap<String, PinnedFile>,
}

/// A file of a pin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinnedFile {
    /// Bytes.
    pub size: u64,
    /// The checksum of the content.
    pub checksum: Checksum,
}
// ANCHOR_END: pin

/// The pins of a cache by directory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Pins(BTreeMap<String, Pin>);

/// The pins of every cache, by its path.
type Caches = BTreeMap<String, Pins>;

impl Pins {
    /// Reads the pins of `hub`; empty if there is no file.
    ///
    /// # Errors
    /// If the file cannot be read or is invalid.
    pub fn read(hub: &Hub) -> Result<Self, HubError> {
        Ok(read(&hub.data)?.remove(&key(hub)).unwrap_or_default())
    }

    /// Changes the pins of `hub`, which another run may be changing: locks and reads them first, and
    /// writes a temporary file that replaces the old one.
    ///
    /// # Errors
    /// As [`Pins::read`]; if the file cannot be written.
    pub(super) fn change(hub: &Hub, change: impl FnOnce(&mut Self)) -> Result<(), HubError> {
        let lock = hub.lock_file(FILE)?;
        // Without locks of the file system nobody else is expected.
        drop(lock.lock());
        let mut caches = read(&hub.data)?;
        let pins = caches.entry(key(hub)).or_default();
        change(pins);
        if pins.0.is_empty() {
            caches.remove(&key(hub));
        }
        let path = hub.data.join(FILE);
        let whole = || -> io::Result<()> {
            fs::create_dir_all(&hub.data)?;
            let mut text = serde_json::to_string_pretty(&caches)?;
            text.push('\n');
            let beside = path.with_extension(format!("json.{}", std::process::id()));
            fs::write(&beside, text)
                .and_then(|()| fs::rename(&beside, &path))
                .inspect_err(|_| drop(fs::remove_file(&beside)))
        };
        whole().map_err(|source| HubError::Data { path: path.clone(), source })
    }

    /// Returns the pin of `release`, if that directory was pulled from that repository.
    pub fn of(&self, release: &Release) -> Option<&Pin> {
        self.0.get(release.directory).filter(|pin| pin.repo == release.repo)
    }

    /// Returns the pins of the other directories of its repository.
    pub(super) fn others(&self, release: &Release) -> impl Iterator<Item = &Pin> {
        let is_other = |(directory, pin): &(&String, &Pin)| {
            *directory != release.directory && pin.repo == release.repo
        };
        self.0.iter().filter(is_other).map(|(_, pin)| pin)
    }

    pub(super) fn put(&mut self, release: &Release, pin: Pin) {
        self.0.insert(release.directory.to_owned(), pin);
    }

    pub(super) fn take(&mut self, release: &Release) -> Option<Pin> {
        self.0.remove(release.directory)
    }
}

fn read(data: &Path) -> Result<Caches, HubError> {
    let path = data.join(FILE);
    match fs::read_to_string(&path) {
        Ok(text) => serde_json::from_str(&text)
            .map_err(|source| HubError::BadPins { path, reason: source.to_string() }),
        Err(source) if is_absent(&source) => Ok(Caches::default()),
        Err(source) => Err(HubError::Data { path, source }),
    }
}

/// Returns the key of a cache: its path.
fn key(hub: &Hub) -> String {
    hub.cache.to_string_lossy().into_owned()
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
