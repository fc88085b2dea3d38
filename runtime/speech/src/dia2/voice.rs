//! Recordings of the speakers to codes.

use acestep_engine::{Audio, Error, Observe};
use acestep_model::Backend;

use super::{
    networks::{CODEC_ENCODER, Networks},
    prefix::Recording,
    sound::SAMPLE_RATE,
};
use crate::{recording, spoken::Word};

/// Resampling of recordings that are not at 24 kHz.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Resampling {
    /// A filter, without aliases.
    #[default]
    Filtered,
    /// Linear interpolation, as upstream.
    Linear,
}

impl Recording {
    /// Encodes a recording whose words are known.
    ///
    /// # Errors
    /// [`Error::BadValue`] for an empty recording; [`Error::NotFinite`] if a sample is NaN or infinite;
    /// the errors of loading and of the device.
    pub fn new<B: Backend>(
        sound: &Audio,
        words: Vec<Word>,
        resampling: Resampling,
        networks: &Networks<'_, B>,
        observe: &dyn Observe,
    ) -> Result<Self, Error> {
        let samples = mono(sound, resampling, observe)?;
        if samples.is_empty() {
            return Err(Error::BadValue {
                field: "reference",
                value: String::new(),
                why: "it has no sound".to_owned(),
                near: None,
            });
        }
        let encoder = || networks.codec_encoder();
        let frames = recording::frames_of(&samples, networks, CODEC_ENCODER, encoder, observe)?;
        Ok(Self { frames, words })
    }
}

/// Returns the mean of the channels at 24 kHz.
fn mono(sound: &Audio, resampling: Resampling, observe: &dyn Observe) -> Result<Vec<f32>, Error> {
    let rate = match resampling {
        Resampling::Filtered => SAMPLE_RATE,
        Resampling::Linear => sound.sample_rate,
    };
    let mean = recording::mono(sound, rate, observe)?;
    Ok(match resampling {
        Resampling::Filtered => mean,
        Resampling::Linear => linear(&mean, sound.sample_rate, SAMPLE_RATE),
    })
}

/// Resamples by linear interpolation between the centres of samples.
pub fn linear(samples: &[f32], from: u32, to: u32) -> Vec<f32> {
    if from == to || samples.is_empty() {
        return samples.to_vec();
    }
    let ratio = f64::from(from) / f64::from(to);
    let count = (samples.len() as f64 / ratio).round_ties_even() as usize;
    let last = samples.len() - 1;
    // In f32 as upstream, by the ratio of the lengths, which are whole numbers.
    let scale = samples.len() as f32 / count.max(1) as f32;
    let at = |index: usize| {
        let centre = (scale * (index as f32 + 0.5) - 0.5).max(0.0);
        let before = (centre as usize).min(last);
        let (a, b) = (samples[before], samples[(before + 1).min(last)]);
        let share = centre - before as f32;
        a * (1.0 - share) + b * share
    };
    (0..count).map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four samples to two: centres at 0.5 and 2.5. Two to four: at -0.25, 0.25, 0.75 and 1.25.
    #[test]
    fn linear_resampling_is_between_the_centres() {
        assert_eq!(linear(&[0.0, 2.0, 4.0, 8.0], 48_000, 24_000), [1.0, 6.0]);
        assert_eq!(linear(&[0.0, 4.0], 12_000, 24_000), [0.0, 1.0, 3.0, 4.0]);
        assert_eq!(linear(&[1.0], 24_000, 24_000), [1.0]);
        assert_eq!(linear(&[], 48_000, 24_000), Vec::<f32>::new());
    }
}
