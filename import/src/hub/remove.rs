//! Removal of installed files, and of what unfinished downloads left.

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
};

use super::{
    Hub, HubError, Pin, Pins,
    disk::{length, on},
    local::{entries, links},
};
use crate::Release;

/// Ending of the unfinished downloads of other programs, which may be running.
const OF_OTHERS: &str = "incomplete";

/// Statistics of a removal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removed {
    /// Number of removed file names.
    pub files: usize,
    /// Freed bytes.
    pub bytes: u64,
}

/// The files that a removal deletes.
struct Going {
    /// The names of the release.
    names: Vec<PathBuf>,
    /// The blobs that no other name needs.
    blobs: Vec<PathBuf>,
}

impl Hub {
    /// Removes `release` at every commit, with the files that no other name links to. If the release
    /// has no names, it removes the unfinished downloads of its repository: see
    /// [`unfinished`](Self::unfinished). If a file is unreadable or a download is running, it returns
    /// an error before it deletes anything.
    ///
    /// # Errors
    /// [`HubError::Disk`]; [`HubError::Data`]; [`HubError::BadPins`]; [`HubError::Locked`].
    pub fn remove(&self, release: &Release) -> Result<Removed, HubError> {
        let pins = Pins::read(self)?;
        let _lock = self.lock(release.repo)?;
        let repository = self.repository(release.repo);
        let (snapshots, blobs) = (repository.join("snapshots"), repository.join("blobs"));
        let going = self.going(release, &pins)?;
        let mut removed = Removed { files: going.names.len(), bytes: 0 };
        // A hard link does not count as a second file.
        let mut lengths: Vec<u64> = Vec::new();
        for link in &going.names {
            if link.symlink_metadata().is_ok_and(|of| of.is_file()) {
                lengths.extend(length(link));
            }
            on(link, fs::remove_file(link))?;
        }
        for snapshot in entries(&snapshots)? {
            remove_empty(&snapshot.join(release.prefix));
            remove_empty(&snapshot);
        }
        for blob in &going.blobs {
            let bytes = length(blob).unwrap_or(0);
            lengths.retain(|length| *length != bytes);
            removed.bytes += bytes;
            on(blob, fs::remove_file(blob))?;
        }
        removed.bytes += lengths.iter().sum::<u64>();
        if entries(&snapshots)?.is_empty() && entries(&blobs)?.is_empty() {
            drop(fs::remove_dir_all(repository.join("refs")));
            for directory in [&blobs, &snapshots, &repository] {
                remove_empty(directory);
            }
        }
        if pins.of(release).is_some() {
            Pins::change(self, |pins| drop(pins.take(release)))?;
        }
        Ok(removed)
    }

    /// Returns the bytes of unfinished downloads in the repository of `release`: partly downloaded
    /// files, and whole ones without a name, perhaps of another model. 0 if the release has names,
    /// because then its removal leaves them. Downloads of other programs do not count.
    ///
    /// # Errors
    /// [`HubError::Disk`]; [`HubError::BadPins`].
    pub fn unfinished(&self, release: &Release) -> Result<u64, HubError> {
        let going = self.going(release, &Pins::read(self)?)?;
        Ok(match going.names.is_empty() {
            true => going.blobs.iter().filter_map(|blob| length(blob)).sum(),
            false => 0,
        })
    }

    /// Returns the bytes in partly downloaded files of `repo`.
    pub fn begun(&self, repo: &str) -> u64 {
        let blobs = entries(&self.repository(repo).join("blobs")).unwrap_or_default();
        let is_part = |path: &&PathBuf| path.extension().is_some_and(|ending| ending == "part");
        blobs.iter().filter(is_part).filter_map(|path| length(path)).sum()
    }

    fn going(&self, release: &Release, pins: &Pins) -> Result<Going, HubError> {
        let repository = self.repository(release.repo);
        let (mut names, mut led, mut used) = (Vec::new(), HashSet::new(), HashSet::new());
        for snapshot in entries(&repository.join("snapshots"))? {
            let directory = snapshot.join(release.prefix);
            for link in links(&snapshot)? {
                let target = link.canonicalize().ok();
                match link.starts_with(&directory) {
                    true => {
                        led.extend(target);
                        names.push(link);
                    }
                    false => used.extend(target),
                }
            }
        }
        // A name that is not a link does not identify its blob, but the pin does.
        let blobs_of = |pin: &Pin| -> Vec<PathBuf> {
            let blobs = pin.files.values().map(|file| self.blob(release.repo, &file.checksum));
            blobs.filter_map(|blob| blob.canonicalize().ok()).collect()
        };
        led.extend(pins.of(release).into_iter().flat_map(blobs_of));
        used.extend(pins.others(release).flat_map(blobs_of));
        let mut blobs = entries(&repository.join("blobs"))?;
        blobs.retain(|blob| {
            let target = blob.canonicalize().unwrap_or_else(|_| blob.clone());
            // A blob without a name belongs to an unfinished pull, perhaps of another model.
            let goes = !used.contains(&target) && (names.is_empty() || led.contains(&target));
            goes && blob.extension().is_none_or(|ending| ending != OF_OTHERS)
        });
        Ok(Going { names, blobs })
    }
}

fn remove_empty(directory: &Path) {
    drop(fs::remove_dir(directory));
}
