//! Errors between the hub and this machine.

use std::{io, path::PathBuf};

/// An error while models are pulled, verified or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what most fields hold")]
pub enum HubError {
    /// The server cannot be reached, or its answer is not HTTP.
    #[error("`{endpoint}` cannot be reached")]
    Unreachable { endpoint: String, source: Box<dyn std::error::Error + Send + Sync> },
    /// A proxy of another protocol, or no address.
    #[error("the address of the proxy in {variable} cannot be used")]
    BadProxy { variable: &'static str },
    /// The connection broke repeatedly.
    #[error("the transfer of `{file}` broke off {attempts} times")]
    Broken {
        /// The file in its repository.
        file: String,
        attempts: u32,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// No such repository, commit or file.
    #[error("`{repo}` has no {what}, or does not exist")]
    NotFound { repo: String, what: String },
    /// The server requires a token, or another one.
    #[error("`{repo}` may not be read: the server answered {status}")]
    Forbidden {
        repo: String,
        status: u16,
        /// True if a token was sent.
        is_token_sent: bool,
    },
    /// The server answered with another status.
    #[error("`{endpoint}` answered {status}")]
    Answered { endpoint: String, status: u16 },
    /// The answer of the server is invalid.
    #[error("`{endpoint}` is not a hub that can be used: {reason}")]
    NoHub { endpoint: String, reason: String },
    /// The received file is not the published one.
    #[error("`{file}` of `{repo}` was damaged on its way: its checksum is not {expected}")]
    Damaged { repo: String, file: String, expected: String },
    /// Another run of this program fetches or deletes the same file.
    #[error("another run is fetching or taking away `{file}`")]
    Locked { file: String },
    /// The operating system refused.
    #[error("cannot write to or read from `{}`", path.display())]
    Disk { path: PathBuf, source: io::Error },
    /// The operating system refused access to the data directory with the pins and locks.
    #[error("cannot write to or read from `{}`", path.display())]
    Data { path: PathBuf, source: io::Error },
    /// The file of the pins is invalid.
    #[error("`{}` does not say what was pulled: {reason}", path.display())]
    BadPins { path: PathBuf, reason: String },
}

impl HubError {
    /// Returns the remedy, if one is known: a sentence without a full stop.
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Unreachable { .. } => {
                "check the connection; HF_ENDPOINT names another server, HTTPS_PROXY a proxy"
            }
            Self::BadProxy { .. } => {
                "write http://HOST:PORT or https://HOST:PORT, or leave it unset"
            }
            Self::Broken { .. } => "run it again: it goes on where it stopped",
            Self::NotFound { .. } => {
                "check `revision` and HF_ENDPOINT; a mirror may not have every model"
            }
            Self::Forbidden { is_token_sent: true, .. } => {
                "the token of HF_TOKEN, or of `hf auth login`, was sent: take one that may read it"
            }
            Self::Forbidden { .. } => {
                "give a token that may read it with HF_TOKEN, or run `hf auth login`"
            }
            Self::Answered { status: 429, .. } => "wait some minutes: it was asked too often",
            Self::Answered { .. } => "try again later: the fault is the server's",
            Self::NoHub { .. } => "check HF_ENDPOINT, and whether a proxy answers in its place",
            Self::Damaged { .. } => {
                "what was received has been thrown away: run it again; if it happens again, a proxy \
                 or the disk is at fault"
            }
            Self::Locked { .. } => "wait for it, then run this again",
            Self::Data { source, .. } if is_full(source) => {
                "free some space, or name another disk with XDG_DATA_HOME (Windows: APPDATA)"
            }
            Self::Disk { source, .. } if is_full(source) => {
                "free some space, or name another disk with HF_HOME or HF_HUB_CACHE; what was received is \
                 kept"
            }
            Self::Disk { source, .. } if is_denied(source) && cfg!(windows) => {
                "end the programs that use this model; if none does, name a directory of your own with \
                 HF_HOME or HF_HUB_CACHE"
            }
            Self::Disk { source, .. } if is_denied(source) => {
                "it is only for others to write to: name a directory of your own with HF_HOME or \
                 HF_HUB_CACHE"
            }
            Self::Data { source, .. } if is_denied(source) => {
                "the program notes there what it has pulled: name a directory that you may write to with \
                 XDG_DATA_HOME (Windows: APPDATA)"
            }
            Self::Disk { .. } | Self::Data { .. } => {
                "check that the path is right and that you may read and write it"
            }
            Self::BadPins { .. } => {
                "delete the file, and pull the models again: nothing is fetched twice"
            }
        };
        Some(text.to_owned())
    }
}

fn is_denied(error: &io::Error) -> bool {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem)
}

fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}
