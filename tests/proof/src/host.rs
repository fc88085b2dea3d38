//! The program around this crate.

use std::{io, path::Path};

/// The program that runs a proof: its messages, its standard output, and its Ctrl-C.
pub trait Host: Sync {
    /// Shows a line of progress.
    fn line(&self, text: &str);

    /// Shows a note: information that does not stop the run. It names settings as `` `key` `` or
    /// `` `key: value` ``.
    fn note(&self, text: &str);

    /// Passes on a line that a child process wrote to its standard error.
    fn pass_on(&self, line: &str);

    /// Writes a line to standard output, for the parent process.
    ///
    /// # Errors
    /// If standard output is closed or full.
    fn output(&self, line: &str) -> io::Result<()>;

    /// Writes a file, which the second press of Ctrl-C does not cut.
    ///
    /// # Errors
    /// If the file cannot be written.
    fn write(&self, path: &Path, text: &str) -> io::Result<()>;

    /// True if the user wants to stop.
    fn is_cancelled(&self) -> bool;

    /// Returns the remedy of an error.
    fn hint(&self, error: &anyhow::Error) -> Option<String>;
}

/// A program that shows nothing.
#[cfg(test)]
pub(crate) struct Silent {
    is_cancelled: bool,
}

/// A program that shows nothing and is never stopped.
#[cfg(test)]
pub(crate) const QUIET: Silent = Silent { is_cancelled: false };

/// A program that shows nothing and was told to stop.
#[cfg(test)]
pub(crate) const CANCELLED: Silent = Silent { is_cancelled: true };

#[cfg(test)]
impl Host for Silent {
    fn line(&self, _: &str) {}

    fn note(&self, _: &str) {}

    fn pass_on(&self, _: &str) {}

    fn output(&self, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        std::fs::write(path, text)
    }

    fn is_cancelled(&self) -> bool {
        self.is_cancelled
    }

    fn hint(&self, error: &anyhow::Error) -> Option<String> {
        error.downcast_ref::<crate::Error>().and_then(crate::Error::hint)
    }
}
