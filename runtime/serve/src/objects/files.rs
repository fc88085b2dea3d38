//! Files that clients sent.

use std::{fs, io, path::PathBuf, time::Duration};

use uuid::Uuid;

use super::{Objects, missing_is_fine, sync_folder};

impl Objects {
    /// Keeps a complete upload as the file `id`, and sends it to where all machines reach it.
    pub(crate) fn keep_file(&self, whole: tempfile::TempPath, id: Uuid) -> io::Result<()> {
        whole.persist(self.file(id)).map_err(|error| error.error)?;
        sync_folder(&self.incoming())?;
        let Some(remote) = &self.remote else { return Ok(()) };
        remote.put(&format!("files/{id}"), &self.file(id))?;
        self.copies.added(&self.root);
        Ok(())
    }

    /// The place of a file that a client sent. With files elsewhere: after it was fetched.
    pub fn file(&self, id: Uuid) -> PathBuf {
        self.incoming().join(id.to_string())
    }

    /// Returns `text` without the folder of these files: a client knows them by their ids.
    pub(crate) fn without_places(&self, text: &str) -> String {
        let folder = self.root.join("files").join("");
        text.replace(&*folder.to_string_lossy(), "")
    }

    /// Removes a file that a client sent.
    pub(crate) fn remove_file(&self, id: Uuid) -> io::Result<()> {
        if let Some(remote) = &self.remote {
            remote.remove(&format!("files/{id}"))?;
        }
        missing_is_fine(fs::remove_file(self.file(id)))
    }

    /// Returns the files of clients that are older than `age`: those elsewhere, if files lie there.
    pub(crate) fn files_older_than(&self, age: Duration) -> io::Result<Vec<Uuid>> {
        let names = match &self.remote {
            Some(remote) => remote.older_than("files", age)?,
            None => self.names_older_than(age)?,
        };
        Ok(names.iter().filter_map(|name| Uuid::parse_str(name).ok()).collect())
    }

    /// Removes parts of uploads that nobody wrote to for `age`.
    pub(crate) fn remove_parts(&self, age: Duration) -> io::Result<()> {
        let names = self.names_older_than(age)?;
        let mut parts = names.iter().filter(|name| name.starts_with(".tmp"));
        parts.try_for_each(|part| missing_is_fine(fs::remove_file(self.incoming().join(part))))
    }

    /// The names of the files here, and of parts of them, that nobody wrote to for `age`.
    fn names_older_than(&self, age: Duration) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.incoming())? {
            let entry = entry?;
            // It may be removed meanwhile, or a part may become a file.
            let Ok(time) = entry.metadata().and_then(|data| data.modified()) else { continue };
            if time.elapsed().is_ok_and(|since| since >= age) {
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        Ok(names)
    }

    /// The folder of files that clients sent, for files that are not complete yet.
    pub fn incoming(&self) -> PathBuf {
        self.root.join("files")
    }
}
