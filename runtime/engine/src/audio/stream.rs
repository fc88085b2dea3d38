//! Sound that is sent while it is made: WAV of unknown length, with samples of 16 bits.

use super::wav::integer;

/// Returns the header of a WAV file whose lengths are the largest, because the real ones are unknown.
/// Players read until the end.
pub fn header(sample_rate: u32, channels: u16) -> Vec<u8> {
    let frame = channels * 2;
    let mut header = Vec::with_capacity(44);
    // The first format is PCM integers.
    header.extend(b"RIFF\xff\xff\xff\xffWAVEfmt \x10\0\0\0\x01\0");
    header.extend(channels.to_le_bytes());
    header.extend(sample_rate.to_le_bytes());
    header.extend((sample_rate * u32::from(frame)).to_le_bytes());
    header.extend(frame.to_le_bytes());
    header.extend(16u16.to_le_bytes());
    header.extend(b"data\xff\xff\xff\xff");
    header
}

/// Returns samples as 16-bit integers, rounded.
pub fn integers(samples: &[f32]) -> Vec<u8> {
    samples.iter().flat_map(|&sample| (integer(sample, 16) as i16).to_le_bytes()).collect()
}
