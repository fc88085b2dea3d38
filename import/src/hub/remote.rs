//! What the hub has of a repository, and one file of it: hf-hub, with its errors told apart.

use std::{io, path::PathBuf};

use hf_hub::{
    Cache, Repo, RepoType,
    api::{
        Progress,
        sync::{Api, ApiBuilder, ApiError, ApiRepo},
    },
};
use serde::Deserialize;

use super::{Checksum, HubError, Piece};

/// The hub itself.
const ENDPOINT: &str = "https://huggingface.co";

/// Which server is asked, and as whom.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// Another server than huggingface.co.
    pub endpoint: Option<String>,
    /// Who asks; the released models are for everybody.
    pub token: Option<String>,
}

/// A connection to the hub.
#[derive(Debug)]
pub struct Remote {
    api: Api,
    endpoint: String,
}

/// A file of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteFile {
    /// Its path in the repository.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// What they add up to.
    pub checksum: Checksum,
}

/// The files of a directory by name, with their checksums; none, if they are not known.
#[derive(Debug, Clone, Default)]
pub struct Published(pub(super) Vec<(String, Checksum)>);

/// The files of one commit.
#[derive(Debug, Clone)]
pub(super) struct Listing {
    pub(super) commit: String,
    pub(super) files: Vec<RemoteFile>,
}

/// What the server says of a repository.
#[derive(Deserialize)]
struct Answer {
    sha: String,
    siblings: Vec<Sibling>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sibling {
    rfilename: String,
    size: Option<u64>,
    blob_id: Option<String>,
    lfs: Option<Large>,
}

/// What it says of a file that Git does not hold itself.
#[derive(Deserialize)]
struct Large {
    sha256: String,
    size: u64,
}

impl Remote {
    /// A connection, for files that go into the cache at `cache`. Nothing is asked yet.
    ///
    /// # Errors
    /// [`HubError::NoHub`] for an address that is none.
    pub fn new(access: &Access, cache: impl Into<PathBuf>) -> Result<Self, HubError> {
        let endpoint = access.endpoint.as_deref().unwrap_or(ENDPOINT);
        let endpoint = endpoint.trim_end_matches('/').to_owned();
        if !["http://", "https://"].iter().any(|scheme| endpoint.starts_with(scheme)) {
            let reason = "its address does not begin with https:// or http://".to_owned();
            return Err(HubError::NoHub { endpoint, reason });
        }
        let api = ApiBuilder::from_cache(Cache::new(cache.into()))
            .with_endpoint(endpoint.clone())
            .with_token(access.token.clone())
            .with_user_agent("acestep", env!("CARGO_PKG_VERSION"))
            .with_progress(false)
            // Its own would append a file to itself that was begun before: see `Wanted::fetch`.
            .with_retries(0)
            .build();
        let api = api.map_err(|error| HubError::NoHub {
            endpoint: endpoint.clone(),
            reason: error.to_string(),
        })?;
        Ok(Self { api, endpoint })
    }

    /// The address.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    fn at(&self, repo: &str, revision: &str) -> ApiRepo {
        self.api.repo(Repo::with_revision(repo.to_owned(), RepoType::Model, revision.to_owned()))
    }

    /// Those files of `repo` at `revision`, a branch, a tag or a commit, that are `wanted`.
    pub(super) fn list(
        &self,
        repo: &str,
        revision: &str,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<Listing, HubError> {
        let what = || format!("revision `{revision}`");
        let request = self.at(repo, revision).info_request().query("blobs", "true");
        let mut response = request.call().map_err(|error| self.refused(error, repo, what()))?;
        let no_hub = |reason| HubError::NoHub { endpoint: self.endpoint.clone(), reason };
        let text = match response.body_mut().read_to_string() {
            Ok(text) => text,
            Err(error) => return Err(self.refused(error, repo, what())),
        };
        let answer: Answer = serde_json::from_str(&text)
            .map_err(|error| no_hub(format!("its list of `{repo}` is not one: {error}")))?;
        let is_name = |name: &str| !name.is_empty() && !name.contains(['/', '\\', '.']);
        if !is_name(&answer.sha) {
            return Err(no_hub(format!("`{}` is no commit", answer.sha)));
        }
        let mut files = Vec::new();
        for Sibling { rfilename: path, size, blob_id, lfs } in answer.siblings {
            if !wanted(&path) {
                continue;
            }
            let (size, name) = match lfs {
                Some(large) => (Some(large.size), Some(large.sha256)),
                None => (size, blob_id),
            };
            let checksum = name.as_deref().and_then(Checksum::from_name);
            match (size, checksum) {
                (Some(size), Some(checksum)) => files.push(RemoteFile { path, size, checksum }),
                _ => return Err(no_hub(format!("it gives no size or checksum of `{path}`"))),
            }
        }
        Ok(Listing { commit: answer.sha, files })
    }

    /// What the newest commit has of `piece`.
    ///
    /// # Errors
    /// Those of the connection.
    pub fn published(&self, piece: &Piece) -> Result<Published, HubError> {
        let listing = self.list(piece.repo, "main", |path| piece.name_of(path).is_some())?;
        let file = |file: RemoteFile| Some((piece.name_of(&file.path)?.to_owned(), file.checksum));
        Ok(Published(listing.files.into_iter().filter_map(file).collect()))
    }

    /// Fetches one file of `repo` at `commit` into the cache, from where its part ends.
    pub(super) fn fetch(
        &self,
        repo: &str,
        commit: &str,
        path: &str,
        received: &mut dyn FnMut(u64),
    ) -> Result<(), Failure> {
        let to = self.at(repo, commit);
        match to.download_with_progress(path, Forward(received)) {
            Ok(_) => Ok(()),
            Err(error) => Err(self.failure(error, repo, path)),
        }
    }

    fn failure(&self, error: ApiError, repo: &str, path: &str) -> Failure {
        let what = || format!("file `{path}` at this commit");
        match error {
            ApiError::RequestError(error) => match *error {
                ureq::Error::StatusCode(429 | 500..=599) | ureq::Error::Io(_) => {
                    Failure::Passing(error)
                }
                ureq::Error::ConnectionFailed
                | ureq::Error::Timeout(_)
                | ureq::Error::Protocol(_) => Failure::Passing(error),
                error => Failure::Final(self.refused(error, repo, what())),
            },
            // Either end of the copy: the disk is known by what it says.
            ApiError::IoError(error) if is_of_disk(&error) => Failure::Disk(error),
            ApiError::IoError(error) => Failure::Passing(Box::new(error)),
            ApiError::LockAcquisition(_) => {
                Failure::Final(HubError::Locked { file: path.to_owned() })
            }
            ApiError::TooManyRetries(error) => self.failure(*error, repo, path),
            error @ (ApiError::InvalidResume
            | ApiError::MissingHeader(_)
            | ApiError::InvalidHeader(_)
            | ApiError::ParseIntError(_)) => Failure::Final(HubError::NoHub {
                endpoint: self.endpoint.clone(),
                reason: format!("of `{path}`: {error}"),
            }),
        }
    }

    fn refused(&self, error: ureq::Error, repo: &str, what: String) -> HubError {
        let repo = repo.to_owned();
        match error {
            ureq::Error::StatusCode(404) => HubError::NotFound { repo, what },
            ureq::Error::StatusCode(status @ (401 | 403)) => HubError::Forbidden { repo, status },
            error => {
                HubError::Unreachable { endpoint: self.endpoint.clone(), source: Box::new(error) }
            }
        }
    }
}

/// Why one attempt at a file failed.
pub(super) enum Failure {
    /// It may work the next time.
    Passing(Box<dyn std::error::Error + Send + Sync>),
    /// The disk refused.
    Disk(io::Error),
    /// It will not.
    Final(HubError),
}

fn is_of_disk(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    let kinds = [
        Kind::StorageFull,
        Kind::QuotaExceeded,
        Kind::FileTooLarge,
        Kind::PermissionDenied,
        Kind::ReadOnlyFilesystem,
        Kind::NotADirectory,
        Kind::AlreadyExists,
        Kind::NotFound,
    ];
    kinds.contains(&error.kind())
}

/// hf-hub's view of whoever watches.
struct Forward<'a>(&'a mut dyn FnMut(u64));

impl Progress for Forward<'_> {
    fn init(&mut self, _size: usize, _filename: &str) {}

    fn update(&mut self, size: usize) {
        (self.0)(size as u64);
    }

    fn finish(&mut self) {}
}
