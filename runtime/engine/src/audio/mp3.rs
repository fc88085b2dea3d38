//! MP3 files: a constant bitrate, and a first frame with the padding that players cut off at both ends.
//!
//! The encoder is plain Rust. The feature `lame` takes LAME in its place.

#[cfg(feature = "lame")]
mod lame;
#[cfg(not(feature = "lame"))]
mod plain;

#[cfg(feature = "lame")]
use self::lame::encode;
#[cfg(not(feature = "lame"))]
use self::plain::encode;
use super::{Audio, loudness::peak, resample::to_stereo, write::check};
use crate::Error;

/// Scale of a song at full scale, so that the loss of encoding does not clip (LAME's `presets.c`).
/// Each pair is the least bitrate and the scale from that bitrate on.
const QUIETER: [(u32, f32); 4] = [(256, 1.0), (224, 0.98), (192, 0.97), (0, 0.95)];

/// Encodes an MP3 of `bitrate` kilobits per second, resampled to `sample_rate`.
pub(super) fn to_bytes(audio: &Audio, bitrate: u32, sample_rate: u32) -> Result<Vec<u8>, Error> {
    let failed = |why: String| Error::Encode { format: "an MP3 file", why };
    check(audio).map_err(failed)?;
    if audio.channels.len() > 2 {
        return Err(failed(too_many(audio.channels.len())));
    }
    // LAME can resample too, but then its padding at the end is wrong.
    let resampled = match audio.sample_rate == sample_rate {
        true => None,
        false => Some(to_stereo(audio, sample_rate)?),
    };
    let audio = &scaled(resampled.as_ref().unwrap_or(audio), bitrate);
    encode(audio, bitrate).map_err(failed)
}

/// Returns the part of full scale that a song may fill.
fn reserve(bitrate: u32) -> f32 {
    QUIETER.iter().find(|(least, _)| bitrate >= *least).map_or(1.0, |(_, scale)| *scale)
}

/// Scales a song so that the file has its loudness, unless its peak leaves no reserve.
fn scaled(audio: &Audio, bitrate: u32) -> Audio {
    let reserve = reserve(bitrate);
    let whole = (1.0 / reserve).min(1.0 / peak(audio)).max(1.0);
    // LAME applies the reserve itself.
    let gain = if cfg!(feature = "lame") { whole } else { whole * reserve };
    let channels = audio.channels.iter().map(|c| c.iter().map(|x| x * gain).collect()).collect();
    Audio { channels, sample_rate: audio.sample_rate }
}

fn too_many(channels: usize) -> String {
    format!("it has {channels} channels")
}
