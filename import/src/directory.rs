//! A directory of checkpoint files: on disk, built into the program, or backed by another program's
//! file.

use std::{
    fs, io,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{Error, Format, foreign::Foreign, mapped::Mapped, pointer};

/// Source of files.
#[derive(Debug, Clone)]
pub enum Directory {
    /// A directory of the file system.
    Disk(PathBuf),
    /// Files inside the program: a name for messages, then (file name, content).
    Embedded(&'static str, &'static [(&'static str, &'static [u8])]),
    /// Content of another program's file, under the names of the released layout.
    Foreign(Arc<Foreign>),
}

impl Directory {
    /// Returns the path of `file` in this directory, for messages.
    pub fn path(&self, file: &str) -> PathBuf {
        match self {
            Self::Disk(_) | Self::Embedded(..) => self.root().join(file),
            Self::Foreign(foreign) => foreign.origin(file).to_owned(),
        }
    }

    /// Returns the path of the directory itself, for messages.
    pub fn root(&self) -> &Path {
        match self {
            Self::Disk(path) => path,
            Self::Embedded(name, _) => Path::new(name),
            Self::Foreign(foreign) => foreign.root(),
        }
    }

    /// Returns the format of its layout.
    pub fn format(&self) -> Format {
        match self {
            Self::Disk(_) => Format::Released,
            Self::Embedded(..) => Format::BuiltIn,
            Self::Foreign(foreign) => foreign.format(),
        }
    }

    /// Returns notices to print when it is used: lower case, no full stop.
    pub fn notices(&self) -> &[String] {
        match self {
            Self::Disk(_) | Self::Embedded(..) => &[],
            Self::Foreign(foreign) => foreign.notices(),
        }
    }

    /// True if the directory has `file`.
    pub fn has(&self, file: &str) -> bool {
        match self {
            Self::Disk(path) => path.join(file).is_file(),
            Self::Embedded(_, files) => files.iter().any(|(name, _)| *name == file),
            Self::Foreign(foreign) => foreign.text(file).is_some(),
        }
    }

    /// Maps the content of `file` into memory.
    ///
    /// # Errors
    /// [`Error::MissingFile`], [`Error::Io`].
    pub fn open(&self, file: &str) -> Result<Bytes, Error> {
        let missing = || Error::MissingFile { path: self.path(file), alternatives: String::new() };
        match self {
            Self::Disk(_) if !self.has(file) => Err(missing()),
            Self::Disk(_) => Self::open_file(&self.path(file)),
            Self::Embedded(_, files) => {
                let (_, content) =
                    files.iter().find(|(name, _)| *name == file).ok_or_else(missing)?;
                Ok(Bytes::Static(content))
            }
            Self::Foreign(foreign) => Err(foreign.missing()),
        }
    }

    /// Maps the content of the file at `path` into memory.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn open_file(path: &Path) -> Result<Bytes, Error> {
        let mapped = Mapped::open(path);
        mapped.map(Bytes::Mapped).map_err(|source| Error::Io { path: path.to_owned(), source })
    }

    /// Reads the content of a text file.
    ///
    /// # Errors
    /// As [`Directory::open`]; [`Error::NotJson`] if it is not UTF-8 (all these text files are JSON
    /// or lists of merges).
    pub fn text(&self, file: &str) -> Result<String, Error> {
        let path = self.path(file);
        let content = match self {
            Self::Disk(_) if self.has(file) => {
                fs::read(&path).map_err(|source| Error::Io { path: path.clone(), source })?
            }
            Self::Foreign(foreign) => {
                let text = foreign.text(file).ok_or_else(|| foreign.missing())?;
                return Ok(text.to_owned());
            }
            _ => self.open(file)?.all().to_vec(),
        };
        pointer::refuse(&path, &content)?;
        let text = String::from_utf8(content);
        // Some editors write a byte order mark first.
        text.map(|text| text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
            .map_err(|error| Error::NotJson { path, reason: format!("not UTF-8: {error}") })
    }

    /// Checks that the directory exists; an embedded one always does.
    ///
    /// # Errors
    /// [`Error::NotADirectory`] for a file, [`Error::Io`] if nothing is there.
    pub fn check(&self) -> Result<(), Error> {
        match self {
            Self::Disk(path) if path.is_dir() => Ok(()),
            Self::Disk(path) if path.exists() => Err(Error::NotADirectory { path: path.clone() }),
            Self::Disk(path) => {
                let source = io::Error::from(io::ErrorKind::NotFound);
                Err(Error::Io { path: path.clone(), source })
            }
            Self::Embedded(..) | Self::Foreign(_) => Ok(()),
        }
    }
}

/// The bytes of one file.
#[derive(Debug)]
pub enum Bytes {
    /// A mapped file.
    Mapped(Mapped),
    /// Static data of the program.
    Static(&'static [u8]),
}

impl Bytes {
    /// Returns all bytes.
    pub fn all(&self) -> &[u8] {
        match self {
            Self::Mapped(mapped) => mapped,
            Self::Static(bytes) => bytes,
        }
    }

    /// Checks that the file at `path`, which is this one, has not changed since it was opened.
    ///
    /// # Errors
    /// [`Error::Changed`]; [`Error::Io`] if the file can no longer be queried.
    pub(crate) fn check(&self, path: &Path) -> Result<(), Error> {
        match self {
            Self::Mapped(mapped) => mapped.check(path),
            Self::Static(_) => Ok(()),
        }
    }

    /// Releases the pages of `range`. The system reads them from the file again if needed.
    pub(crate) fn forget(&self, range: Range<usize>) {
        if let Self::Mapped(mapped) = self {
            mapped.forget(range);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with a byte order mark, as some editors on Windows write it, is accepted.
    #[test]
    fn a_mark_before_a_text_is_no_part_of_it() -> Result<(), Error> {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("config.json"), "\u{feff}{}").expect("a file");
        assert_eq!(Directory::Disk(folder.path().to_owned()).text("config.json")?, "{}");
        Ok(())
    }
}
