//! A memory-mapped file that other programs may write to at the same time.
//!
//! A map shows the current content of the file. If the file is cut, the pages after its new end do
//! not exist, and a read there ends the process (SIGBUS). Weights are used in the map for minutes.
//! Therefore:
//!
//! - a read after the end of the file gives zeros instead, and is recorded: [`guard`];
//! - [`Mapped::check`] compares the length and modification time with their values at opening. It
//!   is called before and after each tensor is read, and after each stage of a song. If it fails,
//!   the result of the stage is discarded.
//!
//! A file that replaces this one by a rename changes nothing: the handle keeps the old file, until the
//! owner asks [`Mapped::is_at`].

use std::{
    fs::{self, File, Metadata},
    io,
    ops::{Deref, Range},
    path::Path,
    time::SystemTime,
};

use memmap2::Mmap;

use crate::{Error, listing::open_regular};

mod guard;

/// A mapped file, with its handle, so that its length and time can be read again.
#[derive(Debug)]
pub struct Mapped {
    /// Dropped before the map: afterwards its addresses may belong to something else.
    guard: guard::Guard,
    map: Mmap,
    file: File,
    stamp: Stamp,
}

/// Length and modification time, which show that a file was written to, and on Unix its device and
/// inode, which show that it is another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    len: u64,
    /// `None` if the system does not know it.
    modified: Option<SystemTime>,
    #[cfg(unix)]
    inode: [u64; 2],
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            len: metadata.len(),
            modified: metadata.modified().ok(),
            #[cfg(unix)]
            inode: {
                use std::os::unix::fs::MetadataExt;
                [metadata.dev(), metadata.ino()]
            },
        }
    }
}

impl Mapped {
    /// Maps the file at `path`.
    #[expect(unsafe_code, reason = "a memory map has no safe constructor")]
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = open_regular(path)?;
        let stamp = Stamp::of(&file.metadata()?);
        // SAFETY: the map is read-only and private to this process. Another process may write to
        // the file or cut it. Then values change under references to them, but any bytes are valid
        // for the types that are read, and `check` finds the change before the values are used.
        let map = unsafe { Mmap::map(&file)? };
        let guard = guard::Guard::of(&map)?;
        Ok(Self { guard, map, file, stamp })
    }

    /// Checks that this file, which is at `path`, has not changed since it was opened.
    pub(crate) fn check(&self, path: &Path) -> Result<(), Error> {
        let now = self.file.metadata();
        let now = now.map_err(|source| Error::Io { path: path.to_owned(), source })?;
        let now = Stamp::of(&now);
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

    /// True if the file at `path` is still this one, unchanged since it was opened.
    fn is_at(&self, path: &Path) -> bool {
        fs::metadata(path).is_ok_and(|now| Stamp::of(&now) == self.stamp)
    }

    /// Reads the bytes from `start` on, without the map.
    #[cfg(unix)]
    fn read_at(&self, start: u64, into: &mut [u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(&self.file, into, start)
    }

    /// Reads the bytes from `start` on, without the map.
    #[cfg(windows)]
    fn read_at(&self, mut start: u64, into: &mut [u8]) -> io::Result<()> {
        let mut rest = into;
        while !rest.is_empty() {
            let read = std::os::windows::fs::FileExt::seek_read(&self.file, rest, start)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            rest = &mut rest[read..];
            start += read as u64;
        }
        Ok(())
    }

    /// Releases the pages of `range`. The system reads them from the file again if needed.
    ///
    /// Without this, a process that has read a file of 4.8 GB counts those pages as its own memory.
    #[cfg_attr(unix, expect(unsafe_code, reason = "giving pages back is an unchecked advice"))]
    pub(crate) fn forget(&self, range: Range<usize>) {
        #[cfg(unix)]
        {
            // Keeps the last page, which the next tensor shares; rounds the first one down.
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
                // This is only advice: a system that refuses it keeps more pages.
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
    /// Converted or unpacked from files that were read once.
    Owned(Vec<u8>),
}

impl Bytes {
    /// Everything.
    pub fn all(&self) -> &[u8] {
        match self {
            Self::Mapped(mapped) => mapped,
            Self::Static(bytes) => bytes,
            Self::Owned(bytes) => bytes,
        }
    }

    /// Checks that this file, at `path`, has not changed since it was opened.
    ///
    /// # Errors
    /// [`Error::Changed`]; [`Error::Io`] if the system no longer answers for the file.
    pub(crate) fn check(&self, path: &Path) -> Result<(), Error> {
        match self {
            Self::Mapped(mapped) => mapped.check(path),
            Self::Static(_) | Self::Owned(_) => Ok(()),
        }
    }

    /// False if `path`, from which this file was opened, now has another file or none.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        match self {
            Self::Mapped(mapped) => mapped.is_at(path),
            Self::Static(_) | Self::Owned(_) => true,
        }
    }

    /// Copies the bytes from `start` on, of the file at `path`, which is this one. No page of a map is
    /// read or given back.
    ///
    /// # Errors
    /// [`Error::Changed`] if the file is shorter now; [`Error::Io`].
    ///
    /// # Panics
    /// If there are fewer bytes in memory.
    pub(crate) fn read_at(&self, start: usize, into: &mut [u8], path: &Path) -> Result<(), Error> {
        match self {
            Self::Mapped(mapped) => mapped.read_at(start as u64, into).map_err(|source| {
                let changed = mapped.check(path).err();
                changed.unwrap_or_else(|| Error::Io { path: path.to_owned(), source })
            }),
            Self::Static(_) | Self::Owned(_) => {
                into.copy_from_slice(&self.all()[start..start + into.len()]);
                Ok(())
            }
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
