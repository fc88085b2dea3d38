//! Sounds for a song: its source, and references for its timbre.
//!
//! A source is used as it is. A reference contributes three pieces of ten seconds: from the start
//! of its first third, from the start of its second third, and from its end. A short reference is
//! repeated first. Upstream draws the positions within the thirds at random, without a seed. Here
//! they are the positions of diffusers, which are within the thirds, so songs are reproducible.
//!
//! Source: upstream `process_src_audio`, `process_reference_audio`; diffusers `AceStepPipeline`.

use std::sync::Arc;

use acestep_engine::{
    Error, Observe,
    audio::{Audio, loudness::peak, read::SILENT, resample::to_stereo},
};

use crate::{ModelInfo, SongError, exchange::Array3};

/// Number of pieces of a reference.
const PIECES: usize = 3;

/// A sound, or its latents.
#[derive(Debug, Clone, PartialEq)]
pub enum Sound {
    /// Two channels at the model's rate, within `[-1, 1]`.
    Audio(Arc<Audio>),
    /// Latents of the VAE, `[1, T, C]`.
    Latents(Arc<Array3>),
}

/// The sounds of a request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sounds {
    /// The source of a cover, a repaint and so on.
    pub source: Option<Sound>,
    /// References for the timbre: [pieces](Sound::excerpt) of equal length.
    pub references: Vec<Sound>,
}

impl Sounds {
    /// True if the VAE has to encode one of them.
    pub fn have_audio(&self) -> bool {
        self.source.iter().chain(&self.references).any(Sound::is_audio)
    }
}

impl Sound {
    /// Converts a sound of any rate and any number of channels for `model`.
    ///
    /// # Errors
    /// [`Error::Conflict`] if it cannot be resampled; [`SongError::TooShort`] if it is shorter than a
    /// latent frame; [`SongError::SilentSource`] if it is silent; [`Error::Cancelled`].
    pub fn from_audio(
        audio: &Audio,
        model: &ModelInfo,
        observe: &dyn Observe,
    ) -> Result<Self, Error> {
        let audio = to_stereo(audio, model.sample_rate, observe)?;
        if audio.samples() < model.hop {
            let least = model.hop as f64 / f64::from(model.sample_rate);
            return Err(SongError::TooShort { seconds: audio.seconds(), least }.into());
        }
        if peak(&audio) < SILENT {
            return Err(SongError::SilentSource.into());
        }
        Ok(Self::Audio(Arc::new(audio)))
    }

    /// Converts a sound to a reference: only the pieces that are used.
    ///
    /// # Errors
    /// As [`Self::from_audio`]; also if the pieces are silent.
    pub fn reference(
        audio: &Audio,
        model: &ModelInfo,
        observe: &dyn Observe,
    ) -> Result<Self, Error> {
        Self::from_audio(audio, model, observe)?.excerpt(model.timbre_frames, model.hop)
    }

    /// Checks latents of `model`, `[1, T, C]`.
    ///
    /// # Errors
    /// [`Error::Conflict`] if they have another shape.
    pub fn latents(latents: Array3, model: &ModelInfo) -> Result<Self, Error> {
        let [songs, frames, channels] = latents.shape;
        if songs != 1 || frames == 0 || channels != model.channels {
            let why = format!(
                "latents of {} are [1, frames, {}], but these are {:?}",
                model.name, model.channels, latents.shape
            );
            return Err(Error::Conflict(why));
        }
        Ok(Self::Latents(Arc::new(latents)))
    }

    /// True if it is a sound that the VAE has to encode.
    pub fn is_audio(&self) -> bool {
        matches!(self, Self::Audio(_))
    }

    /// Samples per channel, with `hop` samples per latent frame.
    pub fn samples(&self, hop: usize) -> usize {
        match self {
            Self::Audio(audio) => audio.samples(),
            Self::Latents(latents) => latents.shape[1] * hop,
        }
    }

    /// The pieces of a reference, `frames` latent frames in total.
    ///
    /// # Errors
    /// [`SongError::SilentSource`] if they are silent.
    pub fn excerpt(&self, frames: usize, hop: usize) -> Result<Self, Error> {
        match self {
            Self::Audio(audio) => {
                let cut = |channel: &Vec<f32>| excerpt(channel, 1, frames * hop);
                let channels = audio.channels.iter().map(cut).collect();
                let pieces = Audio { channels, sample_rate: audio.sample_rate };
                if peak(&pieces) < SILENT {
                    return Err(SongError::SilentSource.into());
                }
                Ok(Self::Audio(Arc::new(pieces)))
            }
            Self::Latents(latents) => {
                let width = latents.shape[2];
                let data = excerpt(&latents.data, width, frames);
                Ok(Self::Latents(Arc::new(Array3::new([1, data.len() / width, width], data))))
            }
        }
    }
}

/// `wanted` items of `width` values each, from three positions of `all`.
// ANCHOR: excerpt
fn excerpt(all: &[f32], width: usize, wanted: usize) -> Vec<f32> {
    let own = all.len() / width;
    // A short reference is repeated as a whole until it is long enough.
    let total = own * wanted.div_ceil(own);
    let piece = wanted / PIECES;
    let starts = [0, total / PIECES, total - (wanted - 2 * piece)];
    let lengths = [piece, piece, wanted - 2 * piece];
    let item = |i: usize| &all[i % own * width..(i % own + 1) * width];
    let places = starts.into_iter().zip(lengths).flat_map(|(start, n)| start..start + n);
    places.flat_map(item).copied().collect()
}
// ANCHOR_END: excerpt

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(n: usize) -> Vec<f32> {
        (0..n).map(|i| i as f32).collect()
    }

    #[test]
    fn a_reference_is_heard_at_its_beginning_its_second_third_and_its_end() {
        assert_eq!(excerpt(&counted(60), 1, 9), [0., 1., 2., 20., 21., 22., 57., 58., 59.]);
        assert_eq!(excerpt(&counted(9), 1, 9), counted(9));
        assert_eq!(excerpt(&counted(12), 2, 3), [0., 1., 4., 5., 10., 11.]);
    }

    /// Three times four items are twelve, whose thirds begin at 0, 4 and 8.
    #[test]
    fn a_short_reference_is_repeated_until_it_is_long_enough() {
        assert_eq!(excerpt(&counted(4), 1, 9), [0., 1., 2., 0., 1., 2., 1., 2., 3.]);
        assert_eq!(excerpt(&[7.0], 1, 4), [7.0; 4]);
    }

    #[test]
    fn silence_is_no_timbre() {
        let audio = Audio { channels: vec![vec![0.0; 4000]; 2], sample_rate: 48_000 };
        let sound = Sound::Audio(Arc::new(audio));
        let error = sound.excerpt(2, 1920).expect_err("silence");
        assert!(matches!(error.family(), Some(SongError::SilentSource)));
    }
}
