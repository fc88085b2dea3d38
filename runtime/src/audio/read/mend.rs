//! Mends a file's headers before the sound is decoded.
//!
//! Headers are believed only as far as the sound that follows them agrees, and what says nothing of the
//! sound (tags, pictures, cue points) is not read at all: what is decoded is a new header of ours and the
//! sound as it stands in the file. Every container has a file here, which gives those parts.

mod aiff;
mod chunks;
mod flac;
mod mp4;
pub(super) mod mpeg;
mod ogg;
mod tags;
mod wav;

use std::{io, ops::Range};

use super::{
    Failure,
    source::{Bytes, Part},
};

/// The sound begins so far into the file at most.
const FAR: u64 = 1 << 20;

/// The bytes that are read in the place of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mended {
    pub(super) parts: Vec<Part>,
    /// Notices, without the file's name.
    pub(super) notices: Vec<String>,
    pub(super) known: Known,
}

/// Claims of a file's headers that are not in what is read in its place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Known {
    /// Samples of a channel.
    pub(super) promised: Option<u64>,
    /// Samples of its stream before the first.
    pub(super) begins: u64,
    /// Samples at its beginning that are no sound.
    pub(super) skip: u64,
    /// The gain of the decoded sound, in 256 parts of a decibel.
    pub(super) gain: i16,
    /// True if the length that its container names cannot be.
    pub(super) is_open: bool,
}

impl Mended {
    fn of(parts: Vec<Part>) -> Self {
        Self { parts, notices: vec![], known: Known::default() }
    }

    /// The file as it is.
    fn nothing(region: Range<u64>) -> Self {
        Self::of(vec![Part::File(region)])
    }
}

/// The kind of a file, by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Wav,
    Aiff,
    Flac,
    Ogg,
    Mp4,
    Mpeg,
    Adts,
}

/// Boxes that an MP4 may begin with.
const BOXES: [&[u8; 4]; 7] = [b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip", b"pnot"];

/// The kind of file that begins at `position`.
fn kind(bytes: &mut Bytes, position: u64, end: u64) -> io::Result<Option<Kind>> {
    let head = bytes.at(position, 12)?;
    let form = head.get(8..12).unwrap_or_default();
    let is = |name: &[u8]| head.starts_with(name);
    Ok(Some(match () {
        () if (is(b"RIFF") || is(b"RF64") || is(b"BW64")) && form == b"WAVE" => Kind::Wav,
        () if is(b"FORM") && (form == b"AIFF" || form == b"AIFC") => Kind::Aiff,
        () if is(b"fLaC") => Kind::Flac,
        () if is(b"OggS") => Kind::Ogg,
        () if head.get(4..8).is_some_and(|name| BOXES.iter().any(|of| *of == name)) => Kind::Mp4,
        () if head.first() != Some(&0xff) => return Ok(None),
        () if mpeg::begins(bytes, position, end)? => Kind::Mpeg,
        () if mpeg::adts_begins(bytes, position, end)? => Kind::Adts,
        () => return Ok(None),
    }))
}

/// The parts that are read in the place of `bytes`.
///
/// # Errors
/// Sound of a kind that is not decoded, with its name; a header that says too little; the disk's.
pub(super) fn mend(bytes: &mut Bytes) -> Result<Mended, Failure> {
    let region = 0..bytes.length();
    let Some((kind, start)) = tags::beginning(bytes, &region)? else {
        return Ok(Mended::nothing(region));
    };
    let region = start..tags::end(bytes, kind, &region)?;
    match kind {
        Kind::Wav => wav::mend(bytes, region),
        Kind::Aiff => aiff::mend(bytes, region),
        Kind::Flac => flac::mend(bytes, region),
        Kind::Ogg => ogg::mend(bytes, region),
        Kind::Mp4 => Ok(mp4::mend(bytes, region)?),
        Kind::Mpeg => Ok(mpeg::mend(bytes, region)?),
        Kind::Adts => Ok(Mended::nothing(region)),
    }
}

/// The notice of a file that promises more than it holds, in seconds.
pub(super) fn ends_early(promised: f64, has: f64) -> String {
    format!("says that it is {promised:.2} s long, but ends after {has:.2} s")
}

/// The notice of a file that holds more than it promises, in seconds.
pub(super) fn goes_on(promised: f64, has: f64) -> String {
    format!("says that it is {promised:.2} s long, but goes on to {has:.2} s: all of it is read")
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|x| u16::from_be_bytes(*x))
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|x| u32::from_be_bytes(*x))
}

fn le16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|x| u16::from_le_bytes(*x))
}

fn le32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|x| u32::from_le_bytes(*x))
}

/// The first place in `range` of one of `sought`.
fn find(bytes: &mut Bytes, range: Range<u64>, sought: &[&[u8]]) -> io::Result<Option<u64>> {
    const STEP: u64 = 1 << 16;
    let longest = sought.iter().map(|of| of.len()).max().unwrap_or(1) as u64;
    let mut at = range.start;
    while at < range.end {
        let piece = bytes.at(at, (STEP + longest - 1).min(range.end - at))?;
        let found = (0..piece.len()).find(|&i| sought.iter().any(|of| piece[i..].starts_with(of)));
        if let Some(i) = found {
            return Ok(Some(at + i as u64));
        }
        at += STEP;
    }
    Ok(None)
}
