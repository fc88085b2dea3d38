//! Which commit of each directory was pulled, with the size and checksum of every file.
//!
//! The cache is shared, and another program may fetch a newer commit, or half of one: a song is made
//! with what was pulled until something else is.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{Checksum, HubError, Piece};

/// The file of the pins in the directory of models.
const FILE: &str = "pulled.json";

// ANCHOR: pin
/// What was pulled of one directory.
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
    /// What they add up to.
    pub checksum: Checksum,
}
// ANCHOR_END: pin

/// The pins by directory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Pins(BTreeMap<String, Pin>);

impl Pins {
    /// The pins of `models_dir`; none, if there is no file.
    ///
    /// # Errors
    /// If the file cannot be read, or is something else.
    pub fn read(models_dir: &Path) -> Result<Self, HubError> {
        let path = models_dir.join(FILE);
        match fs::read_to_string(&path) {
            Ok(text) => serde_json::from_str(&text)
                .map_err(|source| HubError::BadPins { path, reason: source.to_string() }),
            Err(source) if is_absent(&source) => Ok(Self::default()),
            Err(source) => Err(HubError::Disk { path, source }),
        }
    }

    /// Writes the pins beside their place and then into it.
    ///
    /// # Errors
    /// If the disk does not take them.
    pub(super) fn write(&self, models_dir: &Path) -> Result<(), HubError> {
        let path = models_dir.join(FILE);
        let whole = || -> io::Result<()> {
            fs::create_dir_all(models_dir)?;
            let mut text = serde_json::to_string_pretty(self)?;
            text.push('\n');
            let beside = beside(&path);
            fs::write(&beside, text)
                .and_then(|()| fs::rename(&beside, &path))
                .inspect_err(|_| drop(fs::remove_file(&beside)))
        };
        whole().map_err(|source| HubError::Disk { path: path.clone(), source })
    }

    /// The pin of `piece`, if that directory was pulled from that repository.
    pub fn of(&self, piece: &Piece) -> Option<&Pin> {
        self.0.get(piece.directory).filter(|pin| pin.repo == piece.repo)
    }

    /// All pins, by directory.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Pin)> {
        self.0.iter().map(|(directory, pin)| (directory.as_str(), pin))
    }

    pub(super) fn put(&mut self, piece: &Piece, pin: Pin) {
        self.0.insert(piece.directory.to_owned(), pin);
    }

    pub(super) fn take(&mut self, piece: &Piece) -> Option<Pin> {
        self.0.remove(piece.directory)
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn beside(path: &Path) -> PathBuf {
    path.with_extension(format!("json.{}", std::process::id()))
}
