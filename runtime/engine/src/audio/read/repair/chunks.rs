//! Chunks of WAV and AIFF: a name, a length, and the content, padded to an even length.
//!
//! Programs forget the padding byte, write wrong lengths into chunks that they add, and leave the
//! sound's length open while they record. So a length is used only if a chunk or the end follows.

use std::{io, ops::Range};

use super::{super::source::Bytes, find};

/// The byte order of a length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// WAV.
    Little,
    /// AIFF.
    Big,
}

/// One chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chunk {
    pub(super) name: [u8; 4],
    /// The length that its header states.
    pub(super) stated: u64,
    /// The position of its content, at most to the end of the file.
    pub(super) body: Range<u64>,
}

/// Agreement of a stated length with the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Length {
    /// The length is right, or a placeholder for an unknown length.
    Believed,
    /// The file ends earlier.
    TooLong,
    /// The sound continues after it.
    TooShort,
}

/// Reads the chunks of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader {
    pub(super) order: Order,
    /// The name of the sound chunk, and the number of its bytes before the samples.
    pub(super) sound: &'static [u8; 4],
    pub(super) before: u64,
    /// The length of a sound that is too long for the chunk's length field.
    pub(super) long: Option<u64>,
}

/// Names of chunks that may be before or after the sound.
const KNOWN: [&[u8; 4]; 24] = [
    b"data", b"fmt ", b"fact", b"LIST", b"bext", b"iXML", b"id3 ", b"ID3 ", b"cue ", b"smpl",
    b"inst", b"PEAK", b"JUNK", b"junk", b"_PMX", b"axml", b"chna", b"afsp", b"COMM", b"SSND",
    b"NAME", b"ANNO", b"AUTH", b"MARK",
];

/// The largest distance to search for the sound chunk after a damaged chunk.
const FAR: u64 = 1 << 24;

/// The largest number of chunks to read.
const MOST: usize = 10_000;

/// The largest distance of chunks after the sound from the end of the file.
const BEHIND: u64 = 1 << 16;

fn is_known(name: &[u8]) -> bool {
    KNOWN.iter().any(|known| *known == name)
}

fn is_name(name: &[u8]) -> bool {
    name.len() == 4 && name.iter().all(|byte| (b' '..=b'~').contains(byte))
}

impl Reader {
    fn head(&self, bytes: &mut Bytes, at: u64) -> io::Result<Option<([u8; 4], u64)>> {
        let head = bytes.at(at, 8)?;
        let (Some(name), Some(length)) = (head.first_chunk(), head.last_chunk()) else {
            return Ok(None);
        };
        let length = match self.order {
            Order::Little => u32::from_le_bytes(*length),
            Order::Big => u32::from_be_bytes(*length),
        };
        Ok((head.len() == 8).then_some((*name, length.into())))
    }

    pub(super) fn all(&self, bytes: &mut Bytes, region: Range<u64>) -> io::Result<Vec<Chunk>> {
        let mut chunks = Vec::new();
        let mut at = region.start;
        while let Some((name, stated)) = self.head(bytes, at)?.filter(|_| at + 8 <= region.end) {
            if chunks.len() == MOST {
                break;
            }
            let begin = at + 8;
            if name == *self.sound {
                let stated = self.long.filter(|_| stated == u64::from(u32::MAX)).unwrap_or(stated);
                let sound = begin + self.before..region.end;
                let (end, _) = self.sound_of(bytes, &sound, stated.saturating_sub(self.before))?;
                chunks.push(Chunk { name, stated, body: begin..end });
                at = self.after(bytes, end, region.end)?.unwrap_or(region.end);
                continue;
            }
            let end = begin.saturating_add(stated);
            let next = match is_name(&name) && end <= region.end {
                true => self.after(bytes, end, region.end)?,
                false => None,
            };
            if next.is_some() || end == region.end {
                chunks.push(Chunk { name, stated, body: begin..end });
            }
            at = match next {
                Some(next) => next,
                None if end == region.end => break,
                None => match self.lost(bytes, at + 1..region.end)? {
                    Some(found) => found,
                    None => break,
                },
            };
        }
        Ok(chunks)
    }

    /// The next chunk after one that ends at `end`, with or without padding.
    fn after(&self, bytes: &mut Bytes, end: u64, last: u64) -> io::Result<Option<u64>> {
        if end >= last {
            return Ok(None);
        }
        let next = bytes.at(end, 5)?;
        let whole = next.get(..4).unwrap_or_default();
        let filled = next.get(1..5).unwrap_or_default();
        let is_odd = end % 2 == 1;
        Ok(match () {
            () if is_odd && is_known(filled) => Some(end + 1),
            () if is_known(whole) => Some(end),
            () if is_odd && is_name(filled) => Some(end + 1),
            () if is_name(whole) => Some(end),
            () => None,
        })
    }

    /// The next sound or format chunk after a chunk with a wrong length.
    fn lost(&self, bytes: &mut Bytes, range: Range<u64>) -> io::Result<Option<u64>> {
        let far = range.start..range.end.min(range.start.saturating_add(FAR));
        find(bytes, far, &[b"fmt ", b"COMM", self.sound])
    }

    /// The end of the sound in `range`, whose stated length is `stated`, and the agreement of both.
    pub(super) fn sound_of(
        &self,
        bytes: &mut Bytes,
        range: &Range<u64>,
        stated: u64,
    ) -> io::Result<(u64, Length)> {
        let has = range.end.saturating_sub(range.start);
        if is_open(stated, has) {
            let is_empty = stated == 0 && self.reaches(bytes, range.start, range.end)?;
            let end = match is_empty {
                true => range.start,
                false => self.before_last(bytes, range)?,
            };
            return Ok((end, Length::Believed));
        }
        if stated > has {
            return Ok((range.end, Length::TooLong));
        }
        let end = range.start + stated;
        let rest = range.end - end;
        // The program went on recording after it wrote the length.
        if rest > stated && !self.reaches(bytes, end, range.end)? {
            return Ok((self.before_last(bytes, range)?, Length::TooShort));
        }
        Ok((end, Length::Believed))
    }

    /// True if there are only chunks from `at` to the end.
    fn reaches(&self, bytes: &mut Bytes, at: u64, end: u64) -> io::Result<bool> {
        let Some(mut at) = self.after(bytes, at, end)? else { return Ok(at >= end) };
        for _ in 0..MOST {
            let Some((name, stated)) = self.head(bytes, at)?.filter(|_| at + 8 <= end) else {
                break;
            };
            let next = at + 8 + stated;
            // A cut chunk is accepted if its name is known.
            if next + 1 >= end {
                return Ok(next <= end || is_known(&name));
            }
            match self.after(bytes, next, end)? {
                Some(next) => at = next,
                None => return Ok(is_known(&name)),
            }
        }
        Ok(end.saturating_sub(at) < 8)
    }

    /// The end of a sound of unknown length: before the chunks after it, or the end of the file.
    fn before_last(&self, bytes: &mut Bytes, range: &Range<u64>) -> io::Result<u64> {
        let from = range.end.saturating_sub(BEHIND).max(range.start);
        let tail = bytes.of_range(&(from..range.end))?;
        for (i, name) in tail.windows(4).enumerate() {
            let at = from + i as u64;
            if is_known(name)
                && name != self.sound
                && let Some((_, stated)) = self.head(bytes, at)?
                && stated > 0
                && at + 8 + stated <= range.end
                && self.reaches(bytes, at, range.end)?
            {
                return Ok(at);
            }
        }
        Ok(range.end)
    }
}

/// True if `stated` is a placeholder for an unknown length, with `has` bytes left in the file.
/// ffmpeg writes 2^32 - 1, sox and arecord write values near 2^31, others 0.
fn is_open(stated: u64, has: u64) -> bool {
    let near = [0x7fff_0000..=0x8000_0000, 0xffff_0000..=u64::from(u32::MAX)];
    stated == 0 || near.iter().any(|range| range.contains(&stated)) && stated > has
}
