//! A file in memory that other programs may write to meanwhile.
//!
//! A map shows the file as it is now: what is written into the file is seen in it, and where the file
//! was cut there is nothing behind the page, so that reading there ends the process (SIGBUS). Weights
//! are used where they are mapped, for minutes. So
//!
//! - what reads behind the end of a file finds zeros instead, and it is noted: [`guard`];
//! - [`Mapped::check`] compares length and time of writing with those at opening. It is asked before and
//!   after each tensor is read, and after each stage of a song, whose result is then thrown away.
//!
//! A file that is renamed over another one changes nothing: the open file is the old one.

use std::{
    fs::File,
    io,
    ops::{Deref, Range},
    path::Path,
    time::SystemTime,
};

use memmap2::Mmap;

use crate::Error;

mod guard;

/// A mapped file; the handle stays so that it can be asked again what it is now.
#[derive(Debug)]
pub struct Mapped {
    /// Let go before the map is: what lies at its place then may be something else.
    guard: guard::Guard,
    map: Mmap,
    file: File,
    stamp: Stamp,
}

/// Length and time of writing, which tell that a file was written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    len: u64,
    /// `None` where the system does not know.
    modified: Option<SystemTime>,
}

impl Stamp {
    fn of(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        Ok(Self { len: metadata.len(), modified: metadata.modified().ok() })
    }
}

impl Mapped {
    /// Maps the file at `path`.
    ///
    /// # Errors
    /// The errors of the system.
    #[expect(unsafe_code, reason = "a memory map has no safe constructor")]
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let stamp = Stamp::of(&file)?;
        // SAFETY: the map is read-only and private to this process. Another process may write to the
        // file or cut it: then numbers change under references to them, which are read as numbers of
        // any value and nothing else, and `check` finds it before they are used for anything.
        let map = unsafe { Mmap::map(&file)? };
        let guard = guard::Guard::of(&map)?;
        Ok(Self { guard, map, file, stamp })
    }

    /// Checks that the file at `path`, this one, is still what it was when it was opened.
    ///
    /// # Errors
    /// [`Error::Changed`], [`Error::Io`].
    pub(crate) fn check(&self, path: &Path) -> Result<(), Error> {
        let now =
            Stamp::of(&self.file).map_err(|source| Error::Io { path: path.to_owned(), source })?;
        let how = match now.len.cmp(&self.stamp.len) {
            std::cmp::Ordering::Less => {
                format!("was cut from {} bytes to {}", self.stamp.len, now.len)
            }
            _ if now != self.stamp => "was written to".to_owned(),
            _ if self.guard.is_hit() => "could not be read any more".to_owned(),
            _ => return Ok(()),
        };
        Err(Error::Changed { path: path.to_owned(), how })
    }

    /// Gives the pages of `range` back to the system: they are in the file if needed again.
    ///
    /// Without it a process that has read a file of 4.8 GB counts those as its own memory.
    #[cfg_attr(unix, expect(unsafe_code, reason = "giving pages back is an unchecked advice"))]
    pub(crate) fn forget(&self, range: Range<usize>) {
        #[cfg(unix)]
        {
            // The page that the next tensor shares is left to it; the first one is rounded down.
            const PAGE: usize = 4096;
            let is_last = range.end >= self.map.len();
            let end = if is_last { self.map.len() } else { range.end / PAGE * PAGE };
            let start = range.start / PAGE * PAGE;
            if start < end {
                // SAFETY: a read-only map of a file: pages that are dropped are read again from
                // the file with the same content, so no reference sees a change.
                let given = unsafe {
                    let advice = memmap2::UncheckedAdvice::DontNeed;
                    self.map.unchecked_advise_range(advice, start, end - start)
                };
                // It is only advice: a system that refuses it keeps more pages, nothing else.
                drop(given);
            }
        }
        #[cfg(not(unix))]
        let _ = range;
    }
}

impl Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map
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
mod tests;
