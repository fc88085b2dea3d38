//! Repairs a file's headers before the sound is decoded.
//!
//! Headers are used only as far as they agree with the sound that follows. Data that does not
//! describe the sound (tags, pictures, cue points) is never read. The decoder gets a new header and
//! the file's unchanged sound. Each container has its own module, which returns these parts.

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
    source::{Bytes, Segment},
};

/// The largest distance of the sound from the beginning of the file.
const FAR: u64 = 1 << 20;

/// The bytes that are read instead of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Repaired {
    pub(super) parts: Vec<Segment>,
    /// Notices, without the file's name.
    pub(super) notices: Vec<String>,
    pub(super) known: Known,
}

/// Statements of a file's headers that are not in the repaired file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Known {
    /// Samples per channel.
    pub(super) stated: Option<u64>,
    /// Samples of the original stream before the first sample.
    pub(super) begins: u64,
    /// Padding samples at the beginning.
    pub(super) skip: u64,
    /// The gain to apply to the decoded sound, in 1/256 dB.
    pub(super) gain: i16,
    /// True if the length that the container states is impossible.
    pub(super) is_open: bool,
}

impl Repaired {
    fn of(parts: Vec<Segment>) -> Self {
        Self { parts, notices: vec![], known: Known::default() }
    }

    /// The file unchanged.
    fn nothing(region: Range<u64>) -> Self {
        Self::of(vec![Segment::File(region)])
    }
}

/// The container of a file, by its first bytes.
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

/// Boxes that may be the first of an MP4.
const BOXES: [&[u8; 4]; 7] = [b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip", b"pnot"];

/// The container that begins at `position`.
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
        // Another frame follows the first one.
        () if mpeg::chain(bytes, position, end)? > 1 => Kind::Mpeg,
        () if mpeg::adts_chain(bytes, position, end)? > 1 => Kind::Adts,
        () => return Ok(None),
    }))
}

/// Returns the parts that are read instead of `bytes`.
pub(super) fn repair(bytes: &mut Bytes) -> Result<Repaired, Failure> {
    let region = 0..bytes.length();
    let Some((kind, start)) = tags::beginning(bytes, &region)? else {
        return Ok(Repaired::nothing(region));
    };
    let region = start..tags::end(bytes, kind, &region)?;
    match kind {
        Kind::Wav => wav::repair(bytes, region),
        Kind::Aiff => aiff::repair(bytes, region),
        Kind::Flac => flac::repair(bytes, region),
        Kind::Ogg => ogg::repair(bytes, region),
        Kind::Mp4 => Ok(mp4::repair(bytes, region)?),
        Kind::Mpeg => Ok(mpeg::repair(bytes, region)?),
        Kind::Adts => Ok(Repaired::nothing(region)),
    }
}

/// The notice for a file that is shorter than it states, in seconds.
pub(super) fn shorter_than_stated(stated: f64, has: f64) -> String {
    format!("says that it is {stated:.2} s long, but ends after {has:.2} s")
}

/// The notice for a file that is longer than it states, in seconds.
pub(super) fn longer_than_stated(stated: f64, has: f64) -> String {
    format!("says that it is {stated:.2} s long, but goes on to {has:.2} s: all of it is read")
}

/// The number at `at`, which `of` makes of its bytes.
fn number<T, const N: usize>(bytes: &[u8], at: usize, of: fn([u8; N]) -> T) -> Option<T> {
    bytes.get(at..)?.first_chunk().copied().map(of)
}

/// The first position in `range` of one of `sought`.
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
