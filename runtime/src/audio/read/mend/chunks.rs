//! Chunks of a WAV or an AIFF: a name, a length, and so many bytes, filled up to an even number.
//!
//! Programs forget the byte of filling, write wrong lengths into what they add, and leave the length of the
//! sound open while they still record. So what follows a chunk is looked at before its length is believed.

use std::{io, ops::Range};

use super::{super::source::Bytes, find};

/// In which order the bytes of a length stand.
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
    /// The length that it names.
    pub(super) said: u64,
    /// Its place, as far as the file goes.
    pub(super) body: Range<u64>,
}

/// The way a length agrees with the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Length {
    /// It does, or is one that stands for an unknown one.
    Believed,
    /// The file ends before.
    TooLong,
    /// The sound goes on.
    TooShort,
}

/// Reads the chunks of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader {
    pub(super) order: Order,
    /// The name of the chunk with the sound, and how many of its bytes come before that.
    pub(super) sound: &'static [u8; 4],
    pub(super) before: u64,
    /// The length of a sound whose chunk has no room for it.
    pub(super) long: Option<u64>,
}

/// Names of chunks that stand behind the sound, or before it.
const KNOWN: [&[u8; 4]; 24] = [
    b"data", b"fmt ", b"fact", b"LIST", b"bext", b"iXML", b"id3 ", b"ID3 ", b"cue ", b"smpl",
    b"inst", b"PEAK", b"JUNK", b"junk", b"_PMX", b"axml", b"chna", b"afsp", b"COMM", b"SSND",
    b"NAME", b"ANNO", b"AUTH", b"MARK",
];

/// The chunk of the sound lies so far behind one that is damaged at most.
const FAR: u64 = 1 << 24;

/// The most chunks of a file that are read.
const MOST: usize = 10_000;

/// Chunks behind the sound lie so far from the end at most.
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

    /// All chunks of `region`.
    pub(super) fn all(&self, bytes: &mut Bytes, region: Range<u64>) -> io::Result<Vec<Chunk>> {
        let mut chunks = Vec::new();
        let mut at = region.start;
        while let Some((name, said)) = self.head(bytes, at)?.filter(|_| at + 8 <= region.end) {
            if chunks.len() == MOST {
                break;
            }
            let begin = at + 8;
            if name == *self.sound {
                let said = self.long.filter(|_| said == u64::from(u32::MAX)).unwrap_or(said);
                let sound = begin + self.before..region.end;
                let (end, _) = self.sound_of(bytes, &sound, said.saturating_sub(self.before))?;
                chunks.push(Chunk { name, said, body: begin..end });
                at = self.after(bytes, end, region.end)?.unwrap_or(region.end);
                continue;
            }
            let end = begin.saturating_add(said);
            let next = match is_name(&name) && end <= region.end {
                true => self.after(bytes, end, region.end)?,
                false => None,
            };
            if next.is_some() || end == region.end {
                chunks.push(Chunk { name, said, body: begin..end });
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

    /// The next chunk behind one that ends at `end`, filled up or not.
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

    /// The chunk of the sound, or of its format, behind one whose length is wrong.
    fn lost(&self, bytes: &mut Bytes, range: Range<u64>) -> io::Result<Option<u64>> {
        let far = range.start..range.end.min(range.start.saturating_add(FAR));
        find(bytes, far, &[b"fmt ", b"COMM", self.sound])
    }

    /// The end of the sound of `range` that says it is `said` long, and the way that agrees.
    pub(super) fn sound_of(
        &self,
        bytes: &mut Bytes,
        range: &Range<u64>,
        said: u64,
    ) -> io::Result<(u64, Length)> {
        let has = range.end.saturating_sub(range.start);
        if is_open(said, has) {
            let is_empty = said == 0 && self.reaches(bytes, range.start, range.end)?;
            let end = match is_empty {
                true => range.start,
                false => self.before_last(bytes, range)?,
            };
            return Ok((end, Length::Believed));
        }
        if said > has {
            return Ok((range.end, Length::TooLong));
        }
        let end = range.start + said;
        let rest = range.end - end;
        // What was still recorded when the length was written.
        if rest > said && !self.reaches(bytes, end, range.end)? {
            return Ok((self.before_last(bytes, range)?, Length::TooShort));
        }
        Ok((end, Length::Believed))
    }

    /// True if chunks lie from `at` to the end.
    fn reaches(&self, bytes: &mut Bytes, at: u64, end: u64) -> io::Result<bool> {
        let Some(mut at) = self.after(bytes, at, end)? else { return Ok(at >= end) };
        for _ in 0..MOST {
            let Some((name, said)) = self.head(bytes, at)?.filter(|_| at + 8 <= end) else { break };
            let next = at + 8 + said;
            // One that was cut is believed if its name is known.
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

    /// The end of a sound of unknown length: before the chunks behind it, or with the file.
    fn before_last(&self, bytes: &mut Bytes, range: &Range<u64>) -> io::Result<u64> {
        let from = range.end.saturating_sub(BEHIND).max(range.start);
        let tail = bytes.of_range(&(from..range.end))?;
        for (i, name) in tail.windows(4).enumerate() {
            let at = from + i as u64;
            if is_known(name)
                && name != self.sound
                && let Some((_, said)) = self.head(bytes, at)?
                && said > 0
                && at + 8 + said <= range.end
                && self.reaches(bytes, at, range.end)?
            {
                return Ok(at);
            }
        }
        Ok(range.end)
    }
}

/// True if a length stands for an unknown one, in a file that has so many bytes from there on: ffmpeg
/// writes 2^32 - 1, sox and arecord write what is near 2^31, others 0.
fn is_open(said: u64, has: u64) -> bool {
    let near = [0x7fff_0000..=0x8000_0000, 0xffff_0000..=u64::from(u32::MAX)];
    said == 0 || near.iter().any(|range| range.contains(&said)) && said > has
}
