//! Errors of a model family inside the engine's error.

use std::{
    error::Error as StdError,
    fmt::{self, Display, Formatter},
};

use super::Error;

/// An error that only one model family has.
pub trait FamilyError: StdError + Send + Sync + 'static {
    /// Returns the remedy in one sentence, if one is known.
    fn hint(&self) -> Option<String>;

    /// True if a value of the request is wrong.
    fn is_usage(&self) -> bool;
}

/// An error of a model family.
#[derive(Debug)]
pub struct BoxedFamilyError(Box<dyn FamilyError>);

impl Display for BoxedFamilyError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StdError for BoxedFamilyError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source()
    }
}

impl<T: FamilyError> From<T> for Error {
    fn from(error: T) -> Self {
        Self::Family(BoxedFamilyError(Box::new(error)))
    }
}

impl Error {
    /// Returns the family's error, if this is one of type `T`.
    pub fn family<T: FamilyError>(&self) -> Option<&T> {
        let Self::Family(BoxedFamilyError(error)) = self else { return None };
        let error: &(dyn StdError + 'static) = &**error;
        error.downcast_ref()
    }

    /// True if a value of the request is wrong.
    pub fn is_usage(&self) -> bool {
        match self {
            Self::OutOfRange { .. }
            | Self::BadValue { .. }
            | Self::Conflict(_)
            | Self::NotBuiltIn { .. } => true,
            Self::Family(BoxedFamilyError(error)) => error.is_usage(),
            _ => false,
        }
    }

    pub(super) fn family_hint(&self) -> Option<String> {
        let Self::Family(BoxedFamilyError(error)) = self else { return None };
        error.hint()
    }
}
