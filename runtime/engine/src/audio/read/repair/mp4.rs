//! MP4 and M4A: hides boxes with tags, whose content and length may be wrong.
//!
//! Source: ISO/IEC 14496-12.

use std::{io, ops::Range};

use super::{
    super::source::{Bytes, Segment},
    Repaired, number,
};

/// A box, or atom.
struct Atom {
    name: [u8; 4],
    /// The start of the box, the start of its content, and its end.
    start: u64,
    content: u64,
    end: u64,
    /// True if the box states a length that exceeds its parent.
    is_too_long: bool,
}

/// Boxes that can be left out.
const TAGS: [&[u8; 4]; 4] = [b"udta", b"meta", b"free", b"skip"];

/// Boxes that may be beside them.
const BESIDE: [&[u8; 4]; 17] = [
    b"mvhd", b"trak", b"mvex", b"iods", b"uuid", b"cprt", b"pssh", b"tkhd", b"mdia", b"edts",
    b"tref", b"load", b"ftyp", b"moov", b"moof", b"mdat", b"wide",
];

/// The boxes in `range`, up to the first one with an impossible length.
fn boxes(bytes: &mut Bytes, range: Range<u64>) -> io::Result<Vec<Atom>> {
    let (mut all, mut start) = (Vec::new(), range.start);
    while range.end.saturating_sub(start) >= 8 {
        let head = bytes.at(start, 16)?;
        let (Some(length), Some(name)) =
            (number(&head, 0, u32::from_be_bytes), head.get(4..8).and_then(|n| n.first_chunk()))
        else {
            break;
        };
        let long = number(&head, 8, u64::from_be_bytes);
        let (content, length) = match (length, long) {
            (0, _) => (start + 8, range.end - start),
            (1, Some(long)) => (start + 16, long),
            _ => (start + 8, u64::from(length)),
        };
        let end = start.saturating_add(length);
        let is_tag = TAGS.contains(&name);
        if end < content && !is_tag {
            break;
        }
        // The end of a tag with a wrong length is unknown: the rest of its parent is skipped too.
        let is_wrong = end < content || is_tag && end < range.end && !follows(bytes, end)?;
        let end = if is_wrong { u64::MAX } else { end };
        let is_too_long = end > range.end;
        all.push(Atom { name: *name, start, content, end: end.min(range.end), is_too_long });
        start = end.min(range.end);
    }
    Ok(all)
}

/// True if a box that may be beside tags begins at `at`.
fn follows(bytes: &mut Bytes, at: u64) -> io::Result<bool> {
    let head = bytes.at(at, 8)?;
    let is = |name: &&[u8; 4]| head.get(4..8) == Some(&name[..]);
    Ok(TAGS.iter().chain(&BESIDE).any(is))
}

/// Returns the file without its tags.
pub(super) fn repair(bytes: &mut Bytes, region: Range<u64>) -> io::Result<Repaired> {
    let mut changes = Vec::new();
    let all = boxes(bytes, region.clone())?;
    changes.extend(all.iter().filter_map(ends_with_file));
    for movie in all.iter().filter(|of| of.name == *b"moov") {
        for inner in boxes(bytes, movie.content..movie.end)? {
            changes.extend(left_out(&inner));
            if inner.name == *b"trak" {
                let inner = boxes(bytes, inner.content..inner.end)?;
                changes.extend(inner.iter().filter_map(left_out));
            }
        }
    }
    changes.sort();
    let (mut parts, mut at) = (Vec::new(), region.start);
    for (place, change) in changes {
        parts.push(Segment::File(at..place));
        at = place + change.len() as u64;
        parts.push(Segment::Own(change));
    }
    parts.push(Segment::File(at..region.end));
    Ok(Repaired::of(parts))
}

/// The position and the new length of an `mdat` box that is longer than the file, so that the
/// rest of it can be decoded.
fn ends_with_file(of: &Atom) -> Option<(u64, Vec<u8>)> {
    let length = of.end - of.start;
    match of.content - of.start {
        _ if !of.is_too_long || of.name != *b"mdat" => None,
        8 => Some((of.start, u32::try_from(length).ok()?.to_be_bytes().to_vec())),
        _ => Some((of.start + 8, length.to_be_bytes().to_vec())),
    }
}

/// The position and the new head of a box to skip.
fn left_out(of: &Atom) -> Option<(u64, Vec<u8>)> {
    if !TAGS.contains(&&of.name) {
        return None;
    }
    let length = u32::try_from(of.end - of.start).ok()?;
    // A box with a 64-bit length that fits keeps its length.
    let is_short = of.is_too_long || of.content - of.start == 8;
    let head = match is_short {
        true => [&length.to_be_bytes()[..], b"free"].concat(),
        false => b"\0\0\0\x01free".to_vec(),
    };
    Some((of.start, head))
}

#[cfg(test)]
mod tests {
    use crate::audio::read::{
        Problem,
        tests::{bytes_of, noticed, problem},
    };

    /// The fixture, whose index is its last box, with `tags` at the end of the index.
    fn with(tags: &[u8]) -> Vec<u8> {
        let mut bytes = bytes_of("sine.m4a");
        let index = bytes.windows(4).position(|w| w == b"moov").expect("an index") - 4;
        bytes.truncate(
            index + u32::from_be_bytes(*bytes[index..].first_chunk().expect("a length")) as usize,
        );
        let length = (bytes.len() - index + tags.len()) as u32;
        bytes[index..index + 4].copy_from_slice(&length.to_be_bytes());
        bytes.extend(tags);
        bytes
    }

    fn atom(length: u32, name: &[u8], body: &[u8]) -> Vec<u8> {
        [&length.to_be_bytes()[..], name, body].concat()
    }

    #[test]
    fn tags_may_say_anything_of_their_length() {
        let whole = noticed("a.m4a", &with(b""));
        for length in [0, 1, 4, 7, 8, 9, 40, 1 << 20, u32::MAX] {
            let inner =
                atom(24, b"meta", &[0, 0, 0, 0, 0, 0, 0, 12, b'i', b'l', b's', b't', 9, 9, 9, 9]);
            assert_eq!(noticed("a.m4a", &with(&atom(length, b"udta", &inner))), whole, "{length}");
            let data = atom(length, b"data", &[0; 8]);
            let list = atom(32, b"ilst", &[&atom(24, b"\xa9nam", &data)[..], &[0; 8]].concat());
            let tags = atom(52, b"udta", &atom(44, b"meta", &[&[0; 4][..], &list].concat()));
            assert_eq!(noticed("a.m4a", &with(&tags)), whole, "{length}");
            assert_eq!(
                noticed("a.m4a", &with(&atom(length, b"meta", &[9; 32]))),
                whole,
                "{length}"
            );
        }
    }

    /// The index is before the sound, as in files for the web.
    #[test]
    fn of_a_cut_file_it_is_said_how_much_is_there() {
        let mut bytes = with(b"");
        let index = bytes.windows(4).position(|w| w == b"moov").expect("an index") - 4;
        let sound = bytes.windows(4).position(|w| w == b"mdat").expect("a sound") - 4;
        let mut movie = bytes.split_off(index);
        let places = movie.windows(4).position(|w| w == b"stco").expect("places") + 8;
        let length = movie.len() as u32;
        let number = |at: &[u8]| u32::from_be_bytes(*at.first_chunk().expect("a number"));
        for at in (0..number(&movie[places..]) as usize).map(|i| places + 4 + 4 * i) {
            let moved = number(&movie[at..]) + length;
            movie[at..at + 4].copy_from_slice(&moved.to_be_bytes());
        }
        bytes.splice(sound..sound, movie);
        assert_eq!(noticed("a.m4a", &bytes).0, noticed("a.m4a", &with(b"")).0);
        bytes.truncate(bytes.len() - 500);
        let found = problem("a.m4a", &bytes);
        let Problem::CutShort { seconds } = found else { panic!("{found}") };
        assert!((0.1..0.3).contains(&seconds), "{seconds}");
    }
}
