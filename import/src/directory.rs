//! A directory of checkpoint files: on disk, built into the program, or what another program's file
//! holds of one.

use std::{
    fs, io,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{Error, Format, foreign::Foreign, mapped::Mapped, pointer};

/// Where files are read from.
#[derive(Debug, Clone)]
pub enum Directory {
    /// A directory of the file system.
    Disk(PathBuf),
    /// Files that the program carries: a name for messages, then (file name, content).
    Embedded(&'static str, &'static [(&'static str, &'static [u8])]),
    /// What another program's file holds, under the names of the released layout.
    Foreign(Arc<Foreign>),
}

impl Directory {
    /// The path of `file` in this directory, for messages.
    pub fn path(&self, file: &str) -> PathBuf {
        match self {
            Self::Disk(_) | Self::Embedded(..) => self.root().join(file),
            Self::Foreign(foreign) => foreign.origin(file).to_owned(),
        }
    }

    /// The directory itself, for messages.
    pub fn root(&self) -> &Path {
        match self {
            Self::Disk(path) => path,
            Self::Embedded(name, _) => Path::new(name),
            Self::Foreign(foreign) => foreign.root(),
        }
    }

    /// Whose layout it has.
    pub fn format(&self) -> Format {
        match self {
            Self::Disk(_) => Format::Released,
            Self::Embedded(..) => Format::BuiltIn,
            Self::Foreign(foreign) => foreign.format(),
        }
    }

    /// What is worth saying when it is used: lower case, no full stop.
    pub fn notices(&self) -> &[String] {
        match self {
            Self::Disk(_) | Self::Embedded(..) => &[],
            Self::Foreign(foreign) => foreign.notices(),
        }
    }

    /// Whether `file` is here.
    pub fn has(&self, file: &str) -> bool {
        match self {
            Self::Disk(path) => path.join(file).is_file(),
            Self::Embedded(_, files) => files.iter().any(|(name, _)| *name == file),
            Self::Foreign(foreign) => foreign.text(file).is_some(),
        }
    }

    /// The content of `file`, mapped into memory rather than read.
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

    /// The content of the file at `path`, mapped into memory rather than read.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn open_file(path: &Path) -> Result<Bytes, Error> {
        let mapped = Mapped::open(path);
        mapped.map(Bytes::Mapped).map_err(|source| Error::Io { path: path.to_owned(), source })
    }

    /// The content of a text file.
    ///
    /// # Errors
    /// As [`Directory::open`]; [`Error::NotJson`] if it is not UTF-8 (all our text files are JSON
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
        // Some editors put a mark before it.
        text.map(|text| text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
            .map_err(|error| Error::NotJson { path, reason: format!("not UTF-8: {error}") })
    }

    /// Whether the directory exists at all; an embedded one does.
    ///
    /// # Errors
    /// [`Error::NotADirectory`] for a file, [`Error::Io`] for nothing.
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
    /// A part of the program.
    Static(&'static [u8]),
}

impl Bytes {
    /// Everything.
    pub fn all(&self) -> &[u8] {
        match self {
            Self::Mapped(mapped) => mapped,
            Self::Static(bytes) => bytes,
        }
    }

    /// Checks that the file at `path`, this one, is still what it was when it was opened.
    ///
    /// # Errors
    /// [`Error::Changed`]; [`Error::Io`] where the file can no longer be asked.
    pub(crate) fn check(&self, path: &Path) -> Result<(), Error> {
        match self {
            Self::Mapped(mapped) => mapped.check(path),
            Self::Static(_) => Ok(()),
        }
    }

    /// Gives the pages of `range` back to the system: they are in the file if needed again.
    pub(crate) fn forget(&self, range: Range<usize>) {
        if let Self::Mapped(mapped) = self {
            mapped.forget(range);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with a byte order mark, as some editors on Windows write it, is read.
    #[test]
    fn a_mark_before_a_text_is_no_part_of_it() -> Result<(), Error> {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("config.json"), "\u{feff}{}").expect("a file");
        assert_eq!(Directory::Disk(folder.path().to_owned()).text("config.json")?, "{}");
        Ok(())
    }
}
