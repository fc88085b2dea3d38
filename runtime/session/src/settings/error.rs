//! Settings that cannot be used.

use std::{io, path::PathBuf};

use acestep_engine::{Error, error::FamilyError};

use super::SetBy;

/// Settings that cannot be used; inside [`acestep_engine::Error::Family`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields hold")]
pub enum SettingsError {
    /// A file that cannot be read.
    #[error("the configuration `{}` cannot be used", .path.display())]
    Unread { path: PathBuf, source: io::Error },
    /// A file with a wrong key or value.
    #[error("the configuration `{}` cannot be used", .path.display())]
    Wrong { path: PathBuf, source: FileProblem },
    /// A variable that is no text.
    #[error("the variable {0} is not UTF-8")]
    NotText(String),
    /// A variable with a value that its key does not take.
    #[error("the variable {name} is `{value}`: {why}")]
    Variable { name: String, value: String, why: String },
    /// Defaults of requests that are none.
    #[error("the defaults of requests cannot be used ({origins})")]
    Defaults { origins: String, source: Box<Error> },
    /// A file in place of the models directory.
    #[error("the models directory `{path}` ({origin}) is a file")]
    NoFolder { path: String, origin: SetBy },
}

/// Reason why a file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct FileProblem(pub(super) String);

impl FamilyError for SettingsError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Unread { .. } => "name another file, or read none".into(),
            Self::Wrong { .. } => "mend it there, or read no file".into(),
            Self::NotText(_) => "set it again".into(),
            Self::Variable { .. } => "set it to another value, or unset it".into(),
            Self::Defaults { source, .. } => return source.hint(),
            Self::NoFolder { .. } => "name a directory".into(),
        })
    }

    fn is_usage(&self) -> bool {
        match self {
            Self::Unread { .. } | Self::Wrong { .. } | Self::Defaults { .. } => false,
            Self::NotText(_) | Self::Variable { .. } | Self::NoFolder { .. } => true,
        }
    }
}
