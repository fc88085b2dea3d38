//! A file's bytes as they are read: all of them at hand, without what hides their end.
//!
//! - A pipe is read to its end first: containers say what they hold at either end.
//! - A WAV that was written to a pipe does not know its own length. ffmpeg writes 2^32 - 1, sox and
//!   arecord write what is near 2^31, others 0; it gets the length that it has.
//! - A FLAC ends before the ID3v1 tag that some programs put behind it.

use std::{
    fs::File,
    io::{self, Cursor, Read, Seek, SeekFrom},
    ops::RangeInclusive,
};

use symphonia::core::io::MediaSource;

/// Where the chunks before the sound of a WAV are looked for.
const HEAD: u64 = 1 << 16;

/// The most that is read of a pipe: ten minutes of 192 kHz in floats are less.
const MOST_PIPED: u64 = 1 << 30;

/// Lengths of a WAV that stand for an unknown one, less what lies before the sound: near 2^31, and
/// near 2^32.
const UNKNOWN: [RangeInclusive<u32>; 2] = [0x7fff_0000..=0x8000_0000, 0xffff_0000..=u32::MAX];

/// Bytes of an ID3v1 tag, which begins with `TAG`.
const ID3V1: u64 = 128;

/// How many of the last bytes are kept.
const TAIL: u64 = 64;

/// The bytes of a file.
pub(super) struct Source {
    inner: Box<dyn MediaSource>,
    /// The first bytes, which may be others than those of the file.
    head: Vec<u8>,
    tail: Vec<u8>,
    position: u64,
    length: u64,
}

impl Source {
    /// Of a file or a pipe.
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
        let mut length = inner.seek(SeekFrom::End(0))?;
        let mut head = read_at(&mut inner, 0, HEAD)?;
        if read_at(&mut inner, after_id3v2(&head), 4)? == b"fLaC"
            && let Some(tag) = length.checked_sub(ID3V1)
            && read_at(&mut inner, tag, 3)? == b"TAG"
        {
            length = tag;
        }
        write_length(&mut head, length);
        let tail = read_at(&mut inner, length.saturating_sub(TAIL), TAIL.min(length))?;
        inner.rewind()?;
        Ok(Self { inner, head, tail, position: 0, length })
    }

    /// Whether there is nothing in it.
    pub(super) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Its last bytes.
    pub(super) fn tail(&self) -> &[u8] {
        &self.tail
    }
}

/// Where an ID3v2 tag at the beginning ends: its length has seven bits a byte.
fn after_id3v2(head: &[u8]) -> u64 {
    match head {
        [b'I', b'D', b'3', _, _, _, a, b, c, d, ..] => {
            [a, b, c, d].into_iter().fold(0, |sum, byte| sum << 7 | u64::from(byte & 127)) + 10
        }
        _ => 0,
    }
}

fn read_at(inner: &mut Box<dyn MediaSource>, position: u64, most: u64) -> io::Result<Vec<u8>> {
    inner.seek(SeekFrom::Start(position))?;
    let mut bytes = Vec::new();
    inner.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Writes the length of the sound into the `head` of a WAV that does not know it.
fn write_length(head: &mut [u8], length: u64) {
    if !head.starts_with(b"RIFF") || head.get(8..12) != Some(b"WAVE") {
        return;
    }
    let number =
        |at: usize| Some(u32::from_le_bytes(head.get(at..at + 4)?.first_chunk().copied()?));
    let mut chunk = 12u64;
    let found = loop {
        let Ok(at) = usize::try_from(chunk) else { return };
        let (Some(name), Some(size)) = (head.get(at..at + 4), number(at + 4)) else { return };
        if name == b"data" {
            break (at, size);
        }
        // Chunks begin at even places.
        chunk += 8 + u64::from(size).next_multiple_of(2);
    };
    let (at, size) = found;
    let begin = at as u64 + 8;
    let has = length.saturating_sub(begin);
    let whole = number(4).map_or(0, |whole| u64::from(whole) + 8);
    // An empty sound before other chunks is one where the whole file is said to be longer.
    let is_unknown = match size {
        0 => has > 0 && whole <= begin,
        _ => UNKNOWN.iter().any(|range| range.contains(&size)) && u64::from(size) > has,
    };
    let lengths = (u32::try_from(has), u32::try_from(begin - 8 + has));
    if let (true, (Ok(sound), Ok(whole))) = (is_unknown, lengths) {
        head[4..8].copy_from_slice(&whole.to_le_bytes());
        head[at + 4..at + 8].copy_from_slice(&sound.to_le_bytes());
    }
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.length.saturating_sub(self.position)).unwrap_or(usize::MAX);
        let most = buffer.len().min(left);
        let of_head = usize::try_from(self.position).ok().and_then(|at| self.head.get(at..));
        let read = match of_head.filter(|head| !head.is_empty()) {
            Some(head) => {
                let count = most.min(head.len());
                buffer[..count].copy_from_slice(&head[..count]);
                self.inner.seek(SeekFrom::Start(self.position + count as u64))?;
                count
            }
            None => self.inner.read(&mut buffer[..most])?,
        };
        self.position += read as u64;
        Ok(read)
    }
}

impl Seek for Source {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let place = match to {
            SeekFrom::Start(place) => Some(place),
            SeekFrom::End(offset) => self.length.checked_add_signed(offset),
            SeekFrom::Current(offset) => self.position.checked_add_signed(offset),
        };
        let place = place.ok_or(io::ErrorKind::InvalidInput)?;
        self.position = self.inner.seek(SeekFrom::Start(place))?;
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

    fn source(bytes: &[u8]) -> Source {
        Source::new(Box::new(Cursor::new(bytes.to_vec()))).expect("in memory")
    }

    fn all(mut source: Source) -> Vec<u8> {
        let mut bytes = Vec::new();
        source.read_to_end(&mut bytes).expect("in memory");
        bytes
    }

    #[test]
    fn what_is_read_after_a_jump_is_what_lies_there() {
        let bytes: Vec<u8> = (0..100_000u32).map(|i| (i * 7 / 3) as u8).collect();
        assert_eq!(all(source(&bytes)), bytes);
        let mut source = source(&bytes);
        let mut four = [0; 4];
        for place in [65_534u64, 0, 65_536, 99_996, 3] {
            source.seek(SeekFrom::Start(place)).expect("in memory");
            source.read_exact(&mut four).expect("four bytes");
            let place = place as usize;
            assert_eq!(four, bytes[place..place + 4]);
        }
        assert_eq!(source.seek(SeekFrom::End(-1)).expect("in memory"), 99_999);
        assert!(source.seek(SeekFrom::Current(-100_000)).is_err());
    }

    #[test]
    fn a_flac_ends_before_its_id3v1_tag() {
        let tag = [&b"TAG"[..], &[b'x'; 125]].concat();
        let flac = [&b"fLaC"[..], &[7; 500], &tag].concat();
        assert_eq!(all(source(&flac)), flac[..504]);
        assert_eq!(source(&flac).tail(), [7; 64]);
        let tagged = [&b"ID3\x04\0\0\0\0\x01\x02"[..], &[1; 130], &flac].concat();
        assert_eq!(all(source(&tagged)), tagged[..140 + 504]);
        let other = [&b"RIFF"[..], &[7; 500], &tag].concat();
        assert_eq!(all(source(&other)), other);
    }

    /// Chunks before the sound are stepped over, the odd one with its byte of filling.
    #[test]
    fn an_unknown_length_of_a_wav_is_written_in() {
        let wav = |whole: u32, size: u32, sound: usize| {
            let mut bytes = b"RIFF".to_vec();
            bytes.extend(whole.to_le_bytes());
            bytes.extend(b"WAVEodd \x03\0\0\0abc\0data");
            bytes.extend(size.to_le_bytes());
            bytes.resize(bytes.len() + sound, 9);
            bytes
        };
        let known = wav(24 + 10, 10, 10);
        for unknown in [(u32::MAX, u32::MAX), (0x7fff_0024, 0x7fff_0000), (0, 0), (24, 0)] {
            assert_eq!(all(source(&wav(unknown.0, unknown.1, 10))), known, "{unknown:?}");
        }
        // Of a file that was cut, not of a pipe.
        let cut = wav(3_000_000_024, 3_000_000_000, 10);
        for kept in [wav(34, 10, 10), wav(44, 20, 10), wav(34, 0, 10), wav(24, 0, 0), cut] {
            assert_eq!(all(source(&kept)), kept);
        }
    }
}
