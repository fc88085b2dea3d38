//! Loudness, and guards against audio that is not worth a file.
//!
//! Peak normalisation to `d` dB multiplies by `10^(d / 20) / max |x|`.
//!
//! Source: upstream `generate_music` (`normalize_audio`, `is_audio_silent`) and the handler's
//! anti-clip.

use burn::tensor::DType;

use super::Audio;
use crate::Error;

/// A peak below this is not amplified, as upstream has it: it would be noise of the arithmetic.
const LEAST_PEAK: f32 = 1e-6;

/// RMS and peak up to which a song counts as silent.
const SILENT: f32 = 1e-5;

/// The largest magnitude over all channels, 0 for an empty song.
pub fn peak(audio: &Audio) -> f32 {
    audio.channels.iter().flatten().fold(0.0, |peak, x| peak.max(x.abs()))
}

/// The root of the mean square over all channels, 0 for an empty song.
pub fn rms(audio: &Audio) -> f32 {
    let count: usize = audio.channels.iter().map(Vec::len).sum();
    let sum: f64 = audio.channels.iter().flatten().map(|&x| f64::from(x).powi(2)).sum();
    (sum / count.max(1) as f64).sqrt() as f32
}

/// Divides by the peak if it is above 1, so that nothing clips; quieter songs stay as they are.
pub fn prevent_clipping(audio: &mut Audio) {
    let peak = peak(audio);
    if peak > 1.0 {
        map(audio, |x| x / peak);
    }
}

/// Brings the peak to `decibels` below full scale (0 = full scale), up or down.
pub fn normalise_peak(audio: &mut Audio, decibels: f32) {
    let peak = peak(audio);
    if peak >= LEAST_PEAK {
        let gain = 10f32.powf(decibels / 20.0) / peak;
        map(audio, |x| x * gain);
    }
}

fn map(audio: &mut Audio, f: impl Fn(f32) -> f32) {
    audio.channels.iter_mut().flatten().for_each(|x| *x = f(*x));
}

/// Passes `values` only if all of them are finite numbers; `stage` is who made them.
///
/// # Errors
/// [`Error::NotFinite`].
pub fn require_finite(stage: &str, values: &[f32]) -> Result<(), Error> {
    let Some(first) = values.iter().position(|x| !x.is_finite()) else { return Ok(()) };
    let count = values[first..].iter().filter(|x| !x.is_finite()).count();
    Err(Error::NotFinite { stage: stage.into(), count, first, dtype: DType::F32 })
}

/// Passes a song only if its samples are finite and it can be heard; `stage` is who made it.
///
/// # Errors
/// [`Error::NotFinite`] or [`Error::Silent`] (RMS and peak both at most 1e-5).
pub fn require_sound(stage: &str, audio: &Audio) -> Result<(), Error> {
    audio.channels.iter().try_for_each(|channel| require_finite(stage, channel))?;
    let (rms, peak) = (rms(audio), peak(audio));
    if rms <= SILENT && peak <= SILENT {
        return Err(Error::Silent { stage: stage.into(), rms, peak });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn song(left: &[f32], right: &[f32]) -> Audio {
        Audio { channels: vec![left.to_vec(), right.to_vec()], sample_rate: 48_000 }
    }

    #[test]
    fn only_a_song_that_would_clip_is_divided_by_its_peak() {
        let mut loud = song(&[0.5, -2.0], &[1.0, 0.0]);
        prevent_clipping(&mut loud);
        assert_eq!(loud, song(&[0.25, -1.0], &[0.5, 0.0]));
        let mut quiet = song(&[0.5], &[-1.0]);
        prevent_clipping(&mut quiet);
        assert_eq!(quiet, song(&[0.5], &[-1.0]));
    }

    /// -1 dB is a peak of 10^(-1/20) = 0.891251.
    #[test]
    fn normalisation_goes_up_as_well_as_down() {
        for level in [0.01, 1.0, 7.0] {
            let mut audio = song(&[level, 0.0], &[-level / 2.0, 0.0]);
            normalise_peak(&mut audio, -1.0);
            assert!((peak(&audio) - 0.891_251).abs() < 1e-6);
            assert!((audio.channels[1][0] + 0.445_625).abs() < 1e-6);
        }
    }

    #[test]
    fn near_silence_is_not_blown_up() {
        let mut audio = song(&[9e-7], &[0.0]);
        normalise_peak(&mut audio, -1.0);
        assert_eq!(audio, song(&[9e-7], &[0.0]));
    }

    #[test]
    fn a_number_that_is_none_names_its_stage_and_place() {
        let error =
            require_finite("the VAE", &[0.0, f32::NAN, 1.0, f32::INFINITY]).expect_err("NaN");
        assert_eq!(error.to_string(), "the VAE gave 2 values that are not finite, the first at 1");
        assert!(require_finite("the VAE", &[f32::MAX, f32::MIN_POSITIVE]).is_ok());
    }

    #[test]
    fn silence_is_refused_and_a_whisper_is_not() {
        let error = require_sound("the VAE", &song(&[1e-5; 4], &[0.0; 4])).expect_err("silent");
        assert_eq!(error.to_string(), "the VAE gave silence: rms 7.1e-6, peak 1.0e-5");
        assert!(require_sound("the VAE", &song(&[2e-5; 4], &[0.0; 4])).is_ok());
        assert!(require_sound("the VAE", &song(&[], &[])).is_err());
    }
}
