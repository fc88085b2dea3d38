//! The folder of kept voices: a file for each, named as the voice.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use acestep_engine::{Action, Error};

use crate::error::SpeechError;

const EXTENSION: &str = "safetensors";
/// Longest name, in bytes: every file system takes it with the extension.
const LONGEST: usize = 100;

/// A folder of kept voices.
#[derive(Debug, Clone)]
pub struct Voices {
    folder: PathBuf,
}

impl Voices {
    /// The voices in `folder`, which need not exist.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the path of the voice called `name`, which need not exist.
    ///
    /// # Errors
    /// [`SpeechError::VoiceName`].
    pub fn path(&self, name: &str) -> Result<PathBuf, Error> {
        let is_allowed = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || name.len() > LONGEST || !name.chars().all(is_allowed) {
            return Err(SpeechError::VoiceName { name: name.to_owned() }.into());
        }
        Ok(self.folder.join(format!("{name}.{EXTENSION}")))
    }

    /// Returns the names of all voices, sorted.
    ///
    /// # Errors
    /// [`Error::File`] if the folder cannot be read.
    pub fn names(&self) -> Result<Vec<String>, Error> {
        let file = |source| Error::File { action: Action::Read, path: self.folder.clone(), source };
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(file(error)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let path = entry.map_err(file)?.path();
            let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
            let is_named = path.extension().is_some_and(|own| own == EXTENSION);
            // As in [`Self::existing`].
            if is_named && self.path(name).is_ok() && path.is_file() {
                names.push(name.to_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    /// Creates the folder if it is missing.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn create(&self) -> Result<(), Error> {
        fs::create_dir_all(&self.folder).map_err(|source| Error::File {
            action: Action::Create,
            path: self.folder.clone(),
            source,
        })
    }

    /// Deletes the voice called `name`.
    ///
    /// # Errors
    /// [`SpeechError::NoSuchVoice`]; [`Error::File`].
    pub fn remove(&self, name: &str) -> Result<(), Error> {
        let path = self.existing(name)?;
        let file = |source| Error::File { action: Action::Delete, path: path.clone(), source };
        fs::remove_file(&path).map_err(file)
    }

    /// Returns the path of the file of the voice called `name`.
    ///
    /// # Errors
    /// [`SpeechError::NoSuchVoice`].
    pub fn existing(&self, name: &str) -> Result<PathBuf, Error> {
        if let Some(path) = self.path(name).ok().filter(|path| path.is_file()) {
            return Ok(path);
        }
        Err(SpeechError::NoSuchVoice { name: name.to_owned(), names: self.names()? }.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_letters_digits_and_two_marks() {
        let voices = Voices::new(PathBuf::from("voices"));
        for name in ["me", "Anna-2", "après", "声"] {
            assert!(voices.path(name).is_ok(), "{name}");
        }
        for name in ["", ".", "a/b", "../me", "a b", "me.wav", &"a".repeat(101)] {
            assert!(voices.path(name).is_err(), "{name}");
        }
    }

    #[test]
    fn only_files_of_voices_are_listed_and_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let voices = Voices::new(folder.path().join("below"));
        assert_eq!(voices.names().expect("nothing"), [""; 0]);
        voices.create().expect("a folder");
        for file in ["zoe.safetensors", "anna.safetensors", "a b.safetensors", "me.wav"] {
            fs::write(voices.folder().join(file), "").expect("a file");
        }
        fs::create_dir(voices.folder().join("bob.safetensors")).expect("a folder");
        assert_eq!(voices.names().expect("two"), ["anna", "zoe"]);
        let error = voices.existing("ana").expect_err("a wrong name").to_string();
        assert!(error.contains("`ana`"), "{error}");
        voices.remove("zoe").expect("a file");
        assert_eq!(voices.names().expect("one"), ["anna"]);
        assert!(voices.remove("zoe").is_err());
    }
}
