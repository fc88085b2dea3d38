//! Sound: the last noun of the pipeline, and what is done to it before it is a file; the first one
//! of a song that is listened to.

pub mod fade;
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
pub mod tags;
mod wav;
pub mod write;

/// A song as it is heard: one vector of samples a channel, all of the same length.
#[derive(Debug, Clone, PartialEq)]
pub struct Audio {
    /// Samples in `[-1, 1]` once normalised, `[C][S]`.
    pub channels: Vec<Vec<f32>>,
    /// Samples a second, e.g. 48 000.
    pub sample_rate: u32,
}

impl Audio {
    /// Samples of one channel.
    pub fn samples(&self) -> usize {
        self.channels.first().map_or(0, Vec::len)
    }

    /// Length in seconds.
    pub fn seconds(&self) -> f64 {
        self.samples() as f64 / f64::from(self.sample_rate)
    }

    /// Keeps the first `samples` of every channel; a shorter song stays as it is.
    pub fn crop(&mut self, samples: usize) {
        self.channels.iter_mut().for_each(|channel| channel.truncate(samples));
    }
}
