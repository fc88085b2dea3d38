//! WAV files: 16 or 24-bit integers or 32-bit floats, through hound.
//!
//! An integer is `round(x 2^(bits - 1))`, clipped to its range. Readers divide by the same
//! `2^(bits - 1)`, so the error is at most half a step, except at +1.0, which is one step above the
//! range. (libsndfile, which upstream uses, truncates instead; rounding halves that error.)

use std::io::{self, Cursor, Seek, Write};

use hound::{SampleFormat, WavSpec, WavWriter};

use super::{
    Audio,
    write::{Encode, encode, interleaved, other},
};
use crate::Observe;

/// Encodes a WAV file of `bits` bits per sample in memory, of at most 4 GiB.
pub(super) fn to_bytes(audio: &Audio, bits: u16, observe: &dyn Observe) -> io::Result<Vec<u8>> {
    let mut bytes = Cursor::new(Vec::new());
    let file = Pieces::begin(&mut bytes, audio.channels.len(), audio.sample_rate, bits)?;
    file.check_room(audio.channels.len() * audio.samples())?;
    encode(audio, Box::new(file), observe)?;
    Ok(bytes.into_inner())
}

/// A file whose samples arrive in pieces.
pub(super) struct Pieces<W: Write + Seek>(WavWriter<W>);

impl<W: Write + Seek> Pieces<W> {
    /// Begins a file of integers of 16 or 24 bits, or of floats of 32 bits.
    pub(super) fn begin(
        out: W,
        channels: usize,
        sample_rate: u32,
        bits_per_sample: u16,
    ) -> io::Result<Self> {
        debug_assert!(matches!(bits_per_sample, 16 | 24 | 32));
        let channels =
            u16::try_from(channels).map_err(|_| other(format!("it has {channels} channels")))?;
        let is_float = bits_per_sample == 32;
        let sample_format = if is_float { SampleFormat::Float } else { SampleFormat::Int };
        let spec = WavSpec { channels, sample_rate, bits_per_sample, sample_format };
        WavWriter::new(out, spec).map(Self).map_err(io_error)
    }

    /// Returns an error if as many samples of all channels have no room.
    fn check_room(&self, samples: usize) -> io::Result<()> {
        // Sizes are 32 bits wide; no header is larger than 100 bytes.
        let count = u64::from(self.0.len()) + samples as u64;
        let bytes = count * u64::from(self.0.spec().bits_per_sample / 8);
        match bytes > u64::from(u32::MAX) - 100 {
            true => Err(other(format!("{bytes} bytes are more than a WAV file can have (4 GiB)"))),
            false => Ok(()),
        }
    }
}

impl<W: Write + Seek> Encode for Pieces<W> {
    fn write(&mut self, channels: &[&[f32]]) -> io::Result<()> {
        let WavSpec { bits_per_sample, sample_format, .. } = self.0.spec();
        self.check_room(channels.iter().map(|channel| channel.len()).sum())?;
        for sample in interleaved(channels) {
            let written = match sample_format {
                SampleFormat::Int => self.0.write_sample(integer(sample, bits_per_sample)),
                SampleFormat::Float => self.0.write_sample(sample),
            };
            written.map_err(io_error)?;
        }
        Ok(())
    }

    fn finish(self: Box<Self>, _observe: &dyn Observe) -> io::Result<()> {
        let Self(writer) = *self;
        writer.finalize().map_err(io_error)
    }
}

fn io_error(error: hound::Error) -> io::Error {
    match error {
        hound::Error::IoError(error) => error,
        error => other(error),
    }
}

pub(super) fn integer(x: f32, bits: u16) -> i32 {
    // In f64, because the product and its rounding need more than f32's 24 bits.
    let full = f64::from(1u32 << (bits - 1));
    (f64::from(x) * full).round().clamp(-full, full - 1.0) as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Unobserved;

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
        let bytes = to_bytes(&song(), 16, &Unobserved).expect("a WAV file");
        assert_eq!(
            read_integers(&bytes),
            [0, -8192, 16_384, 32_767, 32_767, -32_768, -32_768, 1] // half a step rounds away from 0
        );
        // The plain 44-byte PCM header, which every reader knows.
        assert_eq!(bytes.len(), 44 + 16);
        assert_eq!(bytes[20..22], 1u16.to_le_bytes());
        assert_eq!(bytes[24..28], 48_000u32.to_le_bytes());
    }

    /// 100 bytes are left for the header: 1 073 741 798 samples are 4 294 967 192 bytes of 4 294 967 195.
    #[test]
    fn a_file_has_room_for_four_gibibytes() {
        let out = Cursor::new(Vec::new());
        let mut file = Pieces::begin(out, 1, 48_000, 32).expect("begun");
        file.write(&[&[0.0; 8]]).expect("written");
        file.check_room(1_073_741_790).expect("room");
        let error = file.check_room(1_073_741_791).expect_err("too long").to_string();
        assert_eq!(error, "4294967196 bytes are more than a WAV file can have (4 GiB)");
    }

    #[test]
    fn twenty_four_bits_keep_what_sixteen_lose() {
        let bytes = to_bytes(&song(), 24, &Unobserved).expect("a WAV file");
        assert_eq!(
            read_integers(&bytes),
            [0, -2_097_152, 4_194_304, 8_388_607, 8_388_607, -8_388_608, -8_388_608, 128]
        );
    }
}
