//! A value that is borrowed, or shared with others that live longer.

use std::{ops::Deref, sync::Arc};

/// A value that is borrowed for `'a`, or shared.
#[derive(Debug)]
pub enum SharedRef<'a, T: ?Sized> {
    /// Borrowed.
    Borrowed(&'a T),
    /// Shared: `'a` may be any lifetime.
    Shared(Arc<T>),
}

impl<T: ?Sized> Deref for SharedRef<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        match self {
            Self::Borrowed(value) => value,
            Self::Shared(value) => value,
        }
    }
}

impl<T: ?Sized> Clone for SharedRef<'_, T> {
    fn clone(&self) -> Self {
        match self {
            Self::Borrowed(value) => Self::Borrowed(value),
            Self::Shared(value) => Self::Shared(value.clone()),
        }
    }
}
