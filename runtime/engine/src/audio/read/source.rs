//! A file's bytes: random access, and a reader that replaces parts of them.

use std::{
    fs::File,
    io::{self, Cursor, Read, Seek, SeekFrom},
    ops::Range,
};

use symphonia::core::io::MediaSource;

/// The largest pipe that is read; it holds more than ten minutes of floats at 192 kHz.
const MOST_PIPED: u64 = 1 << 30;

/// The number of last bytes to keep.
const TAIL: u64 = 64;

/// The bytes of a file, with random access.
pub(super) struct Bytes {
    inner: Box<dyn MediaSource>,
    length: u64,
}

impl Bytes {
    /// Opens a file or a pipe. A pipe is first read to its end, because containers may store their
    /// description at either end.
    pub(super) fn open(file: File) -> io::Result<Self> {
        if file.metadata()?.is_file() {
            return Self::new(Box::new(file));
        }
        let mut bytes = Vec::new();
        file.take(MOST_PIPED + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MOST_PIPED {
            let why = "a pipe of more than 1 GiB is not read: save it as a file first";
            return Err(io::Error::other(why));
        }
        Self::new(Box::new(Cursor::new(bytes)))
    }

    fn new(mut inner: Box<dyn MediaSource>) -> io::Result<Self> {
        let length = inner.seek(SeekFrom::End(0))?;
        Ok(Self { inner, length })
    }

    #[cfg(test)]
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self::new(Box::new(Cursor::new(bytes.to_vec()))).expect("in memory")
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Reads at most `most` bytes from `position` on.
    pub(super) fn at(&mut self, position: u64, most: u64) -> io::Result<Vec<u8>> {
        self.inner.seek(SeekFrom::Start(position))?;
        let mut bytes = Vec::new();
        (&mut self.inner).take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Reads the bytes of `range`, or fewer if the file ends.
    pub(super) fn of_range(&mut self, range: &Range<u64>) -> io::Result<Vec<u8>> {
        self.at(range.start, range.end.saturating_sub(range.start))
    }
}

/// A part of the bytes to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Segment {
    /// Bytes that are not in the file.
    Own(Vec<u8>),
    /// Bytes of the file.
    File(Range<u64>),
}

impl Segment {
    pub(super) fn length(&self) -> u64 {
        match self {
            Self::Own(bytes) => bytes.len() as u64,
            Self::File(range) => range.end.saturating_sub(range.start),
        }
    }
}

/// A reader of consecutive parts.
pub(super) struct Source {
    bytes: Bytes,
    parts: Vec<Segment>,
    tail: Vec<u8>,
    position: u64,
    length: u64,
}

impl Source {
    pub(super) fn new(bytes: Bytes, parts: Vec<Segment>) -> io::Result<Self> {
        let length = parts.iter().map(Segment::length).sum();
        let mut source = Self { bytes, parts, tail: vec![], position: 0, length };
        source.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
        let mut tail = Vec::new();
        source.read_to_end(&mut tail)?;
        source.tail = tail;
        source.rewind()?;
        Ok(source)
    }

    /// The last bytes.
    pub(super) fn tail(&self) -> &[u8] {
        &self.tail
    }
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut begin = 0;
        for part in &self.parts {
            let length = part.length();
            let within = self.position.saturating_sub(begin);
            begin += length;
            if within >= length {
                continue;
            }
            let left = usize::try_from(length - within).unwrap_or(usize::MAX);
            let most = buffer.len().min(left);
            let read = match part {
                Segment::Own(bytes) => {
                    let from = bytes.len() - left;
                    buffer[..most].copy_from_slice(&bytes[from..from + most]);
                    most
                }
                Segment::File(range) => {
                    self.bytes.inner.seek(SeekFrom::Start(range.start + within))?;
                    self.bytes.inner.read(&mut buffer[..most])?
                }
            };
            self.position += read as u64;
            return Ok(read);
        }
        Ok(0)
    }
}

impl Seek for Source {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let place = match to {
            SeekFrom::Start(place) => Some(place),
            SeekFrom::End(offset) => self.length.checked_add_signed(offset),
            SeekFrom::Current(offset) => self.position.checked_add_signed(offset),
        };
        self.position = place.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}

impl MediaSource for Source {
    fn is_seekable(&self) -> bool {
        true
    }

    fn byte_len(&self) -> Option<u64> {
        Some(self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_after_a_jump_is_what_lies_there() {
        let file: Vec<u8> = (0..100_000u32).map(|i| (i * 7 / 3) as u8).collect();
        let parts = vec![
            Segment::File(10..10),
            Segment::Own(vec![1, 2, 3]),
            Segment::File(50_000..100_000),
            Segment::Own(vec![4]),
            Segment::File(0..9),
        ];
        let bytes = [&[1, 2, 3], &file[50_000..], &[4], &file[..9]].concat();
        let mut source = Source::new(Bytes::of(&file), parts).expect("in memory");
        assert_eq!(source.tail(), &bytes[bytes.len() - 64..]);
        let mut all = Vec::new();
        source.read_to_end(&mut all).expect("in memory");
        assert_eq!(all, bytes);
        let mut four = [0; 4];
        for place in [50_002u64, 0, 2, 49_999, 50_008] {
            source.seek(SeekFrom::Start(place)).expect("in memory");
            source.read_exact(&mut four).expect("four bytes");
            let place = place as usize;
            assert_eq!(four, bytes[place..place + 4]);
        }
        assert_eq!(source.seek(SeekFrom::End(-1)).expect("in memory"), 50_012);
        assert!(source.seek(SeekFrom::Current(-100_000)).is_err());
        assert_eq!(source.seek(SeekFrom::Start(60_000)).expect("in memory"), 60_000);
        assert_eq!(source.read(&mut four).expect("the end"), 0);
    }
}
