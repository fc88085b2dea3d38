//! Sound: reading and resampling of inputs; splicing, loudness, fades and encoding of songs.

pub mod encoding;
pub mod fade;
pub mod fft;
mod flac;
pub mod format;
pub mod loudness;
#[cfg(feature = "mp3")]
mod mp3;
#[cfg(feature = "opus")]
mod opus;
pub mod read;
pub mod resample;
pub mod splice;
pub mod stream;
pub mod tags;
mod wav;
pub mod write;

/// A sound: one vector of samples per channel, all of equal length.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Audio {
    /// Samples in `[-1, 1]` once normalised, `[C][S]`.
    pub channels: Vec<Vec<f32>>,
    /// Samples per second, e.g. 48 000.
    pub sample_rate: u32,
}

impl Audio {
    /// Returns the number of samples of one channel.
    pub fn samples(&self) -> usize {
        self.channels.first().map_or(0, Vec::len)
    }

    /// Returns the length in seconds.
    pub fn seconds(&self) -> f64 {
        self.samples() as f64 / f64::from(self.sample_rate)
    }

    /// Keeps the first `samples` of every channel; a shorter song stays unchanged.
    pub fn crop(&mut self, samples: usize) {
        self.channels.iter_mut().for_each(|channel| channel.truncate(samples));
    }
}
