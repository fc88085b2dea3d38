//! WAV files: 16 or 24-bit integers or 32-bit floats, through hound.
//!
//! An integer is `round(x 2^(bits - 1))`, clipped to its range. Readers divide by the same
//! `2^(bits - 1)`, so the error is at most half a step, except at +1.0 itself, which is one step
//! too large to exist. (libsndfile, which upstream writes through, drops the fraction instead;
//! rounding halves that error.)

use std::io::{Seek, Write};

use hound::{SampleFormat, WavSpec, WavWriter};

use super::Audio;
use crate::Error;

/// How a sample is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WavFormat {
    /// 16-bit integers: what every player reads.
    #[default]
    Int16,
    /// 24-bit integers.
    Int24,
    /// 32-bit floats, unclipped.
    Float32,
}

impl WavFormat {
    /// Bits of a sample.
    pub fn bits(self) -> u16 {
        match self {
            Self::Int16 => 16,
            Self::Int24 => 24,
            Self::Float32 => 32,
        }
    }
}

/// A WAV file in memory.
///
/// # Errors
/// [`Error::Wav`] if the audio has no channels, channels of different lengths, or over 4 GiB.
pub fn to_bytes(audio: &Audio, format: WavFormat) -> Result<Vec<u8>, Error> {
    let mut bytes = std::io::Cursor::new(Vec::new());
    write(&mut bytes, audio, format).map_err(|error| match error {
        WriteError::Audio(error) => error,
        WriteError::Io(source) => Error::Wav(source.to_string()),
    })?;
    Ok(bytes.into_inner())
}

/// Why [`write()`] failed: the caller knows the file's name.
#[derive(Debug)]
pub enum WriteError {
    /// No WAV file can hold this.
    Audio(Error),
    /// The file cannot be written.
    Io(std::io::Error),
}

impl From<hound::Error> for WriteError {
    fn from(error: hound::Error) -> Self {
        match error {
            hound::Error::IoError(source) => Self::Io(source),
            other => Self::Audio(Error::Wav(other.to_string())),
        }
    }
}

/// Writes a WAV file to anything with a position.
///
/// # Errors
/// [`WriteError`].
pub fn write<W: Write + Seek>(out: W, audio: &Audio, format: WavFormat) -> Result<(), WriteError> {
    let channels = check(audio, format).map_err(WriteError::Audio)?;
    let sample_format = match format {
        WavFormat::Int16 | WavFormat::Int24 => SampleFormat::Int,
        WavFormat::Float32 => SampleFormat::Float,
    };
    let spec = WavSpec {
        channels,
        sample_rate: audio.sample_rate,
        bits_per_sample: format.bits(),
        sample_format,
    };
    let mut writer = WavWriter::new(out, spec)?;
    for i in 0..audio.samples() {
        for channel in &audio.channels {
            match format {
                WavFormat::Int16 | WavFormat::Int24 => {
                    writer.write_sample(integer(channel[i], format.bits()))?;
                }
                WavFormat::Float32 => writer.write_sample(channel[i])?,
            }
        }
    }
    Ok(writer.finalize()?)
}

pub(super) fn integer(x: f32, bits: u16) -> i32 {
    // In f64, because 24 bits and a rounding do not fit into an f32.
    let full = f64::from(1u32 << (bits - 1));
    (f64::from(x) * full).round().clamp(-full, full - 1.0) as i32
}

/// The number of channels, if this is something a WAV file can hold.
fn check(audio: &Audio, format: WavFormat) -> Result<u16, Error> {
    let wav = |why: String| Err(Error::Wav(why));
    let channels = match u16::try_from(audio.channels.len()) {
        Ok(channels) if channels > 0 => channels,
        _ => return wav(format!("it has {} channels", audio.channels.len())),
    };
    if audio.channels.iter().any(|channel| channel.len() != audio.samples()) {
        let lengths: Vec<_> = audio.channels.iter().map(Vec::len).collect();
        return wav(format!("its channels have different lengths: {lengths:?}"));
    }
    // The format counts bytes in 32 bits; 100 are more than any header.
    let bytes = audio.samples() as u64 * u64::from(channels) * u64::from(format.bits() / 8);
    if bytes > u64::from(u32::MAX) - 100 {
        return wav(format!("{bytes} bytes are more than a WAV file can have (4 GiB)"));
    }
    Ok(channels)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn song() -> Audio {
        Audio {
            channels: vec![vec![0.0, 0.5, 1.0, -1.0], vec![-0.25, 1.5, -1.5, 1.0 / 65_536.0]],
            sample_rate: 48_000,
        }
    }

    fn read_integers(bytes: &[u8]) -> Vec<i32> {
        let reader = hound::WavReader::new(bytes).expect("a WAV file");
        reader.into_samples::<i32>().map(|x| x.expect("a sample")).collect()
    }

    #[test]
    fn sixteen_bits_are_interleaved_rounded_and_clipped() {
        let bytes = to_bytes(&song(), WavFormat::Int16).expect("a WAV file");
        assert_eq!(
            read_integers(&bytes),
            [0, -8192, 16_384, 32_767, 32_767, -32_768, -32_768, 1] // half a step rounds away from 0
        );
        // A plain header, which every reader knows: 44 bytes and PCM.
        assert_eq!(bytes.len(), 44 + 16);
        assert_eq!(bytes[20..22], 1u16.to_le_bytes());
        assert_eq!(bytes[24..28], 48_000u32.to_le_bytes());
    }

    #[test]
    fn twenty_four_bits_keep_what_sixteen_lose() {
        let bytes = to_bytes(&song(), WavFormat::Int24).expect("a WAV file");
        assert_eq!(
            read_integers(&bytes),
            [0, -2_097_152, 4_194_304, 8_388_607, 8_388_607, -8_388_608, -8_388_608, 128]
        );
    }

    #[test]
    fn floats_are_stored_as_they_are_even_above_one() {
        let bytes = to_bytes(&song(), WavFormat::Float32).expect("a WAV file");
        let reader = hound::WavReader::new(&bytes[..]).expect("a WAV file");
        let read: Vec<f32> = reader.into_samples().map(|x| x.expect("a sample")).collect();
        assert_eq!(read, [0.0, -0.25, 0.5, 1.5, 1.0, -1.5, -1.0, 1.0 / 65_536.0]);
    }

    #[test]
    fn a_song_without_channels_or_with_uneven_ones_is_refused() {
        let audio = |channels| Audio { channels, sample_rate: 48_000 };
        assert!(to_bytes(&audio(vec![]), WavFormat::Int16).is_err());
        let error = to_bytes(&audio(vec![vec![0.0; 2], vec![0.0; 3]]), WavFormat::Int16);
        assert_eq!(
            error.expect_err("uneven").to_string(),
            "this audio cannot be a WAV file: its channels have different lengths: [2, 3]"
        );
    }
}
