//! Loudness normalisation, and checks for audio that is silent or not finite.
//!
//! Peak normalisation to `d` dB multiplies by `10^(d / 20) / max |x|`. Loudness and true peak
//! (which may lie between samples) follow EBU R 128: ITU-R BS.1770, integrated, gated, in LUFS.
//!
//! Source: upstream `generate_music` (`normalize_audio`, `is_audio_silent`) and the handler's
//! anti-clip; acestep.cpp `audio_normalize`.

use burn::tensor::DType;
use ebur128::{EbuR128, Mode};
use rayon::prelude::*;

use super::Audio;
use crate::{Error, Notice};

/// Target loudness of songs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Loudness {
    /// Unchanged, unless the peak is above full scale.
    AsIs,
    /// A peak in dB relative to full scale.
    Peak(f32),
    /// An integrated loudness in LUFS, less if the true peak would exceed [`MOST_TRUE_PEAK`].
    Integrated(f32),
    /// A gain that clips this many samples per million, as acestep.cpp does.
    Clipped(u32),
}

impl Default for Loudness {
    /// Upstream's default.
    fn default() -> Self {
        Self::Peak(-1.0)
    }
}

impl Loudness {
    /// Brings a song to this loudness and returns a notice if there is something to report.
    pub fn apply(self, audio: &mut Audio) -> Option<Notice> {
        let quieter = prevent_clipping(audio);
        match self {
            Self::AsIs => quieter,
            Self::Peak(decibels) => {
                normalise_peak(audio, decibels);
                None
            }
            Self::Integrated(target) => normalise_integrated(audio, target),
            Self::Clipped(millionths) => {
                normalise_clipped(audio, millionths);
                None
            }
        }
    }
}

/// Maximum true peak for [`Loudness::Integrated`], in dB relative to full scale. Above it, a lossy
/// format could exceed full scale.
pub const MOST_TRUE_PEAK: f32 = -1.0;

/// A peak below this is rounding noise and is not amplified, as upstream.
const LEAST_PEAK: f32 = 1e-6;

/// A song is silent if its RMS and its peak are at most this.
const SILENT: f32 = 1e-5;

/// Samples of a work item: about 0.1 ms of work.
const PIECE: usize = 1 << 16;

/// Returns the largest magnitude over all channels, 0 for an empty song.
pub fn peak(audio: &Audio) -> f32 {
    let pieces = audio.channels.par_iter().flat_map(|channel| channel.par_chunks(PIECE));
    let peak = |piece: &[f32]| piece.iter().fold(0.0, |peak: f32, x| peak.max(x.abs()));
    pieces.map(peak).reduce(|| 0.0, f32::max)
}

/// Returns the root mean square over all channels, 0 for an empty song.
pub fn rms(audio: &Audio) -> f32 {
    let count: usize = audio.channels.iter().map(Vec::len).sum();
    let sum: f64 = audio.channels.iter().flatten().map(|&x| f64::from(x).powi(2)).sum();
    (sum / count.max(1) as f64).sqrt() as f32
}

/// Divides by the peak if it is above 1, so that nothing clips, and returns a notice then. Other
/// songs stay unchanged.
pub fn prevent_clipping(audio: &mut Audio) -> Option<Notice> {
    let peak = peak(audio);
    if peak <= 1.0 {
        return None;
    }
    map(audio, |x| x / peak);
    let decibels = 20.0 * peak.log10();
    Some(Notice(format!(
        "the sound is {decibels:.2} dB quieter than the VAE gave it, which was above full scale"
    )))
}

/// Scales the peak to `decibels` relative to full scale (0 = full scale), up or down.
pub fn normalise_peak(audio: &mut Audio, decibels: f32) {
    let peak = peak(audio);
    if peak >= LEAST_PEAK {
        let gain = 10f32.powf(decibels / 20.0) / peak;
        map(audio, |x| x * gain);
    }
}

/// Scales the integrated loudness to `target` LUFS. If the true peak would exceed
/// [`MOST_TRUE_PEAK`], the song becomes less loud. If it cannot be measured, its peak is brought
/// there. Both cases return a notice.
pub fn normalise_integrated(audio: &mut Audio, target: f32) -> Option<Notice> {
    let Some(MeasuredLoudness { lufs, true_peak }) = measure(audio) else {
        normalise_peak(audio, MOST_TRUE_PEAK);
        return Some(Notice(format!(
            "the loudness cannot be measured, because the song is shorter than 0.4 s or too quiet: \
             its peak is at {MOST_TRUE_PEAK} dB instead"
        )));
    };
    // ANCHOR: loudness
    let wanted = f64::from(target) - lufs;
    let possible = f64::from(MOST_TRUE_PEAK) - true_peak;
    let gain = 10f64.powf(wanted.min(possible) / 20.0);
    map(audio, |x| (f64::from(x) * gain) as f32);
    // ANCHOR_END: loudness
    (possible < wanted).then(|| {
        Notice(format!(
            "the loudness is {:.1} LUFS, not {target}: more would bring the true peak above \
             {MOST_TRUE_PEAK} dB",
            lufs + possible
        ))
    })
}

/// EBU R 128 measurements of a song.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeasuredLoudness {
    /// Integrated loudness, in LUFS.
    pub lufs: f64,
    /// True peak over all channels, in dB relative to full scale.
    pub true_peak: f64,
}

/// Measures a song; `None` if it is shorter than 0.4 s, or entirely below -70 LUFS.
pub fn measure(audio: &Audio) -> Option<MeasuredLoudness> {
    let channels = u32::try_from(audio.channels.len()).ok()?;
    let mut meter = EbuR128::new(channels, audio.sample_rate, Mode::I | Mode::TRUE_PEAK).ok()?;
    let planes: Vec<&[f32]> = audio.channels.iter().map(Vec::as_slice).collect();
    meter.add_frames_planar_f32(&planes).ok()?;
    let peaks = (0..channels).map(|channel| meter.true_peak(channel));
    let peak = peaks.collect::<Result<Vec<_>, _>>().ok()?.into_iter().fold(0.0, f64::max);
    let measured =
        MeasuredLoudness { lufs: meter.loudness_global().ok()?, true_peak: 20.0 * peak.log10() };
    (measured.lufs.is_finite() && measured.true_peak.is_finite()).then_some(measured)
}

/// Scales the sample at rank `millionths` (from the loudest, per million) to full scale and clips
/// the louder ones; acestep.cpp's `peak_clip`, where 0 is the peak itself.
pub fn normalise_clipped(audio: &mut Audio, millionths: u32) {
    let mut sizes: Vec<f32> = audio.channels.iter().flatten().map(|x| x.abs()).collect();
    let Some(last) = sizes.len().checked_sub(1) else { return };
    let place = (last as f64 * (1.0 - f64::from(millionths) / 1e6)) as usize;
    let (_, &mut size, _) = sizes.select_nth_unstable_by(place, f32::total_cmp);
    if size >= LEAST_PEAK {
        let gain = 1.0 / size;
        map(audio, |x| (x * gain).clamp(-1.0, 1.0));
    }
}

fn map(audio: &mut Audio, f: impl Fn(f32) -> f32 + Sync) {
    let pieces = audio.channels.par_iter_mut().flat_map(|channel| channel.par_chunks_mut(PIECE));
    pieces.for_each(|piece| piece.iter_mut().for_each(|x| *x = f(*x)));
}

/// Returns an error unless all `values` are finite; `stage` names their origin.
///
/// # Errors
/// [`Error::NotFinite`].
pub fn require_finite(stage: &str, values: &[f32]) -> Result<(), Error> {
    if values.par_chunks(PIECE).all(|piece| piece.iter().all(|x| x.is_finite())) {
        return Ok(());
    }
    let Some(first) = values.iter().position(|x| !x.is_finite()) else { return Ok(()) };
    let count = values[first..].iter().filter(|x| !x.is_finite()).count();
    Err(Error::NotFinite { stage: stage.into(), count, first, dtype: DType::F32 })
}

/// Returns an error unless all samples are finite and not silent; `stage` names their origin.
///
/// # Errors
/// [`Error::NotFinite`] or [`Error::Silent`] (RMS and peak both at most 1e-5).
pub fn require_sound(stage: &str, audio: &Audio) -> Result<(), Error> {
    audio.channels.iter().try_for_each(|channel| require_finite(stage, channel))?;
    let peak = peak(audio);
    // The RMS is a pass on one core.
    if peak > SILENT {
        return Ok(());
    }
    let rms = rms(audio);
    if rms <= SILENT {
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
        let notice = Loudness::AsIs.apply(&mut loud).expect("a notice");
        assert_eq!(loud, song(&[0.25, -1.0], &[0.5, 0.0]));
        // 20 log10(2) = 6.0206.
        let text = "the sound is 6.02 dB quieter than the VAE gave it, which was above full scale";
        assert_eq!(notice.0, text);
        let mut quiet = song(&[0.5], &[-1.0]);
        assert_eq!(Loudness::AsIs.apply(&mut quiet), None);
        assert_eq!(quiet, song(&[0.5], &[-1.0]));
        // A requested peak hides the change, so there is no notice.
        assert_eq!(Loudness::Peak(-1.0).apply(&mut song(&[2.0], &[0.0])), None);
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

    fn sine(hertz: f32, height: f32, seconds: f32) -> Audio {
        let samples = (48_000.0 * seconds) as usize;
        let step = std::f32::consts::TAU * hertz / 48_000.0;
        let channel: Vec<f32> =
            (0..samples).map(|i| height * (step * (i % 48_000) as f32).sin()).collect();
        song(&channel, &channel)
    }

    /// EBU Tech 3341, case 1: a stereo sine of 1 kHz at -23 dBFS in both channels is -23 LUFS.
    #[test]
    fn loudness_is_measured_as_the_standard_has_it() {
        let measured = measure(&sine(1000.0, 10f32.powf(-23.0 / 20.0), 20.0)).expect("loud");
        assert!((measured.lufs + 23.0).abs() < 0.1, "{measured:?}");
        assert!((measured.true_peak + 23.0).abs() < 0.1, "{measured:?}");
    }

    #[test]
    fn loudness_is_brought_to_what_was_asked_up_or_down() {
        for (height, target) in [(0.5, -23.0), (0.01, -16.0)] {
            let mut audio = sine(440.0, height, 3.0);
            assert_eq!(Loudness::Integrated(target).apply(&mut audio), None);
            let lufs = measure(&audio).expect("loud").lufs;
            assert!((lufs - f64::from(target)).abs() < 0.01, "{lufs}");
        }
    }

    #[test]
    fn a_peak_that_would_be_too_high_bounds_the_loudness_and_is_said() {
        // One click per second among quiet tones.
        let mut audio = sine(440.0, 0.02, 3.0);
        for channel in &mut audio.channels {
            channel.iter_mut().step_by(48_000).for_each(|x| *x = 0.5);
        }
        let notice = Loudness::Integrated(-14.0).apply(&mut audio).expect("a notice");
        let measured = measure(&audio).expect("loud");
        assert!((measured.true_peak + 1.0).abs() < 0.01, "{measured:?}");
        let text = format!("the loudness is {:.1} LUFS, not -14: more", measured.lufs);
        assert!(notice.0.starts_with(&text), "{notice}");
    }

    #[test]
    fn a_song_that_cannot_be_measured_has_its_peak_and_says_so() {
        let mut audio = sine(440.0, 0.5, 0.2);
        let notice = Loudness::Integrated(-14.0).apply(&mut audio).expect("a notice");
        assert!(notice.0.starts_with("the loudness cannot be measured"), "{notice}");
        assert!((peak(&audio) - 0.891_251).abs() < 1e-5);
    }

    /// acestep.cpp: `absvals[(size_t)((n - 1) * pct)]` becomes 1, and larger samples are clipped.
    #[test]
    fn so_many_millionths_are_clipped() {
        let ramp: Vec<f32> = (0..5_000).map(|i| (i as f32 + 1.0) / -10_000.0).collect();
        let rest: Vec<f32> = (5_000..10_000).map(|i| (i as f32 + 1.0) / 10_000.0).collect();
        let mut audio = song(&ramp, &rest);
        // 9999 * (1 - 999e-6) = 9989.01: sample 9989, whose value is 0.999.
        Loudness::Clipped(999).apply(&mut audio);
        assert!((audio.channels[0][0] + 0.0001 / 0.999).abs() < 1e-9);
        assert_eq!(audio.channels[1].iter().filter(|x| **x >= 1.0).count(), 11);
        assert_eq!(peak(&audio), 1.0);
        let mut audio = song(&[0.25, 0.1], &[-0.5, 0.0]);
        Loudness::Clipped(0).apply(&mut audio);
        assert_eq!(audio, song(&[0.5, 0.2], &[-1.0, 0.0]));
        Loudness::Clipped(10).apply(&mut song(&[], &[]));
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
