//! An error that only the command line can see.

use crate::exit::{FAILED, USAGE};

/// An error that only the command line can see, with its remedy.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct CliError {
    message: String,
    pub(crate) hint: Option<String>,
    pub(crate) code: u8,
    #[source]
    cause: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl CliError {
    /// Returns an error for something that cannot be done.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, code: FAILED, cause: None }
    }

    /// Returns an error for a wrong command line.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { code: USAGE, ..Self::new(message) }
    }

    /// Adds the cause.
    pub(crate) fn because(self, cause: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self { cause: Some(Box::new(cause)), ..self }
    }

    /// Adds the remedy.
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}
