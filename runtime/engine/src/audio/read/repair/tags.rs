//! Tags before and after the sound: ID3v2, ID3v1, APE.
//!
//! Source: id3.org, ID3v2.4.0 structure; wiki.hydrogenaud.io, APEv2 specification.

use std::{io, ops::Range};

use super::{super::source::Bytes, FAR, Kind, find, kind, mpeg, number};

/// Bytes of an ID3v2 tag's header, and of its footer.
const HEADER: u64 = 10;

/// The largest part of a tag with a wrong length that is searched.
const MOST: u64 = 1 << 26;

/// Bytes of an ID3v1 tag, which begins with `TAG`.
const ID3V1: u64 = 128;

/// Bytes of an APE tag's footer, which begins with `APETAGEX`.
const APE: u64 = 32;

/// First bytes of other containers; a search inside them might find sound by chance.
const OTHERS: [&[u8]; 6] =
    [b"\x1a\x45\xdf\xa3", b"RIFF", b"\x30\x26\xb2\x75", b"\0\0\x01\xba", b"FLV", b"G@"];

/// The container in `region` and its position after tags, whose stated lengths may be wrong.
pub(super) fn beginning(bytes: &mut Bytes, region: &Range<u64>) -> io::Result<Option<(Kind, u64)>> {
    let mut at = region.start;
    let mut tag = None;
    loop {
        let head = bytes.at(at, HEADER)?;
        let [b'I', b'D', b'3', _, _, flags, a, b, c, d] = head[..] else { break };
        // The length has seven bits per byte.
        let length = [a, b, c, d].into_iter().fold(0, |sum, byte| sum << 7 | u64::from(byte & 127));
        let footer = if flags & 0x10 == 0 { 0 } else { HEADER };
        tag = Some(at + HEADER);
        at += HEADER + length + footer;
        if at >= region.end {
            break;
        }
    }
    if at < region.end
        && let Some(kind) = kind(bytes, at, region.end)?
    {
        return Ok(Some((kind, at)));
    }
    // A tag with a too large length ends earlier, one with a too small length ends later.
    if let Some(begin) = tag
        && let until = at.min(region.end).min(begin.saturating_add(MOST))
        && let Some(found) = search(bytes, begin..until, region.end)?
    {
        return Ok(Some(found));
    }
    let head = bytes.at(at, 8)?;
    if OTHERS.iter().any(|of| head.starts_with(of)) {
        return Ok(None);
    }
    let until = region.end.min(at.saturating_add(FAR));
    search(bytes, at.min(until)..until, region.end)
}

/// The first container in `range`.
fn search(bytes: &mut Bytes, range: Range<u64>, end: u64) -> io::Result<Option<(Kind, u64)>> {
    const NAMES: [&[u8]; 8] =
        [b"RIFF", b"RF64", b"BW64", b"FORM", b"fLaC", b"OggS", b"ftyp", b"\xff"];
    let mut at = range.start;
    while let Some(found) = find(bytes, at..range.end, &NAMES)? {
        let head = bytes.at(found, 4)?;
        // An MP4 box begins with its length.
        let place = if head == b"ftyp" { found.saturating_sub(4) } else { found };
        let is_sure = match &bytes.at(found, 8)?[..] {
            // The name alone may be part of a text; a real container continues with these bytes.
            [b'f', b'L', b'a', b'C', kind, length @ ..] => *kind & 127 == 0 && length == [0, 0, 34],
            [b'O', b'g', b'g', b'S', version, flags, ..] => (*version, *flags) == (0, 2),
            [b'f', b't', b'y', b'p', ..] => bytes.at(place, 2)? == [0, 0],
            _ => true,
        };
        match kind(bytes, place, end)?.filter(|_| is_sure) {
            // A single frame may be a coincidence.
            Some(Kind::Mpeg | Kind::Adts) if !mpeg::continues(bytes, place, end)? => {}
            Some(kind) => return Ok(Some((kind, place))),
            None => {}
        }
        at = found + 1;
    }
    Ok(None)
}

/// The end of the sound in `region`: before the tags after it.
pub(super) fn end(bytes: &mut Bytes, kind: Kind, region: &Range<u64>) -> io::Result<u64> {
    let mut end = region.end;
    if !matches!(kind, Kind::Flac | Kind::Mpeg | Kind::Adts) {
        return Ok(end);
    }
    loop {
        let before = end;
        if let Some(tag) = end.checked_sub(ID3V1).filter(|tag| *tag >= region.start)
            && bytes.at(tag, 3)? == b"TAG"
        {
            end = tag;
        }
        if let Some(footer) = end.checked_sub(APE).filter(|footer| *footer >= region.start)
            && let foot = bytes.at(footer, APE)?
            && foot.starts_with(b"APETAGEX")
        {
            // The length includes items and footer. It is used only if a header is before them.
            let items = number(&foot, 12, u32::from_le_bytes)
                .and_then(|length| footer.checked_sub(length.into()));
            let header = items.filter(|header| *header >= region.start);
            end = match header {
                Some(header) if bytes.at(header, 8)? == b"APETAGEX" => header,
                _ => footer,
            };
        }
        if end == before {
            return Ok(end);
        }
    }
}
