//! Models of the Hugging Face hub, in the cache that all its programs share.
//!
//! ```text
//! hub/models--ACE-Step--Ace-Step1.5/
//!       blobs/<checksum>                    every file once, by its checksum
//!       refs/main                           the commit that was last fetched
//!       snapshots/<commit>/vae/config.json  names of one commit, links to blobs
//! ```
//!
//! | module | contents |
//! |---|---|
//! | `environment` | the user's settings for all programs of the hub: places and access |
//! | `pins` | the pulled commits, so that another program cannot change a song's model |
//! | `remote` | queries to the hub, with hf-hub |
//! | `transfer` | the download of one file |
//! | `pull` | the planned and pinned download of models |
//! | `download` | the files of one directory: resumed, checked, linked |
//! | `local` | the installed files: state, verification |
//! | `remove` | the removal of installed files |
//! | `disk` | files, their lengths and links |
//! | `checksum` | SHA-256 of large files, Git's SHA-1 of small ones |
//!
//! Sources: <https://huggingface.co/docs/huggingface_hub/guides/manage-cache>.

use std::path::{Path, PathBuf};

pub use checksum::Checksum;
pub use download::Download;
pub use environment::Environment;
pub use error::HubError;
pub(crate) use local::seems_whole;
pub use local::{CacheState, InstalledModel, VerifiedFile};
pub use pins::{Pin, Pins};
pub use pull::{Here, Pull, PullEvent};
pub use remote::{Access, Published, Remote, RemoteFile};
pub use remove::Removed;

pub(crate) mod checksum;
mod disk;
mod download;
mod environment;
mod error;
mod local;
mod pins;
mod pull;
mod remote;
mod remove;
mod transfer;

use crate::Release;

#[cfg(test)]
mod tests;

/// The cache of the hub on this machine, and the pins of pulled models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hub {
    /// The directory `hub/` of the cache.
    cache: PathBuf,
    /// The user's data directory, which holds the pins.
    data: PathBuf,
}

impl Hub {
    /// Creates the hub for the cache at `cache`, with its pins in `data`.
    pub fn new(cache: impl Into<PathBuf>, data: impl Into<PathBuf>) -> Self {
        // Normalise the spelling, because the pins are keyed by this path.
        let cache: PathBuf = cache.into();
        Self { cache: cache.components().collect(), data: data.into() }
    }

    /// Returns the directory of the cache.
    pub fn cache(&self) -> &Path {
        &self.cache
    }

    /// Returns the directory of `repo`, such as `models--ACE-Step--Ace-Step1.5`.
    pub fn repository(&self, repo: &str) -> PathBuf {
        self.cache.join(format!("models--{}", repo.replace('/', "--")))
    }

    fn snapshot(&self, repo: &str, commit: &str) -> PathBuf {
        self.repository(repo).join("snapshots").join(commit)
    }

    /// Returns the path of a file by its checksum.
    fn blob(&self, repo: &str, checksum: &Checksum) -> PathBuf {
        self.repository(repo).join("blobs").join(checksum.name())
    }

    /// Returns the path of the received part of a file whose transfer was interrupted.
    fn part(&self, repo: &str, checksum: &Checksum) -> PathBuf {
        self.blob(repo, checksum).with_extension("part")
    }

    /// Returns the searched place of `release`, as a pattern for messages.
    pub(crate) fn pattern(&self, release: &Release) -> PathBuf {
        self.snapshot(release.repo, "*").join(release.prefix)
    }

    /// Finds a complete `release`: at the pulled commit, else at the last commit that another program
    /// fetched, else at any commit with its configuration and weights.
    ///
    /// Unreadable pins count as none here; [`Pins::read`] reports them.
    pub fn find(&self, release: &Release) -> Option<InstalledModel> {
        match self.state(release) {
            CacheState::Whole(installed) => Some(installed),
            CacheState::Absent | CacheState::Broken(..) => None,
        }
    }

    /// Returns the place of `release` if another program fetched it.
    fn of_others(&self, release: &Release) -> Option<InstalledModel> {
        let repository = self.repository(release.repo);
        let main = std::fs::read_to_string(repository.join("refs").join("main")).ok();
        let main = main.map(|commit| commit.trim().to_owned());
        let others = local::entries(&repository.join("snapshots")).unwrap_or_default();
        let others = others.iter().filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()));
        let mut commits = main.into_iter().chain(others).filter(|commit| !commit.is_empty());
        commits.find_map(|revision| {
            let path = self.snapshot(release.repo, &revision).join(release.prefix);
            is_whole(&path).then_some(InstalledModel { path, revision, pinned: false })
        })
    }
}

/// True if a directory has configuration and weights, or an archive of both.
pub(crate) fn is_whole(directory: &Path) -> bool {
    if !crate::listing::files_in(directory, "nemo").is_empty() {
        return true;
    }
    let has_weights = || !crate::listing::files_in(directory, "safetensors").is_empty();
    directory.join("config.json").is_file() && has_weights()
}

/// Returns the name of the model whose files are alone in the snapshot at `path`, if it is a
/// snapshot: `../models--ACE-Step--acestep-v15-base/snapshots/<commit>` -> `acestep-v15-base`.
pub(crate) fn name_of_snapshot(path: &Path) -> Option<String> {
    let snapshots = path.parent().filter(|parent| parent.ends_with("snapshots"))?;
    let repository = snapshots.parent()?.file_name()?.to_str()?;
    let (_, name) = repository.strip_prefix("models--")?.rsplit_once("--")?;
    Some(name.to_owned())
}
