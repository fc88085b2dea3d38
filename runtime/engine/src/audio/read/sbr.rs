//! Detects HE-AAC: AAC whose upper frequencies are stored separately (SBR), and perhaps also its
//! second channel (PS).
//!
//! The decoder decodes only the lower frequencies, which sounds dull. Some files have SBR in their
//! headers, others only in every frame: the last element before the end is a fill element with it.
//!
//! Source: ISO/IEC 14496-3, 1.6.2.1 (`AudioSpecificConfig`), 4.4.2.1 (`raw_data_block`).

use super::Problem;

/// Types of fill elements with SBR data.
const KINDS: [u32; 2] = [13, 14];

/// Ids of elements: a fill element, and the end.
const FILL: u32 = 6;
const END: u32 = 7;

/// The number of frames to examine.
const ENOUGH: usize = 100;

/// The error for HE-AAC.
pub(super) fn problem() -> Problem {
    Problem::Codec("HE-AAC (AAC with SBR)".into())
}

/// The number of examined frames, and the number of those with SBR.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Frames {
    all: usize,
    with: usize,
}

impl Frames {
    /// Examines one more frame.
    pub(super) fn examine(&mut self, frame: &[u8]) {
        if self.all < ENOUGH {
            self.all += 1;
            self.with += usize::from(has_upper_half(frame));
        }
    }

    /// True if most frames have SBR. By chance about 2 % of the frames of plain AAC look like it.
    pub(super) fn is_present(self) -> bool {
        self.with > self.all / 2
    }
}

/// True if the decoder's configuration says that there is SBR.
pub(super) fn is_declared(config: &[u8]) -> bool {
    let kind = bits(config, 0, 5);
    // After the object type, the rate, the channels and three flags of plain AAC.
    let more = (bits(config, 16, 11), bits(config, 27, 5), bits(config, 32, 1));
    kind == Some(5) || kind == Some(29) || more == (Some(0x2b7), Some(5), Some(1))
}

fn bits(bytes: &[u8], at: usize, count: usize) -> Option<u32> {
    (at..at + count).try_fold(0, |sum, place| {
        let byte = bytes.get(place / 8)?;
        Some(sum << 1 | u32::from(byte >> (7 - place % 8) & 1))
    })
}

/// True if a frame ends with a fill element that contains SBR.
fn has_upper_half(frame: &[u8]) -> bool {
    // After the end element there are only zeros, and its last bit is 1.
    let Some(last) = frame.iter().rposition(|byte| *byte != 0) else { return false };
    let end = last * 8 + 8 - frame[last].trailing_zeros() as usize;
    let Some(end) = end.checked_sub(3).filter(|&end| bits(frame, end, 3) == Some(END)) else {
        return false;
    };
    // The element has 3 bits of id and 4 of length, and 8 more bits of length from 15 bytes on.
    let short = (1..15).map(|count| (7, count));
    let long = (15..270).map(|count| (15, count));
    short.chain(long).any(|(before, count)| {
        let Some(start) = end.checked_sub(before + 8 * count) else { return false };
        let length = match bits(frame, start + 3, 4) {
            Some(15) if before == 15 => bits(frame, start + 7, 8).map(|more| more + 14),
            Some(length) if length < 15 && before == 7 => Some(length),
            _ => None,
        };
        let kind = bits(frame, start + before, 4);
        bits(frame, start, 3) == Some(FILL)
            && length == Some(count as u32)
            && kind.is_some_and(|kind| KINDS.contains(&kind))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audio::read::tests::{bytes_of, noticed, problem};

    /// A frame with `filling` arbitrary bits, then a fill element of `count` bytes of type `kind`.
    fn frame(filling: usize, count: u32, kind: u32) -> Vec<u8> {
        let mut all: Vec<bool> = (0..filling).map(|i| i % 3 == 0).collect();
        let bits = |value: u32, count: u32| (0..count).rev().map(move |bit| value >> bit & 1 == 1);
        all.extend(bits(FILL, 3).chain(bits(count.min(15), 4)));
        if count >= 15 {
            all.extend(bits(count - 14, 8));
        }
        all.extend(bits(kind, 4));
        all.resize(all.len() + 8 * count as usize - 4, false);
        all.extend(bits(END, 3));
        all.resize(all.len().next_multiple_of(8), false);
        all.chunks(8)
            .map(|byte| byte.iter().fold(0, |sum, bit| sum << 1 | u8::from(*bit)))
            .collect()
    }

    #[test]
    fn an_upper_half_is_found_wherever_it_begins() {
        for filling in 100..108 {
            for count in [1, 14, 15, 60, 200] {
                assert!(has_upper_half(&frame(filling, count, 13)), "{filling} {count}");
                assert!(has_upper_half(&frame(filling, count, 14)), "{filling} {count}");
                assert!(!has_upper_half(&frame(filling, count, 0)), "{filling} {count}");
            }
        }
        for nothing in [&[][..], &[0; 9], &[7], &[0xff; 300]] {
            assert!(!has_upper_half(nothing), "{nothing:?}");
        }
    }

    #[test]
    fn a_header_says_it_in_two_ways() {
        // LC in stereo: without an extension, with one that says no SBR, with one that says SBR.
        assert!(!is_declared(&[0x12, 0x10]));
        assert!(!is_declared(&[0x12, 0x10, 0x56, 0xe5, 0x00]));
        assert!(is_declared(&[0x13, 0x90, 0x56, 0xe5, 0xa0]));
        // SBR, and SBR with PS.
        assert!(is_declared(&[0x2b, 0x92, 0x08, 0x00]));
        assert!(is_declared(&[0xeb, 0x8a, 0x08, 0x00]));
    }

    /// The frames of `sine.m4a`, whose sizes are in its index, as an AAC stream. Each frame ends
    /// with a fill element of type `kind`.
    fn aac(kind: u8) -> Vec<u8> {
        let bytes = bytes_of("sine.m4a");
        let place = |name: &[u8]| bytes.windows(4).position(|w| w == name).expect("a box") + 4;
        let number = |at: usize| u32::from_be_bytes(*bytes[at..].first_chunk().expect("a number"));
        let (sizes, places) = (place(b"stsz"), place(b"stco"));
        let mut at = number(places + 8) as usize;
        let mut stream = Vec::new();
        for index in 0..number(sizes + 8) as usize {
            let size = number(sizes + 12 + 4 * index) as usize;
            let frame = &bytes[at..at + size];
            at += size;
            let mut bits: String = frame.iter().map(|byte| format!("{byte:08b}")).collect();
            // The end is three ones and the padding of the last byte.
            bits.truncate(bits.rfind("111").expect("an end"));
            bits += &format!("1100010{kind:04b}0000111100001111");
            bits.truncate(bits.len() - 4);
            bits += "111";
            bits += &"0".repeat(bits.len().next_multiple_of(8) - bits.len());
            let byte = |i: usize| u8::from_str_radix(&bits[i..i + 8], 2).expect("eight bits");
            let frame: Vec<u8> = (0..bits.len()).step_by(8).map(byte).collect();
            let length = frame.len() + 7;
            stream.extend([0xff, 0xf1, 0x50, 0x80 | (length >> 11) as u8]);
            stream.extend([(length >> 3) as u8, ((length & 7) << 5) as u8 | 0x1f, 0xfc]);
            stream.extend(frame);
        }
        stream
    }

    /// Plain AAC also has fill elements, without SBR.
    #[test]
    fn he_aac_without_a_header_that_says_so_is_named() {
        let (audio, notices) = noticed("a.aac", &aac(0));
        assert_eq!((audio.sample_rate, notices.len()), (44_100, 1), "{notices:?}");
        let text = "its sound is HE-AAC (AAC with SBR), which this program does not decode";
        assert_eq!(problem("a.aac", &aac(13)).to_string(), text);
        assert_eq!(problem("a.aac", &aac(14)).to_string(), text);
    }

    /// The decoder's configuration says that there is SBR.
    #[test]
    fn he_aac_with_a_header_that_says_so_is_named() {
        let mut bytes = bytes_of("sine.m4a");
        let place = bytes.windows(4).position(|w| w == [0x12, 0x10, 0x56, 0xe5]);
        bytes[place.expect("a description") + 4] = 0x80;
        let text = "its sound is HE-AAC (AAC with SBR), which this program does not decode";
        assert_eq!(problem("he.m4a", &bytes).to_string(), text);
    }
}
