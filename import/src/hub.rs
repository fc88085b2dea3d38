//! Models of the Hugging Face hub, in the cache that all its programs share.
//!
//! ```text
//! hub/models--ACE-Step--Ace-Step1.5/
//!       blobs/<checksum>                    every file once, by its checksum
//!       refs/main                           the commit that was last fetched
//!       snapshots/<commit>/vae/config.json  names of one commit, links to blobs
//! ```
//!
//! | module | what |
//! |---|---|
//! | `pieces` | which directories of which repositories a model is made of |
//! | `pins` | which commit of each was pulled: another program cannot change what a song is made with |
//! | `remote` | what the hub has: hf-hub asks |
//! | `transfer` | one file of it |
//! | `pull` | all files of some models, planned and pinned |
//! | `wanted` | those of one directory, resumed, checked, named |
//! | `local` | what is here, verified or taken away |
//! | `disk` | files, their lengths and second names |
//! | `checksum` | SHA-256 of large files, Git's SHA-1 of small ones |
//!
//! Sources: <https://huggingface.co/docs/huggingface_hub/guides/manage-cache>.

use std::path::{Path, PathBuf};

pub use checksum::Checksum;
pub use error::HubError;
pub use local::{Installed, Removed, State, Verified};
pub use pieces::Piece;
pub use pins::{Pin, Pins};
pub use pull::{Event, Here, Pull};
pub use remote::{Access, Published, Remote, RemoteFile};
pub use wanted::Wanted;

pub(crate) mod checksum;
mod disk;
mod error;
mod local;
mod pieces;
mod pins;
mod pull;
mod remote;
mod transfer;
mod wanted;

#[cfg(test)]
mod tests;

/// The cache of the hub on this machine, and what was pulled into it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hub {
    /// The directory `hub/` of the cache.
    cache: PathBuf,
    /// The user's directory of data, which holds the pins.
    data: PathBuf,
}

impl Hub {
    /// The cache at `cache`, whose pins are kept in `data`.
    pub fn new(cache: impl Into<PathBuf>, data: impl Into<PathBuf>) -> Self {
        // However it is spelled: the pins know it by its place.
        let cache: PathBuf = cache.into();
        Self { cache: cache.components().collect(), data: data.into() }
    }

    /// The directory of the cache.
    pub fn cache(&self) -> &Path {
        &self.cache
    }

    /// Where everything of `repo` is: `models--ACE-Step--Ace-Step1.5`.
    pub fn repository(&self, repo: &str) -> PathBuf {
        self.cache.join(format!("models--{}", repo.replace('/', "--")))
    }

    /// The names of one commit of `repo`.
    fn snapshot(&self, repo: &str, commit: &str) -> PathBuf {
        self.repository(repo).join("snapshots").join(commit)
    }

    /// A file by its checksum.
    fn blob(&self, repo: &str, checksum: &Checksum) -> PathBuf {
        self.repository(repo).join("blobs").join(checksum.name())
    }

    /// The part of a file that was received before its transfer broke.
    fn part(&self, repo: &str, checksum: &Checksum) -> PathBuf {
        self.blob(repo, checksum).with_extension("part")
    }

    /// Where `piece` would be looked for, as a pattern for messages.
    pub(crate) fn pattern(&self, piece: &Piece) -> PathBuf {
        self.snapshot(piece.repo, "*").join(piece.prefix)
    }

    /// Where `piece` lies whole: at the commit that was pulled, else at the last one that another
    /// program fetched, else at any that has its configuration and weights.
    ///
    /// Pins that cannot be read are as none here; [`Pins::read`] says what is wrong with them.
    pub fn find(&self, piece: &Piece) -> Option<Installed> {
        match self.state(piece) {
            State::Whole(installed) => Some(installed),
            State::Absent | State::Broken(..) => None,
        }
    }

    /// Where another program has put `piece`.
    fn of_others(&self, piece: &Piece) -> Option<Installed> {
        let repository = self.repository(piece.repo);
        let main = std::fs::read_to_string(repository.join("refs").join("main")).ok();
        let main = main.map(|commit| commit.trim().to_owned());
        let others = local::entries(&repository.join("snapshots")).unwrap_or_default();
        let others = others.iter().filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()));
        let mut commits = main.into_iter().chain(others).filter(|commit| !commit.is_empty());
        commits.find_map(|revision| {
            let path = self.snapshot(piece.repo, &revision).join(piece.prefix);
            is_whole(&path).then_some(Installed { path, revision, pinned: false })
        })
    }
}

/// Whether a directory has configuration and weights.
pub(crate) fn is_whole(directory: &Path) -> bool {
    let has_weights = || !crate::layout::files::files_in(directory, "safetensors").is_empty();
    directory.join("config.json").is_file() && has_weights()
}

/// What the model is called whose files the snapshot at `path` holds alone, if it is one:
/// `../models--ACE-Step--acestep-v15-base/snapshots/<commit>` -> `acestep-v15-base`.
pub(crate) fn name_of_snapshot(path: &Path) -> Option<String> {
    let snapshots = path.parent().filter(|parent| parent.ends_with("snapshots"))?;
    let repository = snapshots.parent()?.file_name()?.to_str()?;
    let (_, name) = repository.strip_prefix("models--")?.rsplit_once("--")?;
    Some(name.to_owned())
}
