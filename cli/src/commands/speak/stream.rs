//! Sound on standard output while it is made: WAV of unknown length, or samples alone.

use acestep_engine::Error;
use anyhow::Result;

use crate::report;

/// The sound on standard output.
pub(super) struct Stream {
    /// The error that ended it.
    pub(super) failed: Option<report::Stdout>,
}

impl Stream {
    /// Writes the header, unless only samples are wanted.
    pub(super) fn begin(is_raw: bool, sample_rate: u32) -> Result<Self> {
        if !is_raw {
            report::bytes(&header(sample_rate))?;
        }
        Ok(Self { failed: None })
    }

    /// Writes samples as 16-bit integers.
    ///
    /// # Errors
    /// [`Error::Cancelled`], with the reason in `failed`.
    pub(super) fn write(&mut self, samples: &[f32]) -> Result<(), Error> {
        let integer = |x: f32| (f64::from(x) * 32768.0).round().clamp(-32768.0, 32767.0) as i16;
        let bytes: Vec<u8> =
            samples.iter().flat_map(|&sample| integer(sample).to_le_bytes()).collect();
        report::bytes(&bytes).map_err(|failed| {
            self.failed = Some(failed);
            Error::Cancelled
        })
    }
}

/// A WAV header whose lengths are the largest: the real ones are unknown. Players read until the end.
fn header(sample_rate: u32) -> [u8; 44] {
    let mut header = [0; 44];
    let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
    let (channels, bits) = (1u16, 16u16);
    let block = channels * bits / 8;
    put(0, b"RIFF");
    put(4, &u32::MAX.to_le_bytes());
    put(8, b"WAVEfmt ");
    put(16, &16u32.to_le_bytes());
    // PCM integers.
    put(20, &1u16.to_le_bytes());
    put(22, &channels.to_le_bytes());
    put(24, &sample_rate.to_le_bytes());
    put(28, &(sample_rate * u32::from(block)).to_le_bytes());
    put(32, &block.to_le_bytes());
    put(34, &bits.to_le_bytes());
    put(36, b"data");
    put(40, &(u32::MAX - 36).to_le_bytes());
    header
}
