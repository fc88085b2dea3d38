//! MPEG audio (MP1, MP2, MP3) and the tag in its first frame, which states the length.
//!
//! Source: ISO/IEC 11172-3, 13818-3; Xing's and LAME's tag: gabriel.mp3-tech.org/mp3infotag.html.

use std::{io, ops::Range};

use symphonia::core::{checksum::Crc16AnsiLe, io::Monitor};

use super::{
    super::source::{Bytes, Segment},
    Repaired, longer_than_stated, number,
};
use crate::audio::read::MOST_SECONDS;

/// The header of a frame, its first four bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Frame {
    /// Version and layer, as stored.
    form: u8,
    /// Bytes of the frame with its header.
    size: u64,
    samples: u64,
    pub(in super::super) rate: u32,
    pub(in super::super) channels: u8,
}

/// Kilobits per second, by version (MPEG 1 and later) and layer 1 to 3.
const KILOBITS: [[[u16; 14]; 3]; 2] = [
    [
        [32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448],
        [32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384],
        [32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],
    ],
    [
        [32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256],
        [8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
        [8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
    ],
];

/// This many consecutive frames cannot be a coincidence.
const CHAIN: usize = 4;

/// The longest frame, in bytes.
const LONGEST: u64 = 4096;

impl Frame {
    pub(in super::super) fn of(head: &[u8]) -> Option<Self> {
        let &[0xff, form, rates, mode, ..] = head else { return None };
        let (version, layer) = (form >> 3 & 3, form >> 1 & 3);
        if form >> 5 != 7 || version == 1 || layer == 0 || rates & 0x0c == 0x0c {
            return None;
        }
        let (is_first, layer) = (version == 3, 4 - usize::from(layer));
        let index = usize::from(rates >> 4).checked_sub(1)?;
        let kilobits = KILOBITS[usize::from(!is_first)][layer - 1].get(index)?;
        let rate = [44_100, 48_000, 32_000][usize::from(rates >> 2 & 3)];
        let rate = rate >> [2, 0, 1, 0][usize::from(version)];
        let samples: u64 = match layer {
            1 => 384,
            3 if !is_first => 576,
            _ => 1152,
        };
        let padding = u64::from(rates >> 1 & 1);
        let bits = u64::from(*kilobits) * 1000;
        let size = match layer {
            1 => (12 * bits / u64::from(rate) + padding) * 4,
            _ => samples / 8 * bits / u64::from(rate) + padding,
        };
        let channels = if mode >> 6 == 3 { 1 } else { 2 };
        Some(Self { form: form & 0x1e, size, samples, rate, channels })
    }

    /// The position of a tag in the frame: after the side information of layer 3.
    fn tag_place(self) -> usize {
        4 + match (self.form >> 3 == 3, self.channels) {
            (true, 1) | (false, 2) => 17,
            (true, _) => 32,
            (false, _) => 9,
        }
    }

    fn follows(self, other: Self) -> bool {
        (self.form, self.rate) == (other.form, other.rate)
    }
}

fn frame(bytes: &mut Bytes, at: u64) -> io::Result<Option<Frame>> {
    Ok(Frame::of(&bytes.at(at, 4)?))
}

/// The number of consecutive frames from `at` on, at most [`CHAIN`]. Also [`CHAIN`] if they reach
/// the end.
pub(super) fn chain(bytes: &mut Bytes, at: u64, end: u64) -> io::Result<usize> {
    let Some(first) = frame(bytes, at)? else { return Ok(0) };
    let mut at = at + first.size;
    for count in 1..CHAIN {
        if at == end {
            return Ok(CHAIN);
        }
        match frame(bytes, at)? {
            Some(next) if next.follows(first) => at += next.size,
            _ => return Ok(count),
        }
    }
    Ok(CHAIN)
}

/// True if [`CHAIN`] frames follow from `at` on.
pub(super) fn continues(bytes: &mut Bytes, at: u64, end: u64) -> io::Result<bool> {
    Ok(chain(bytes, at, end)? == CHAIN || adts_chain(bytes, at, end)? == CHAIN)
}

/// As [`chain`], for frames of AAC.
pub(super) fn adts_chain(bytes: &mut Bytes, mut at: u64, end: u64) -> io::Result<usize> {
    for count in 0..CHAIN {
        if at == end && count > 0 {
            return Ok(CHAIN);
        }
        let head = bytes.at(at, 6)?;
        let [0xff, second, _, a, b, c] = head[..] else { return Ok(count) };
        let length = u64::from(a & 3) << 11 | u64::from(b) << 3 | u64::from(c >> 5);
        if second & 0xf6 != 0xf0 || length < 7 {
            return Ok(count);
        }
        at += length;
    }
    Ok(CHAIN)
}

/// Returns the file, with a corrected frame count in its tag if it has more frames than stated.
pub(super) fn repair(bytes: &mut Bytes, region: Range<u64>) -> io::Result<Repaired> {
    let mut repaired = Repaired::nothing(region.clone());
    let Some(first) = frame(bytes, region.start)? else { return Ok(repaired) };
    let mut head = bytes.at(region.start, first.size.min(LONGEST))?;
    let place = first.tag_place();
    let (true, Some(stated)) = (is_tag(&head, place), number(&head, place + 8, u32::from_be_bytes))
    else {
        return Ok(repaired);
    };
    // A flag says whether the tag has a frame count.
    if head[place + 7] & 1 == 0 {
        return Ok(repaired);
    }
    let begin = region.start + head.len() as u64;
    let has = count(bytes, begin..region.end, first)?;
    // Encoders may or may not count the frame with the tag.
    if has <= u64::from(stated) + 1 {
        return Ok(repaired);
    }
    let has = u32::try_from(has).unwrap_or(u32::MAX);
    head[place + 8..place + 12].copy_from_slice(&has.to_be_bytes());
    fill_nothing_up(&mut head, place);
    let seconds = |frames: u32| frames as f64 * first.samples as f64 / f64::from(first.rate);
    if stated > 0 {
        repaired.notices.push(longer_than_stated(seconds(stated), seconds(has)));
    }
    repaired.parts = vec![Segment::Own(head), Segment::File(begin..region.end)];
    Ok(repaired)
}

fn is_tag(head: &[u8], place: usize) -> bool {
    head.get(place..place + 4).is_some_and(|name| name == b"Xing" || name == b"Info")
}

/// Clears the end padding in LAME's part of the tag, because it is about another last frame.
/// Updates the checksum of the tag.
fn fill_nothing_up(head: &mut [u8], place: usize) {
    let flags = head[place + 7];
    let sizes = [4, 4, 100, 4];
    let before = (0..4).filter(|bit| flags >> bit & 1 == 1).map(|bit| sizes[bit]).sum::<usize>();
    let lame = place + 8 + before;
    if let Some(delays) = head.get_mut(lame + 21..lame + 24) {
        delays[1] &= 0xf0;
        delays[2] = 0;
    }
    if head.len() >= lame + 36 {
        // CRC-16/ARC.
        let mut sum = Crc16AnsiLe::new(0);
        sum.process_buf_bytes(&head[..lame + 34]);
        head[lame + 34..lame + 36].copy_from_slice(&sum.crc().to_be_bytes());
    }
}

/// The number of sound frames in `range`, at most as many as are read.
fn count(bytes: &mut Bytes, range: Range<u64>, like: Frame) -> io::Result<u64> {
    const WINDOW: u64 = 1 << 18;
    let most = u64::from(MOST_SECONDS) * u64::from(like.rate) / like.samples + CHAIN as u64;
    let (mut at, mut frames) = (range.start, 0);
    let (mut window, mut begin) = (Vec::new(), range.start);
    while at + 4 <= range.end && frames < most {
        if at < begin || at + LONGEST > begin + window.len() as u64 {
            (window, begin) = (bytes.at(at, WINDOW.min(range.end - at))?, at);
        }
        let rest = &window[(at - begin) as usize..];
        match Frame::of(rest).filter(|frame| frame.follows(like)) {
            Some(frame) if at + frame.size > range.end => break,
            Some(frame) => {
                frames += u64::from(!is_tag(rest, frame.tag_place()));
                at += frame.size;
            }
            None => at += 1,
        }
    }
    Ok(frames)
}

#[cfg(test)]
mod tests;
