//! Ogg: replaces the comments in the header pages and corrects the last page.
//!
//! Source: RFC 3533; Vorbis I specification, section 4.2; RFC 7845 (Opus).

use std::{io, iter, ops::Range};

use ogg::writing::{
    PacketWriteEndInfo::{EndPage, NormalPacket},
    PacketWriter,
};
use symphonia::core::{checksum::Crc32, io::Monitor};

use super::{
    super::{
        Failure, Problem,
        source::{Bytes, Segment},
    },
    Known, Repaired, find, number,
};

/// The largest page: its header and 255 segments of 255 bytes.
const MOST: u64 = 27 + 255 + 255 * 255;

/// The largest size of all headers; they may hold pictures.
const MOST_HEADERS: u64 = 1 << 26;

/// Flags of a page: begins its stream, ends its stream.
const BEGINS: u8 = 2;
const ENDS: u8 = 4;

/// The fewest bits per second of sound, and a high sample rate.
const LEAST_BITS: u64 = 200;
const FAST: u64 = 48_000;

/// A position after all sound that is read.
const LATE: i64 = 1 << 40;

/// The position of the pre-skip in the Opus header.
const SKIP: usize = 10;

/// The position of the gain in the Opus header.
const GAIN: usize = 16;

/// An empty comment packet, and the number of headers after the first one.
fn comments(first: &[u8]) -> Option<(Vec<u8>, usize)> {
    let nothing = [0; 8];
    match () {
        () if first.starts_with(b"\x01vorbis") => {
            Some(([&b"\x03vorbis"[..], &nothing, &[1]].concat(), 2))
        }
        () if first.starts_with(b"OpusHead") => Some(([&b"OpusTags"[..], &nothing].concat(), 1)),
        () => None,
    }
}

/// A page: its header with the segment lengths, and the position of its body.
struct Page {
    header: Vec<u8>,
    body: Range<u64>,
}

impl Page {
    fn at(bytes: &mut Bytes, at: u64, end: u64) -> Result<Option<Self>, Failure> {
        let mut header = bytes.at(at, 27 + 255)?;
        if !header.starts_with(b"OggS") || header.len() < 27 {
            return Ok(None);
        }
        let segments = usize::from(header[26]);
        if header.len() < 27 + segments {
            return Ok(None);
        }
        header.truncate(27 + segments);
        let length: u64 = header[27..].iter().map(|of| u64::from(*of)).sum();
        let begin = at + header.len() as u64;
        let page = Self { header, body: begin..begin + length };
        Ok((page.body.end <= end).then_some(page))
    }

    fn flags(&self) -> u8 {
        self.header[5]
    }

    fn stream(&self) -> Option<u32> {
        number(&self.header, 14, u32::from_le_bytes)
    }

    fn start(&self) -> u64 {
        self.body.start - self.header.len() as u64
    }

    /// The number of samples of the stream up to the end of the page.
    fn time(&self) -> i64 {
        number(&self.header, 6, i64::from_le_bytes).unwrap_or(-1)
    }

    /// True if a file of `length` bytes can be as long as its last page states.
    fn has_time(&self, length: u64) -> bool {
        u64::try_from(self.time()).is_ok_and(|time| time / FAST * LEAST_BITS <= 8 * length)
    }

    /// Returns the page marked as the last of its stream. If `is_open`, its position is after all
    /// sound.
    fn closed(&self, bytes: &mut Bytes, is_open: bool) -> Result<Vec<u8>, Failure> {
        let mut page = self.header.clone();
        page[5] |= ENDS;
        if is_open {
            page[6..14].copy_from_slice(&LATE.to_le_bytes());
        }
        page.extend(bytes.of_range(&self.body)?);
        seal(&mut page);
        Ok(page)
    }
}

/// Returns the file with empty comments and with an end mark.
pub(super) fn repair(bytes: &mut Bytes, region: Range<u64>) -> Result<Repaired, Failure> {
    let as_it_is = Repaired::nothing(region.clone());
    let Some(first) = Page::at(bytes, region.start, region.end)? else { return Ok(as_it_is) };
    let head = bytes.of_range(&first.body)?;
    if head.starts_with(b"Speex   ") {
        return Err(Problem::Codec("Speex in an Ogg".into()).into());
    }
    let second = Page::at(bytes, first.body.end, region.end)?;
    // Several multiplexed streams are left unchanged.
    if second.is_some_and(|page| page.flags() & BEGINS != 0) {
        return Ok(as_it_is);
    }
    let is_opus = head.starts_with(b"OpusHead");
    let skip = number(&head, SKIP, u16::from_le_bytes).filter(|_| is_opus).unwrap_or(0);
    let gain = number(&head, GAIN, i16::from_le_bytes).filter(|_| is_opus).unwrap_or(0);
    let mut parts = vec![match skip {
        0 => Segment::File(region.start..first.body.end),
        _ => Segment::Own(unskipped(&first, &head)),
    }];
    let mut sound = first.body.end..region.end;
    if let Some((comments, count)) = comments(&head)
        && let Some((headers, begin)) = headers(bytes, &first, &sound, count)?
    {
        let packets = iter::once(comments).chain(headers).collect();
        parts.push(Segment::Own(pages(&first, packets)?));
        sound = begin..region.end;
    }
    let mut notices = Vec::new();
    let mut is_open = false;
    match last(bytes, &first, &sound)? {
        Some(page) => {
            let ends = page.flags() & ENDS != 0;
            is_open = !page.has_time(sound.end);
            parts.push(Segment::File(sound.start..page.start()));
            parts.push(Segment::Own(page.closed(bytes, is_open)?));
            if !ends {
                notices.push("does not say that it ends: it may be a piece of a longer one".into());
            }
        }
        None => parts.push(Segment::File(sound)),
    }
    let known = Known { skip: skip.into(), gain, is_open, ..Known::default() };
    Ok(Repaired { notices, parts, known })
}

/// The first page of Opus with a pre-skip of 0. The decoder would remove the pre-skip from its
/// first packet only, which may be shorter.
fn unskipped(first: &Page, head: &[u8]) -> Vec<u8> {
    let mut page = [&first.header[..], head].concat();
    let skip = first.header.len() + SKIP;
    page[skip..skip + 2].fill(0);
    seal(&mut page);
    page
}

/// Headers, and the position of the sound after them.
type Headers = (Vec<Vec<u8>>, u64);

/// The headers after the comments, and the position of the sound; `None` if they are malformed.
fn headers(
    bytes: &mut Bytes,
    first: &Page,
    range: &Range<u64>,
    count: usize,
) -> Result<Option<Headers>, Failure> {
    let (mut packets, mut packet) = (Vec::new(), Vec::new());
    let mut at = range.start;
    let most = range.end.min(range.start + MOST_HEADERS);
    while at < most {
        let Some(page) = Page::at(bytes, at, range.end)? else {
            // Damaged bytes are skipped.
            match find(bytes, at + 1..most, &[b"OggS"])? {
                Some(found) => at = found,
                None => return Ok(None),
            }
            continue;
        };
        at = page.body.end;
        if page.stream() != first.stream() {
            continue;
        }
        let body = bytes.of_range(&page.body)?;
        let mut rest = &body[..];
        for (index, &segment) in page.header[27..].iter().enumerate() {
            let (own, after) = rest.split_at(usize::from(segment).min(rest.len()));
            packet.extend_from_slice(own);
            rest = after;
            if segment < 255 {
                packets.push(std::mem::take(&mut packet));
            }
            if packets.len() == count {
                let is_end = index + 1 == usize::from(page.header[26]);
                let headers = packets.split_off(1);
                let is_setup = headers.iter().all(|of| of.starts_with(b"\x05vorbis"));
                return Ok((is_end && is_setup).then_some((headers, at)));
            }
        }
    }
    Ok(None)
}

/// Builds the pages after `first`, of the same stream, from their packets.
fn pages(first: &Page, packets: Vec<Vec<u8>>) -> io::Result<Vec<u8>> {
    let (mut writer, stream) = (PacketWriter::new(Vec::new()), first.stream().unwrap_or_default());
    // The writer marks its first page as the beginning of the stream, which is `first`.
    writer.write_packet(Vec::<u8>::new(), stream, EndPage, 0)?;
    let (begin, last) = (writer.inner().len(), packets.len().saturating_sub(1));
    for (index, packet) in packets.into_iter().enumerate() {
        let info = if index == last { EndPage } else { NormalPacket };
        writer.write_packet(packet, stream, info, 0)?;
    }
    Ok(writer.into_inner().split_off(begin))
}

/// The last page, if it is at the end of the file and belongs to the stream of `first`.
fn last(bytes: &mut Bytes, first: &Page, range: &Range<u64>) -> Result<Option<Page>, Failure> {
    let mut at = range.end.saturating_sub(MOST).max(range.start);
    while let Some(found) = find(bytes, at..range.end, &[b"OggS"])? {
        if let Some(page) = Page::at(bytes, found, range.end)?
            && page.body.end == range.end
        {
            return Ok(Some(page).filter(|page| page.stream() == first.stream()));
        }
        at = found + 1;
    }
    Ok(None)
}

/// Writes the checksum of a page: CRC-32 with the polynomial 0x04c11db7, not reflected.
fn seal(page: &mut [u8]) {
    page[22..26].fill(0);
    let mut sum = Crc32::new(0);
    sum.process_buf_bytes(page);
    page[22..26].copy_from_slice(&sum.crc().to_le_bytes());
}

#[cfg(test)]
mod tests;
