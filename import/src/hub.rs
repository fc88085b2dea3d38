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
//! | `remote` | what the hub has, and one file of it |
//! | `pull` | all files of some models, resumed, checked, pinned |
//! | `local` | what is here, verified or taken away |
//! | `checksum` | SHA-256 of large files, Git's SHA-1 of small ones |
//!
//! Sources: <https://huggingface.co/docs/huggingface_hub/guides/manage-cache>; hf-hub fetches.

use std::path::{Path, PathBuf};

pub use checksum::Checksum;
pub use error::HubError;
pub use local::{Installed, Removed, State, Verified};
pub use pieces::Piece;
pub use pins::{Pin, Pins};
pub use pull::{Event, Pull, Wanted};
pub use remote::{Access, Published, Remote, RemoteFile};

pub(crate) mod checksum;
mod error;
mod local;
mod pieces;
mod pins;
mod pull;
mod remote;

#[cfg(test)]
mod tests;

/// The cache of the hub on this machine, and what was pulled into it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hub {
    /// The directory `hub/` of the cache.
    cache: PathBuf,
    /// The directory of models, which holds the pins.
    models_dir: PathBuf,
}

impl Hub {
    /// The cache at `cache`, with the pins of `models_dir`.
    pub fn new(cache: impl Into<PathBuf>, models_dir: impl Into<PathBuf>) -> Self {
        Self { cache: cache.into(), models_dir: models_dir.into() }
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
    /// program fetched, if that has its configuration and weights.
    ///
    /// Pins that cannot be read are as none here; [`Pins::read`] says what is wrong with them.
    pub fn find(&self, piece: &Piece) -> Option<Installed> {
        let pins = Pins::read(&self.models_dir).unwrap_or_default();
        if let Some(pin) = pins.of(piece) {
            let path = self.snapshot(piece.repo, &pin.revision).join(piece.prefix);
            if path.is_dir() {
                return Some(Installed { path, revision: pin.revision.clone(), pinned: true });
            }
        }
        let main = self.repository(piece.repo).join("refs").join("main");
        let revision = std::fs::read_to_string(main).ok()?.trim().to_owned();
        let path = self.snapshot(piece.repo, &revision).join(piece.prefix);
        let is_whole = path.join("config.json").is_file() && has_weights(&path);
        is_whole.then_some(Installed { path, revision, pinned: false })
    }
}

fn has_weights(directory: &Path) -> bool {
    !crate::layout::files::files_in(directory, "safetensors").is_empty()
}

/// What the model is called whose files the snapshot at `path` holds alone, if it is one:
/// `../models--ACE-Step--acestep-v15-base/snapshots/<commit>` -> `acestep-v15-base`.
pub(crate) fn name_of_snapshot(path: &Path) -> Option<String> {
    let snapshots = path.parent().filter(|parent| parent.ends_with("snapshots"))?;
    let repository = snapshots.parent()?.file_name()?.to_str()?;
    let (_, name) = repository.strip_prefix("models--")?.rsplit_once("--")?;
    Some(name.to_owned())
}
