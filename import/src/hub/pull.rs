//! The download of whole models: planned, fetched, checked, and pinned together.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Download, Hub, HubError, Pins, Remote, RemoteFile,
    download::{MAIN, total},
    remote::Listing,
};
use crate::Release;

/// A planned download.
#[derive(Debug)]
pub struct Pull {
    /// The files to fetch, by directory.
    pub downloads: Vec<Download>,
    /// Directories that exist already and stay unchanged.
    pub kept: Vec<&'static Release>,
}

/// Location of a directory on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Here {
    /// It is absent or incomplete.
    No,
    /// It is in the cache.
    InCache,
    /// The user installed it in a place that is searched before the cache.
    Elsewhere,
}

/// Progress events of a download.
#[derive(Debug)]
pub enum PullEvent<'a> {
    /// A file begins; some of its bytes may be here already.
    Begun {
        /// Its path in the repository.
        file: &'a RemoteFile,
        /// Bytes that an earlier run received.
        here: u64,
    },
    /// More bytes were received.
    Received(u64),
    /// The file is tried again.
    Again {
        /// The file.
        file: &'a RemoteFile,
        /// The reason.
        why: String,
    },
    /// A file is complete and is now compared with its checksum.
    Checking(&'a RemoteFile),
    /// More bytes were compared.
    Compared(u64),
    /// A file was damaged and is fetched again.
    WasDamaged(&'a RemoteFile),
    /// A file is here and matches its checksum.
    Whole {
        /// The file.
        file: &'a RemoteFile,
        /// True if it was fetched now.
        fetched: bool,
    },
}

impl Pull {
    /// Asks the hub for the files of `models`. `revision` applies to the models' own repositories;
    /// shared directories come from the main branch. Directories that `here` reports as elsewhere
    /// stay there.
    ///
    /// # Errors
    /// Errors of the connection; [`HubError::NotFound`] if a repository has no such directory.
    pub fn plan(
        remote: &Remote,
        models: &[&'static Release],
        revision: Option<&str>,
        here: &dyn Fn(&Release) -> Here,
    ) -> Result<Self, HubError> {
        let mut pull = Self { downloads: vec![], kept: vec![] };
        // The user named this model; it is not only a dependency.
        let is_own = |release: &Release| {
            models.iter().any(|model| **model == *release)
                && matches!(here(release), Here::InCache | Here::No)
        };
        // One query per repository, so that all its directories come from one commit.
        let mut repositories: BTreeMap<(&str, &str), Vec<&'static Release>> = BTreeMap::new();
        for model in models {
            for release in model.with_needs() {
                // Directories of one repository must share a commit. Directories elsewhere are not
                // fetched.
                let stays = match here(release) {
                    Here::Elsewhere => true,
                    Here::InCache => release != *model && release.repo != model.repo,
                    Here::No => false,
                };
                if stays && !is_own(release) {
                    if !pull.kept.contains(&release) {
                        pull.kept.push(release);
                    }
                    continue;
                }
                let of_model = release.repo == model.repo;
                let revision = revision.filter(|_| of_model).unwrap_or(MAIN);
                let releases = repositories.entry((release.repo, revision)).or_default();
                if !releases.contains(&release) {
                    releases.push(release);
                }
            }
        }
        for ((repo, revision), releases) in repositories {
            let is_read =
                |path: &str| releases.iter().any(|release| release.name_of(path).is_some());
            let Listing { commit, files } = remote.list(repo, revision, is_read)?;
            for release in releases {
                let of_release = |file: &&RemoteFile| release.name_of(&file.path).is_some();
                let files: Vec<_> = files.iter().filter(of_release).cloned().collect();
                let has = |ending: &str| files.iter().any(|file| file.path.ends_with(ending));
                let is_directory = has("config.json") && has(".safetensors");
                if !is_directory && !has(".nemo") {
                    let what = format!("model `{}` at `{revision}`", release.directory);
                    return Err(HubError::NotFound { repo: repo.to_owned(), what });
                }
                let (revision, is_main) = (commit.clone(), revision == MAIN);
                pull.downloads.push(Download { release, revision, files, is_main });
            }
        }
        // A directory that is fetched for one model is not kept for another.
        pull.kept
            .retain(|release| pull.downloads.iter().all(|download| download.release != *release));
        // The models in the order of the request.
        let order: Vec<_> = models.iter().flat_map(|model| model.with_needs()).collect();
        pull.downloads
            .sort_by_key(|download| order.iter().position(|release| *release == download.release));
        Ok(pull)
    }

    /// Returns the bytes of all files.
    pub fn size(&self) -> u64 {
        total(self.downloads.iter().map(Download::size))
    }

    /// Returns the bytes that are not in the cache yet.
    pub fn missing(&self, hub: &Hub) -> u64 {
        total(self.downloads.iter().map(|download| download.missing(hub)))
    }

    /// Fetches missing files, checks everything and pins it. After an error or a kill the received
    /// bytes are kept, and the next run continues there.
    ///
    /// # Errors
    /// Errors of the connection and of the disk; [`HubError::Damaged`].
    pub fn run(
        &self,
        hub: &Hub,
        remote: &Remote,
        watch: &mut dyn FnMut(PullEvent<'_>),
    ) -> Result<(), HubError> {
        // Report an unusable data directory before hours of downloading.
        Pins::change(hub, |_| ())?;
        let repos: BTreeSet<_> =
            self.downloads.iter().map(|download| download.release.repo).collect();
        let _locks = repos.into_iter().map(|repo| hub.lock(repo)).collect::<Result<Vec<_>, _>>()?;
        for download in &self.downloads {
            for file in &download.files {
                download.file(file, hub, remote, watch)?;
            }
        }
        // Link only when everything is here, so that half an update is never used.
        for download in &self.downloads {
            download.name(hub)?;
        }
        Pins::change(hub, |pins| {
            for download in &self.downloads {
                pins.put(download.release, download.pin(hub));
            }
        })
    }
}
