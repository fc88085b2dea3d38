//! AIFF and AIFF-C.
//!
//! Source: Apple, Audio Interchange File Format 1.3, and AIFF-C draft of 1991.

use std::ops::Range;

use super::{
    super::{
        Failure, Problem,
        source::{Bytes, Segment},
    },
    Repaired,
    chunks::{Order, Reader},
    number,
    wav::length_notice,
};

/// Bytes of the sound chunk before the samples.
const BEFORE: u64 = 8;

/// Returns an AIFF with only a format and the sound.
pub(super) fn repair(bytes: &mut Bytes, region: Range<u64>) -> Result<Repaired, Failure> {
    let reader = Reader { order: Order::Big, sound: b"SSND", before: BEFORE, long: None };
    let form = bytes.at(region.start + 8, 4)?;
    let chunks = reader.all(bytes, region.start + 12..region.end)?;
    let named = |name: &[u8; 4]| chunks.iter().find(|chunk| chunk.name == *name);
    let Some(chunk) = named(b"SSND") else { return Err(Problem::Empty.into()) };
    let common = match named(b"COMM") {
        Some(common) => bytes.at(common.body.start, 22)?,
        None => vec![],
    };
    let (Some(channels), Some(bits), Some(rate)) = (
        number(&common, 0, u16::from_be_bytes),
        number(&common, 6, u16::from_be_bytes),
        common.get(8..18),
    ) else {
        let why = "nothing says how its samples are stored";
        return Err(Problem::Header(why.into()).into());
    };
    let is_packed = form == b"AIFC";
    let packing = if is_packed { common.get(18..22).unwrap_or_default() } else { b"NONE" };
    let width = match packing {
        b"NONE" | b"twos" | b"sowt" | b"raw " => bits.div_ceil(8),
        b"in24" => 3,
        b"in32" | b"23ni" | b"fl32" | b"FL32" => 4,
        b"fl64" | b"FL64" => 8,
        b"alaw" | b"ALAW" | b"ulaw" | b"ULAW" => 1,
        other => {
            let name = String::from_utf8_lossy(other);
            return Err(Problem::Codec(format!("`{}` in an AIFF-C", name.trim())).into());
        }
    };
    let frame = u64::from(channels) * u64::from(width);
    if frame == 0 {
        return Err(Problem::Header("its samples have no bits, or no channels".into()).into());
    }
    let begin = chunk.body.start + BEFORE;
    let length = chunk.body.end.saturating_sub(begin);
    let length = length - length % frame;
    let mut own = channels.to_be_bytes().to_vec();
    own.extend(u32::try_from(length / frame).unwrap_or(u32::MAX).to_be_bytes());
    own.extend(bits.to_be_bytes());
    own.extend(rate);
    if is_packed {
        own.extend(packing);
        own.extend([0, 0]);
    }
    let seconds = |bytes: u64| (bytes / frame) as f64 / rate_of(rate);
    let mut repaired = Repaired::of(vec![
        Segment::Own(header(&form, &own, length)),
        Segment::File(begin..begin + length),
    ]);
    repaired.notices.extend(length_notice(&reader, bytes, chunk, region.end, seconds)?);
    Ok(repaired)
}

/// The header before `length` bytes of sound.
fn header(form: &[u8], common: &[u8], length: u64) -> Vec<u8> {
    let sound = u32::try_from(length + BEFORE).unwrap_or(u32::MAX);
    let common_length = common.len() as u32;
    let all = sound.saturating_add(4 + 8 + common_length + 8);
    let mut header = b"FORM".to_vec();
    header.extend(all.to_be_bytes());
    header.extend(form);
    header.extend(b"COMM");
    header.extend(common_length.to_be_bytes());
    header.extend(common);
    header.extend(b"SSND");
    header.extend(sound.to_be_bytes());
    header.extend([0; BEFORE as usize]);
    header
}

/// Reads a sample rate, an 80-bit float.
fn rate_of(bytes: &[u8]) -> f64 {
    let exponent =
        i32::from(number(bytes, 0, u16::from_be_bytes).unwrap_or(0) & 0x7fff) - 16_383 - 63;
    let mantissa = number(bytes, 2, u64::from_be_bytes).unwrap_or(0);
    (mantissa as f64 * f64::from(exponent.clamp(-1000, 100)).exp2()).max(1.0)
}

#[cfg(test)]
mod tests {
    use crate::audio::read::tests::{noticed, problem};

    fn chunk(name: &[u8], length: u32, body: &[u8]) -> Vec<u8> {
        [name, &length.to_be_bytes(), body].concat()
    }

    /// Half a second of a 16-bit mono sawtooth at 8 kHz, after eight bytes.
    fn sound() -> Vec<u8> {
        let samples = (0..4_000i32).flat_map(|i| ((i * 37 % 20_000 - 10_000) as i16).to_be_bytes());
        [0; 8].into_iter().chain(samples).collect()
    }

    fn form(all: u32, chunks: &[Vec<u8>]) -> Vec<u8> {
        [&b"FORM"[..], &all.to_be_bytes(), b"AIFF", &chunks.concat()].concat()
    }

    /// The rate is 0xfa00 with an exponent of 12.
    fn common(samples: u32) -> Vec<u8> {
        let rest = b"\0\x10\x40\x0b\xfa\0\0\0\0\0\0\0";
        chunk(b"COMM", 18, &[&[0, 1][..], &samples.to_be_bytes(), rest].concat())
    }

    fn notices_of(bytes: &[u8]) -> Vec<String> {
        let (audio, notices) = noticed("a.aiff", bytes);
        assert_eq!((audio.samples(), audio.sample_rate), (4_000, 8_000), "{notices:?}");
        let first = f32::from(-10_000i16) / 32_768.0;
        assert!((audio.channels[0][0] - first).abs() < 1e-6, "{}", audio.channels[0][0]);
        notices
    }

    #[test]
    fn a_length_is_believed_as_far_as_the_file_agrees() {
        for all in [0, 100, 8_046, 1 << 20, u32::MAX] {
            for length in [0, 8, 8_008, 0x7fff_fff0, u32::MAX] {
                for samples in [0, 1, 4_000, 1 << 30] {
                    let bytes = form(all, &[common(samples), chunk(b"SSND", length, &sound())]);
                    assert_eq!(notices_of(&bytes), [""; 0], "{all} {length} {samples}");
                }
            }
        }
        let of = |length| notices_of(&form(0, &[common(4_000), chunk(b"SSND", length, &sound())]));
        assert_eq!(of(16_008), ["says that it is 1.00 s long, but ends after 0.50 s"]);
        let text = "says that it is 0.10 s long, but goes on to 0.50 s: all of it is read";
        assert_eq!(of(1_608), [text]);
    }

    #[test]
    fn what_is_wrong_before_the_sound_does_not_hide_it() {
        for before in [
            chunk(b"NAME", 3, b"abc"),
            chunk(b"NAME", 3, b"abc\0"),
            chunk(b"NAME", 5_000, b"abc"),
            chunk(b"ID3 ", 10, b"ID3\x03\0\0\x7f\x7f\x7f\x7f"),
            chunk(b"MARK", 2, b"\xff\xff"),
        ] {
            let bytes = form(0, &[common(4_000), before, chunk(b"SSND", 8_008, &sound())]);
            assert_eq!(notices_of(&bytes), [""; 0]);
        }
        let bytes = form(0, &[chunk(b"SSND", 8_008, &sound()), common(4_000)]);
        assert_eq!(notices_of(&bytes), [""; 0]);
    }

    #[test]
    fn other_codecs_are_named() {
        let mut packed = common(4_000);
        packed.extend(b"ima4\0\0");
        packed[7] = 24;
        let mut bytes = form(0, &[packed, chunk(b"SSND", 8_008, &sound())]);
        bytes[11] = b'C';
        let text = "its sound is `ima4` in an AIFF-C, which this program does not decode";
        assert_eq!(problem("a.aiff", &bytes).to_string(), text);
    }
}
