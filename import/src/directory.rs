//! A directory of checkpoint files: on disk, built into the program, or what another program's file
//! holds of one.

use std::{
    fs::{self, File},
    io,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

use memmap2::Mmap;

use crate::{Error, Format, foreign::Foreign, pointer};

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
        Bytes::map(path).map_err(|source| Error::Io { path: path.to_owned(), source })
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
    /// A mapped file; the handle stays so that its length can be asked again.
    Mapped(Mmap, File),
    /// A part of the program.
    Static(&'static [u8]),
}

impl Bytes {
    #[expect(unsafe_code, reason = "a memory map has no safe constructor")]
    fn map(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        // SAFETY: the map is read-only and private to this process. Another process could still
        // write to the file or shorten it: checkpoints are files that nobody writes while they
        // are used, and `current_len` is asked before every read. A change in the midst of one read,
        // or while a network has its weights in the map, changes numbers; a file that becomes shorter
        // then ends the process when what is gone is read.
        let map = unsafe { Mmap::map(&file)? };
        Ok(Self::Mapped(map, file))
    }

    /// Everything.
    pub fn all(&self) -> &[u8] {
        match self {
            Self::Mapped(map, _) => map,
            Self::Static(bytes) => bytes,
        }
    }

    /// The length of the file now, which may be less than what was mapped.
    ///
    /// # Errors
    /// What the system says, where the file can no longer be asked.
    pub fn current_len(&self) -> io::Result<u64> {
        match self {
            Self::Mapped(_, file) => Ok(file.metadata()?.len()),
            Self::Static(bytes) => Ok(bytes.len() as u64),
        }
    }

    /// Gives the pages of `range` back to the system: they are in the file if needed again.
    ///
    /// Without it a process that has read a file of 4.8 GB counts those as its own memory.
    #[cfg_attr(unix, expect(unsafe_code, reason = "giving pages back is an unchecked advice"))]
    pub fn forget(&self, range: Range<usize>) {
        #[cfg(unix)]
        if let Self::Mapped(map, _) = self {
            // The page that the next tensor shares is left to it; the first one is rounded down.
            const PAGE: usize = 4096;
            let end = if range.end >= map.len() { map.len() } else { range.end / PAGE * PAGE };
            let start = range.start / PAGE * PAGE;
            if start < end {
                // SAFETY: a read-only map of a file: pages that are dropped are read again from
                // the file with the same content, so no reference sees a change.
                let given = unsafe {
                    let advice = memmap2::UncheckedAdvice::DontNeed;
                    map.unchecked_advise_range(advice, start, end - start)
                };
                // It is only advice: a system that refuses it keeps more pages, nothing else.
                drop(given);
            }
        }
        #[cfg(not(unix))]
        let _ = range;
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

    #[test]
    fn forgotten_pages_read_the_same_again() -> io::Result<()> {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("file");
        let content: Vec<u8> = (0..50_000_u32).map(|i| (i % 251) as u8).collect();
        fs::write(&path, &content)?;
        let bytes = Bytes::map(&path)?;
        for range in [0..50_000, 1..2, 4095..8193, 49_000..50_000, 7..7] {
            bytes.forget(range);
            assert_eq!(bytes.all(), &content);
        }
        Ok(())
    }
}
