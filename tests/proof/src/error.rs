//! Errors of this crate.

use std::{io, path::PathBuf};

/// Error of a proof.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file is no result of `bench`, or no list of another program's times.
    #[error("`{}` is not {what}", path.display())]
    NotResults {
        /// The file.
        path: PathBuf,
        /// Its expected content.
        what: &'static str,
        /// The remedy.
        hint: &'static str,
        /// The first difference.
        source: serde_json::Error,
    },

    /// A result of `bench` is empty.
    #[error("`{}` has no stage in it", path.display())]
    NoStages {
        /// The file.
        path: PathBuf,
        /// The remedy.
        hint: &'static str,
    },

    /// Another program's time is not positive.
    #[error("`{}` has a time of {seconds} s", path.display())]
    NoTime {
        /// The file.
        path: PathBuf,
        /// The time.
        seconds: f64,
        /// The remedy.
        hint: &'static str,
    },

    /// The end of a section is missing on a page.
    #[error("`{}` has no end of the section `{name}`", path.display())]
    NoEnd {
        /// The page.
        path: PathBuf,
        /// The section.
        name: String,
        /// The missing line.
        end: &'static str,
    },

    /// The device does not compute.
    #[error("{device} cannot be used: {problem}")]
    Unusable {
        /// The device.
        device: String,
        /// The reason.
        problem: String,
    },

    /// A folder of goldens does not exist.
    #[error("there are no goldens in `{}`", path.display())]
    NoGoldens {
        /// The folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },

    /// A folder has no usable tokenizer.
    #[error("{problem}")]
    NoTokenizer {
        /// The folder and its problem.
        problem: String,
        /// The remedy.
        hint: String,
    },

    /// A child process finished nothing.
    #[error("nothing can be computed there: {0}")]
    NothingFinished(String),

    /// A child process could not go on.
    #[error("{message}")]
    Child {
        /// Its error.
        message: String,
        /// Its remedy.
        hint: Option<String>,
    },

    /// Standard output cannot be written.
    #[error("cannot write to standard output")]
    Output(#[source] io::Error),

    /// The device is unusable after a failure; the remaining cases need another process.
    #[error("the device is unusable after a failure")]
    DeviceGone,
}

impl Error {
    /// Returns the remedy. It names settings as `` `key` `` or `` `key: value` ``.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NotResults { hint, .. }
            | Self::NoStages { hint, .. }
            | Self::NoTime { hint, .. } => Some((*hint).to_owned()),
            Self::NoEnd { end, .. } => {
                Some(format!("put `{end}` behind it, or remove the section's first line"))
            }
            Self::Unusable { .. } => Some("pass `device: cpu` to try the check itself".to_owned()),
            Self::NoGoldens { .. } => {
                Some("`goldens` names a directory such as tests/goldens/a of the source".to_owned())
            }
            Self::NoTokenizer { hint, .. } => Some(hint.clone()),
            Self::NothingFinished(_) => Some("another `device` may work".to_owned()),
            Self::Child { hint, .. } => hint.clone(),
            Self::Output(_) | Self::DeviceGone => None,
        }
    }
}
