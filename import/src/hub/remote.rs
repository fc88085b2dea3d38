//! Queries to the hub with hf-hub, and the meaning of its errors.

use std::{cell::Cell, path::PathBuf, thread, time::Duration};

use hf_hub::{
    Cache, Repo, RepoType,
    api::sync::{Api, ApiBuilder, ApiRepo},
};
use serde::Deserialize;
use ureq::{Agent, config::RedirectAuthHeaders};

use super::{Checksum, HubError};
use crate::Release;

/// The address of the Hugging Face hub.
pub(super) const ENDPOINT: &str = "https://huggingface.co";
/// Timeout for an answer of the server.
const PATIENCE: Duration = Duration::from_secs(60);
/// Number of attempts to get a list, and the first pause between two attempts.
const ATTEMPTS: u32 = 3;
const PAUSE: Duration = Duration::from_millis(500);

/// Server and token.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// A server other than huggingface.co.
    pub endpoint: Option<String>,
    /// The token. The released models are public, so it is sent only if the server requires it.
    pub token: Option<String>,
    /// A variable with a proxy that cannot be used: `ureq` would connect without it.
    pub bad_proxy: Option<&'static str>,
}

/// A connection to the hub.
#[derive(Debug)]
pub struct Remote {
    anonymous: Api,
    known: Option<Api>,
    token: Option<String>,
    /// True once the server has required the token.
    is_token_sent: Cell<bool>,
    /// The HTTP client for file contents.
    pub(super) agent: Agent,
    endpoint: String,
}

/// A file of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteFile {
    /// Its path in the repository.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// The checksum of the content.
    pub checksum: Checksum,
}

/// The files of a directory by name, with their checksums; empty if they are not known.
#[derive(Debug, Clone, Default)]
pub struct Published(pub(super) Vec<(String, Checksum)>);

/// The files of one commit.
#[derive(Debug, Clone)]
pub(super) struct Listing {
    pub(super) commit: String,
    pub(super) files: Vec<RemoteFile>,
}

/// The server's description of a repository.
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

/// A file in Git LFS.
#[derive(Deserialize)]
struct Large {
    sha256: String,
    size: u64,
}

impl Remote {
    /// Creates a connection. It sends nothing yet.
    ///
    /// # Errors
    /// [`HubError::NoHub`] for an invalid address; [`HubError::BadProxy`].
    pub fn new(access: &Access) -> Result<Self, HubError> {
        if let Some(variable) = access.bad_proxy {
            return Err(HubError::BadProxy { variable });
        }
        let endpoint = access.endpoint.as_deref().unwrap_or(ENDPOINT);
        let endpoint = endpoint.trim_end_matches('/').to_owned();
        let no_hub = |reason| HubError::NoHub { endpoint: endpoint.clone(), reason };
        if !["http://", "https://"].iter().any(|scheme| endpoint.starts_with(scheme)) {
            return Err(no_hub("its address does not begin with https:// or http://".to_owned()));
        }
        let api = |token: Option<String>| {
            // hf-hub's cache is not used: see `transfer`.
            ApiBuilder::from_cache(Cache::new(PathBuf::new()))
                .with_endpoint(endpoint.clone())
                .with_token(token)
                .with_user_agent("acestep", env!("CARGO_PKG_VERSION"))
                .with_progress(false)
                .build()
                .map_err(|error| no_hub(error.to_string()))
        };
        let agent = Agent::config_builder()
            .user_agent(concat!("acestep/", env!("CARGO_PKG_VERSION")))
            .redirect_auth_headers(RedirectAuthHeaders::SameHost)
            .timeout_connect(Some(PATIENCE))
            .timeout_recv_response(Some(PATIENCE))
            .timeout_per_read(Some(PATIENCE))
            .build()
            .into();
        let token = access.token.clone();
        let known = token.clone().map(|token| api(Some(token))).transpose()?;
        let (anonymous, is_token_sent) = (api(None)?, Cell::new(false));
        Ok(Self { anonymous, known, token, is_token_sent, agent, endpoint })
    }

    /// Returns the address of the hub.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Sends the token from now on. True if there is a token and it was not sent before.
    pub(super) fn sends_token(&self) -> bool {
        self.known.is_some() && !self.is_token_sent.replace(true)
    }

    /// Returns the token, if the server requires it.
    pub(super) fn token(&self) -> Option<&str> {
        self.token.as_deref().filter(|_| self.is_token_sent.get())
    }

    /// Returns the address of a file.
    pub(super) fn url(&self, repo: &str, commit: &str, path: &str) -> String {
        at(&self.anonymous, repo, commit).url(path)
    }

    /// Lists the files of `repo` at `revision` (a branch, a tag or a commit) that are `wanted`.
    pub(super) fn list(
        &self,
        repo: &str,
        revision: &str,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<Listing, HubError> {
        let text = self.ask(repo, revision)?;
        let no_hub = |reason| HubError::NoHub { endpoint: self.endpoint.clone(), reason };
        let answer: Answer = serde_json::from_str(&text)
            .map_err(|error| no_hub(format!("its list of `{repo}` is not one: {error}")))?;
        let is_commit = answer.sha.len() == 40 && Checksum::from_name(&answer.sha).is_some();
        if !is_commit {
            return Err(no_hub(format!("`{}` is no commit", answer.sha.escape_debug())));
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

    /// Returns the files and checksums of `release` at the newest commit.
    ///
    /// # Errors
    /// Errors of the connection.
    pub fn published(&self, release: &Release) -> Result<Published, HubError> {
        let listing = self.list(release.repo, "main", |path| release.name_of(path).is_some())?;
        let file =
            |file: RemoteFile| Some((release.name_of(&file.path)?.to_owned(), file.checksum));
        Ok(Published(listing.files.into_iter().filter_map(file).collect()))
    }

    /// Returns the list of `repo` as text. Sends no token unless the server requires it.
    fn ask(&self, repo: &str, revision: &str) -> Result<String, HubError> {
        let what = format!("revision `{revision}`");
        let (mut attempt, mut pause) = (1, PAUSE);
        loop {
            let api = self.known.as_ref().filter(|_| self.is_token_sent.get());
            let request = at(api.unwrap_or(&self.anonymous), repo, revision).info_request();
            let request = request.config().timeout_global(Some(PATIENCE)).build();
            let answer = request.query("blobs", "true").call();
            let error = match answer.and_then(|mut answer| answer.body_mut().read_to_string()) {
                Ok(text) => return Ok(text),
                Err(error) => error,
            };
            let hides = matches!(error, ureq::Error::StatusCode(401 | 403 | 404));
            if hides && self.sends_token() {
                continue;
            }
            if attempt >= ATTEMPTS || !is_passing(&error) {
                return Err(self.refused(error, repo, what));
            }
            thread::sleep(pause);
            (attempt, pause) = (attempt + 1, pause * 2);
        }
    }

    /// Converts `error` to the matching [`HubError`].
    pub(super) fn refused(&self, error: ureq::Error, repo: &str, what: String) -> HubError {
        let (repo, endpoint) = (repo.to_owned(), self.endpoint.clone());
        match error {
            ureq::Error::StatusCode(404) => HubError::NotFound { repo, what },
            ureq::Error::StatusCode(status @ (401 | 403)) => {
                HubError::Forbidden { repo, status, is_token_sent: self.token().is_some() }
            }
            ureq::Error::StatusCode(status) => HubError::Answered { endpoint, status },
            error => HubError::Unreachable { endpoint, source: Box::new(error) },
        }
    }
}

fn at(api: &Api, repo: &str, revision: &str) -> ApiRepo {
    api.repo(Repo::with_revision(repo.to_owned(), RepoType::Model, revision.to_owned()))
}

/// True if another attempt may succeed.
pub(super) fn is_passing(error: &ureq::Error) -> bool {
    matches!(
        error,
        ureq::Error::StatusCode(429 | 500..=599)
            | ureq::Error::Io(_)
            | ureq::Error::Timeout(_)
            | ureq::Error::Protocol(_)
            | ureq::Error::ConnectionFailed
    )
}
