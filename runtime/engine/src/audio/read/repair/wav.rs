//! WAV, and its 64-bit forms RF64 and BW64.
//!
//! Source: Microsoft, `mmreg.h`; EBU Tech 3306 (RF64); ITU-R BS.2088 (BW64).

use std::ops::Range;

use super::{
    super::{
        Failure, Problem,
        source::{Bytes, Segment},
    },
    Repaired,
    chunks::{Chunk, Length, Order, Reader},
    longer_than_stated, mpeg, number, shorter_than_stated,
};

/// The largest number of channels that is supported.
const MOST_CHANNELS: u16 = 26;

/// The largest part of a format chunk that is read.
const MOST_FORMAT: u64 = 1 << 12;

/// The format of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Format {
    tag: u16,
    channels: u16,
    rate: u32,
    /// Bytes per sample.
    width: u16,
}

/// Returns a WAV with only a format and the sound.
pub(super) fn repair(bytes: &mut Bytes, region: Range<u64>) -> Result<Repaired, Failure> {
    let reader =
        Reader { order: Order::Little, sound: b"data", before: 0, long: long(bytes, &region)? };
    let chunks = reader.all(bytes, region.start + 12..region.end)?;
    let sounds: Vec<&Chunk> = chunks.iter().filter(|chunk| chunk.name == *b"data").collect();
    let Some(&first) = sounds.first() else { return Err(Problem::Empty.into()) };
    let Some(format) = chunks.iter().find(|chunk| chunk.name == *b"fmt ") else {
        let why = "nothing says how its samples are stored";
        return Err(Problem::Header(why.into()).into());
    };
    let format = bytes.at(format.body.start, format.stated.min(MOST_FORMAT))?;
    let tag = tag(&format).ok_or_else(|| Problem::Header("its format is cut short".into()))?;
    if tag == 0x50 || tag == 0x55 {
        return Ok(mpeg::repair(bytes, first.body.clone())?);
    }
    let format = Format::of(tag, &format)?;
    let frame = u64::from(format.frame());
    let whole = |range: &Range<u64>| range.start..range.end - (range.end - range.start) % frame;
    let sounds: Vec<_> = sounds.iter().map(|chunk| whole(&chunk.body)).collect();
    let length = sounds.iter().map(|range| range.end - range.start).sum();
    let mut parts = vec![Segment::Own(format.header(length))];
    parts.extend(sounds.into_iter().map(Segment::File));
    let mut repaired = Repaired::of(parts);
    let seconds = |bytes: u64| (bytes / frame) as f64 / f64::from(format.rate.max(1));
    repaired.notices.extend(length_notice(&reader, bytes, first, region.end, seconds)?);
    Ok(repaired)
}

/// A notice if a sound chunk states a wrong length.
pub(super) fn length_notice(
    reader: &Reader,
    bytes: &mut Bytes,
    chunk: &Chunk,
    end: u64,
    seconds: impl Fn(u64) -> f64,
) -> Result<Option<String>, Failure> {
    let sound = chunk.body.start + reader.before..end;
    let stated = chunk.stated.saturating_sub(reader.before);
    let (end, length) = reader.sound_of(bytes, &sound, stated)?;
    let (stated, has) = (seconds(stated), seconds(end.saturating_sub(sound.start)));
    Ok(match length {
        Length::Believed => None,
        Length::TooLong => Some(shorter_than_stated(stated, has)),
        Length::TooShort => Some(longer_than_stated(stated, has)),
    })
}

/// The length of the sound of an RF64, which is in a separate chunk.
fn long(bytes: &mut Bytes, region: &Range<u64>) -> Result<Option<u64>, Failure> {
    let head = bytes.at(region.start, 36)?;
    let is_long = !head.starts_with(b"RIFF") && head.get(12..16) == Some(b"ds64");
    Ok(number(&head, 28, u64::from_le_bytes).filter(|_| is_long))
}

/// The codec number: in the extensible form, the first two bytes of the subformat's GUID.
fn tag(format: &[u8]) -> Option<u16> {
    match number(format, 0, u16::from_le_bytes)? {
        0xfffe => number(format, 24, u16::from_le_bytes),
        tag => Some(tag),
    }
}

impl Format {
    fn of(tag: u16, format: &[u8]) -> Result<Self, Problem> {
        let short = || Problem::Header("its format is cut short".into());
        let channels = number(format, 2, u16::from_le_bytes).ok_or_else(short)?;
        let rate = number(format, 4, u32::from_le_bytes).ok_or_else(short)?;
        let frame = number(format, 12, u16::from_le_bytes).ok_or_else(short)?;
        let bits = number(format, 14, u16::from_le_bytes).unwrap_or(0);
        if channels == 0 {
            return Err(Problem::Header("it has no channels".into()));
        }
        if channels > MOST_CHANNELS {
            return Err(Problem::Codec(format!("in {channels} channels")));
        }
        // Samples of 20 bits use the upper bits of three or four bytes.
        let of_frame = frame / channels;
        let of_bits = bits.div_ceil(8);
        let is_wider = (of_bits.max(1)..=4).contains(&of_frame);
        let width = if is_wider { of_frame } else { of_bits };
        let width = match (tag, width) {
            (1, 1..=4) | (3, 4 | 8) => width,
            (6 | 7, _) => 1,
            (1, _) => return Err(Problem::Codec(format!("PCM of {bits} bits"))),
            (3, _) => return Err(Problem::Codec(format!("floats of {bits} bits"))),
            _ => return Err(Problem::Codec(name(tag))),
        };
        Ok(Self { tag, channels, rate, width })
    }

    /// Bytes per sample of all channels.
    fn frame(self) -> u16 {
        self.channels * self.width
    }

    /// The header before `length` bytes of sound.
    fn header(self, length: u64) -> Vec<u8> {
        // A-law and mu-law need the size of a format extension, which is 0.
        let more: &[u8] = if self.tag > 3 { &[0, 0] } else { &[] };
        let format = 16 + more.len() as u32;
        // A length that does not fit into 32 bits is written as unknown.
        let sound = u32::try_from(length).unwrap_or(u32::MAX);
        let all = sound.saturating_add(20 + format);
        let sound = if all == u32::MAX { all } else { sound };
        let Self { tag, channels, rate, width } = self;
        let mut header = b"RIFF".to_vec();
        header.extend(all.to_le_bytes());
        header.extend(b"WAVEfmt ");
        header.extend(format.to_le_bytes());
        header.extend([tag, channels].iter().flat_map(|x| x.to_le_bytes()));
        let per_second = rate.saturating_mul(self.frame().into());
        header.extend([rate, per_second].iter().flat_map(|x| x.to_le_bytes()));
        header.extend([self.frame(), 8 * width].iter().flat_map(|x| x.to_le_bytes()));
        header.extend(more);
        header.extend(b"data");
        header.extend(sound.to_le_bytes());
        header
    }
}

/// The name of an unsupported codec.
fn name(tag: u16) -> String {
    let name = match tag {
        0x02 => "Microsoft ADPCM",
        0x11 => "IMA ADPCM",
        0x20 => "Yamaha ADPCM",
        0x10 | 0x14 | 0x17 | 0x40 | 0x45 | 0x64 | 0x65 | 0x85 | 0x5346 => "ADPCM",
        0x22 => "TrueSpeech",
        0x31 | 0x49 => "GSM 6.10",
        0x42 | 0x111 => "G.723",
        0x83 => "G.729",
        0xff | 0x1600..=0x1602 | 0x1610 | 0x706d | 0xa106 => "AAC",
        0x92 | 0x2000 => "AC-3",
        0x2001 => "DTS",
        0x160..=0x163 => "Windows Media Audio",
        0x270 => "ATRAC3",
        0x566f | 0x674f..=0x6771 => "Ogg Vorbis",
        0x704f => "Opus",
        0xf1ac => "FLAC",
        _ => return format!("of the unknown kind {tag:#06x}"),
    };
    format!("{name} in a WAV")
}

#[cfg(test)]
mod tests;
