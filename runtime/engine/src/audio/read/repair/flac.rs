//! FLAC: the STREAMINFO block and the frames.
//!
//! Source: RFC 9639.

use std::{io, ops::Range};

use symphonia::core::{checksum::Crc8Ccitt, io::Monitor};

use super::{
    super::{
        Failure, Problem,
        source::{Bytes, Segment},
    },
    FAR, Repaired,
};

/// Bytes of the STREAMINFO block.
const STREAM: usize = 34;

/// The longest header of a frame.
const LONGEST: u64 = 16;

/// The header of a frame; a value that STREAMINFO defines is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Frame {
    is_variable: bool,
    /// The number of the frame, or of its first sample if `is_variable`.
    number: u64,
    block: u32,
    rate: Option<u32>,
    channels: u8,
    bits: Option<u8>,
}

/// Returns a FLAC with only STREAMINFO and the frames. Its length is left unknown; the stated
/// length is compared with the decoded sound later.
pub(super) fn repair(bytes: &mut Bytes, region: Range<u64>) -> Result<Repaired, Failure> {
    let (stream, frames) = blocks(bytes, &region)?;
    let from = region.start + 4;
    let until = region.end.min(from + (1 << 24) + FAR);
    let (first, is_damaged) = match frames {
        Some(frames) if frame(bytes, frames)?.is_some() => (Some(frames), false),
        // A block with a too large length hides frames; otherwise the first frame is damaged.
        _ => {
            let found = search(bytes, from..until, stream.as_ref())?;
            (found, found.zip(frames).is_some_and(|(found, frames)| found > frames))
        }
    };
    let Some(first) = first else { return Err(Problem::CutShort { seconds: 0.0 }.into()) };
    let Some(frame) = frame(bytes, first)? else { return Err(Problem::Empty.into()) };
    let mut stream = stream.unwrap_or([0; STREAM]);
    let stated = total(&stream);
    describe(&mut stream, frame)?;
    let mut head = b"fLaC\x80\0\0\x22".to_vec();
    head.extend(stream);
    let mut repaired = Repaired::of(vec![Segment::Own(head), Segment::File(first..region.end)]);
    repaired.known.stated = (stated > 0).then_some(stated);
    repaired.known.begins = if is_damaged { 0 } else { frame.begins() };
    Ok(repaired)
}

/// The STREAMINFO block, and the position of the first frame according to the blocks.
fn blocks(
    bytes: &mut Bytes,
    region: &Range<u64>,
) -> io::Result<(Option<[u8; STREAM]>, Option<u64>)> {
    let (mut at, mut stream) = (region.start + 4, None);
    while at + 4 <= region.end {
        let [kind, a, b, c] = bytes.at(at, 4)?[..] else { break };
        let length = u64::from(u32::from_be_bytes([0, a, b, c]));
        if kind & 127 == 0 && stream.is_none() {
            stream = bytes.at(at + 4, STREAM as u64)?.first_chunk().copied();
        }
        at += 4 + length;
        if kind & 128 != 0 {
            return Ok((stream, Some(at)));
        }
    }
    Ok((stream, None))
}

/// The position of the first frame in `range`.
fn search(
    bytes: &mut Bytes,
    range: Range<u64>,
    stream: Option<&[u8; STREAM]>,
) -> io::Result<Option<u64>> {
    let mut at = range.start;
    while let Some(found) = super::find(bytes, at..range.end, &[b"\xff\xf8", b"\xff\xf9"])? {
        let fits = |of: Frame| stream.is_none_or(|stream| of.is_of(stream));
        if frame(bytes, found)?.is_some_and(fits) {
            return Ok(Some(found));
        }
        at = found + 1;
    }
    Ok(None)
}

/// The header of the frame at `at`, if its checksum is right.
fn frame(bytes: &mut Bytes, at: u64) -> io::Result<Option<Frame>> {
    Ok(Frame::of(&bytes.at(at, LONGEST)?))
}

impl Frame {
    fn of(head: &[u8]) -> Option<Self> {
        let &[0xff, second, sizes, form, ..] = head else { return None };
        if second & 0xfe != 0xf8 || form & 1 != 0 {
            return None;
        }
        // The frame number is coded like UTF-8.
        let lead = *head.get(4)?;
        let (count, bits) = match lead.leading_ones() {
            0 => (1, lead),
            count @ 2..=7 => (count as usize, lead & (0x7f >> count)),
            _ => return None,
        };
        let rest = head.get(5..4 + count)?.iter();
        let number = rest.fold(u64::from(bits), |sum, byte| sum << 6 | u64::from(byte & 63));
        let mut at = 4 + count;
        let mut next = |count: usize| {
            let bytes = head.get(at..at + count)?;
            at += count;
            Some(bytes.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte)))
        };
        let block = match sizes >> 4 {
            0 => return None,
            1 => 192,
            code @ 2..=5 => 144 << code,
            6 => next(1)? + 1,
            7 => next(2)? + 1,
            code => 1 << code,
        };
        let rates = [
            88_200, 176_400, 192_000, 8_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 96_000,
        ];
        let rate = match sizes & 15 {
            0 => None,
            code @ 1..=11 => Some(rates[usize::from(code) - 1]),
            12 => Some(next(1)? * 1000),
            13 => Some(next(2)?),
            14 => Some(next(2)? * 10),
            _ => return None,
        };
        let channels = match form >> 4 {
            code @ 0..=7 => code + 1,
            8..=10 => 2,
            _ => return None,
        };
        let bits = match form >> 1 & 7 {
            0 => None,
            3 => return None,
            code => Some([8, 12, 0, 16, 20, 24, 32][usize::from(code) - 1]),
        };
        let mut sum = Crc8Ccitt::new(0);
        sum.process_buf_bytes(&head[..at]);
        let is_variable = second & 1 == 1;
        (head.get(at) == Some(&sum.crc())).then_some(Self {
            is_variable,
            number,
            block,
            rate,
            channels,
            bits,
        })
    }

    /// The number of samples before the frame.
    fn begins(self) -> u64 {
        if self.is_variable { self.number } else { self.number * u64::from(self.block) }
    }

    /// True if the frame matches a STREAMINFO block.
    fn is_of(self, stream: &[u8; STREAM]) -> bool {
        let form = u32::from_be_bytes([stream[10], stream[11], stream[12], stream[13]]);
        let (rate, channels) = (form >> 12, (form >> 9 & 7) + 1);
        self.rate.is_none_or(|of| of == rate) && u32::from(self.channels) == channels
    }
}

/// The number of samples per channel, a field of 36 bits.
fn total(stream: &[u8; STREAM]) -> u64 {
    stream[13..18].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)) & 0xf_ffff_ffff
}

/// Copies the format of the first frame into STREAMINFO and clears fields that may be wrong: the
/// sizes of frames and the length.
fn describe(stream: &mut [u8; STREAM], frame: Frame) -> Result<(), Problem> {
    let (least, most) = match frame.is_variable {
        true => (16, u16::MAX),
        // A single block may be shorter than 16, the smallest size that the field allows.
        false => {
            let size = u16::try_from(frame.block.max(16)).unwrap_or(u16::MAX);
            (size, size)
        }
    };
    stream[0..2].copy_from_slice(&least.to_be_bytes());
    stream[2..4].copy_from_slice(&most.to_be_bytes());
    stream[4..10].fill(0);
    // 20 bits of rate, 3 of channels, 5 of bits per sample, 36 of samples.
    let own = u32::from_be_bytes([stream[10], stream[11], stream[12], stream[13]]);
    let rate = frame.rate.unwrap_or(own >> 12);
    let bits = frame.bits.map_or(own >> 4 & 31, |bits| u32::from(bits) - 1);
    if rate == 0 || bits == 0 {
        let why = "nothing says how its samples are stored";
        return Err(Problem::Header(why.into()));
    }
    let form = rate << 12 | u32::from(frame.channels - 1) << 9 | bits << 4;
    stream[10..14].copy_from_slice(&form.to_be_bytes());
    stream[14..18].fill(0);
    Ok(())
}

#[cfg(test)]
mod tests;
