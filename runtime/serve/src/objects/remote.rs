//! A place of files beyond this machine.

use std::{io, path::Path, time::Duration};

/// A place of files that all machines reach.
pub trait RemoteFiles: Send + Sync + 'static {
    /// Stores the file `from`.
    ///
    /// # Errors
    /// If it cannot be read or stored.
    fn put(&self, key: &str, from: &Path) -> io::Result<()>;
    /// Stores files of the folder `from`, so that [`RemoteFiles::remove_folder`] finds them all, even
    /// after half of them.
    ///
    /// # Errors
    /// If one cannot be read or stored.
    fn put_folder(&self, folder: &str, names: &[String], from: &Path) -> io::Result<()>;
    /// Writes a stored file to `to`.
    ///
    /// # Errors
    /// `NotFound` if there is none.
    fn get(&self, key: &str, to: &Path) -> io::Result<()>;
    /// Removes a file; one that is not there is no error.
    ///
    /// # Errors
    /// If it cannot be removed.
    fn remove(&self, key: &str) -> io::Result<()>;
    /// Removes the files of a folder; one that is not there is no error.
    ///
    /// # Errors
    /// If one cannot be removed.
    fn remove_folder(&self, folder: &str) -> io::Result<()>;
    /// Returns the names of files of the folder that are older than `age`.
    ///
    /// # Errors
    /// If they cannot be listed.
    fn older_than(&self, folder: &str, age: Duration) -> io::Result<Vec<String>>;
}
