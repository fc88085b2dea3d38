//! Chroma: the strength of each pitch class, in the bass and above it.
//!
//! A parabola through the logarithms of three bins gives the frequency of each peak of a long
//! spectrum, precisely enough even in the bass. A peak adds to the nearest pitch class with weight
//! `cos(pi d / 2)^2`, where `d` is its distance in half semitones (HPCP: Gomez 2006, "Tonal
//! description of music audio signals"). Tuning is A4 = 440 Hz.

use super::spectrum::Spectrogram;

/// Strength of each pitch class, C = 0.
pub(super) type Chroma = [f64; 12];

const SIZE: usize = 16_384;
const HOP: usize = 4_096;

/// MIDI notes of the bass register: A0 to B2, 27 to 123 Hz.
const BASS: (f64, f64) = (20.5, 47.5);

/// MIDI notes of the upper register: C3 to C7, 130 to 2093 Hz.
const UPPER: (f64, f64) = (47.5, 96.5);

/// Smallest magnitude of a peak, relative to the loudest of the song (-50 dB).
const FLOOR: f32 = 3e-3;

/// Exponent of magnitudes in the chroma. Loud notes count more, but not in proportion.
const LOUDNESS: f64 = 0.6;

/// Ratios of a peak to the median around it: above the first it counts, from the second fully.
///
/// Peaks of noise, such as drums, are at most about three times the median.
const NOISE: (f32, f32) = (3.0, 8.0);

/// Bins on either side of a peak for the median: 70 Hz.
const AROUND: usize = 24;

/// Length of the bass frames: short, so that some fit between two beats of a kick drum.
const BASS_SIZE: usize = 8_192;
const BASS_HOP: usize = 1_024;

/// Upper limit of the bass spectra in Hz, more than an octave above the bass.
const BASS_HZ: f64 = 470.0;

/// Bass frames on either side through which a note must last: 130 ms.
const BESIDE: usize = 6;

/// Quantile over time that separates lasting from short sounds.
const LASTING: f64 = 0.4;

/// Weight of a bass peak without a peak one octave higher, such as the body of a kick drum.
const BARE: f64 = 0.2;

/// Chroma of one moment.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Moment {
    /// Pitch classes in the bass.
    pub bass: Chroma,
    /// Pitch classes above the bass.
    pub upper: Chroma,
}

/// The chroma of a channel over time.
pub(super) struct Chromagram {
    /// Moments per second.
    pub rate: f64,
    /// One chroma per 85 ms.
    pub moments: Vec<Moment>,
}

impl Chromagram {
    /// Computes the chromagram of one channel.
    pub(super) fn new(samples: &[f32]) -> Self {
        let upper = Spectrogram::new(samples, SIZE, HOP, 2_200.0);
        let bass = Spectrogram::new(samples, BASS_SIZE, BASS_HOP, BASS_HZ);
        let loudest = |s: &Spectrogram| s.frames().flatten().fold(1e-6f32, |a, &b| a.max(b));
        let (loudest_upper, loudest_bass) = (loudest(&upper), loudest(&bass));
        let bass_frames: Vec<&[f32]> = bass.frames().collect();
        let moment = |(time, frame): (usize, &[f32])| Moment {
            bass: chroma(&lasting(&bass_frames, time * HOP / BASS_HOP), &bass, loudest_bass, BASS),
            upper: chroma(frame, &upper, loudest_upper, UPPER),
        };
        let moments = upper.frames().enumerate().map(moment).collect();
        Self { rate: upper.frame_rate, moments }
    }
}

/// Returns the lasting sounds around a frame: the [`LASTING`] quantile over time of each bin.
///
/// A kick drum fades within a fraction of a beat, but a note lasts. A quantile over time therefore
/// keeps harmonic and removes percussive sounds (Fitzgerald 2010, "Harmonic/percussive separation
/// using median filtering").
fn lasting(frames: &[&[f32]], centre: usize) -> Vec<f32> {
    let around = &frames[centre.saturating_sub(BESIDE)..frames.len().min(centre + BESIDE + 1)];
    let mut column = Vec::with_capacity(around.len());
    let quantile = |bin: usize| {
        column.clear();
        column.extend(around.iter().map(|frame| frame[bin]));
        let place = (LASTING * column.len() as f64) as usize;
        *column.select_nth_unstable_by(place, f32::total_cmp).1
    };
    (0..around.first().map_or(0, |frame| frame.len())).map(quantile).collect()
}

/// Computes the chroma of a frame within a range of notes.
fn chroma(frame: &[f32], of: &Spectrogram, loudest: f32, range: (f64, f64)) -> Chroma {
    let mut chroma = Chroma::default();
    let peaks = peaks(frame, of.bin_hz, FLOOR * loudest);
    for &(note, magnitude) in &peaks {
        if (range.0..range.1).contains(&note) {
            let nearest = note.round();
            let distance = (note - nearest) * 2.0;
            let mut weight = (std::f64::consts::FRAC_PI_2 * distance).cos().powi(2);
            if note < BASS.1 && !has_octave(&peaks, note) {
                weight *= BARE;
            }
            let class = (nearest as i64).rem_euclid(12) as usize;
            chroma[class] += weight * (magnitude / f64::from(loudest)).powf(LOUDNESS);
        }
    }
    chroma
}

/// True if there is a peak an octave above `note`. Notes of instruments have one, drums do not.
fn has_octave(peaks: &[(f64, f64)], note: f64) -> bool {
    peaks.iter().any(|(other, _)| (other - note - 12.0).abs() < 0.35)
}

/// Returns the spectral peaks of a frame above `floor`: MIDI note (with fraction) and magnitude.
fn peaks(frame: &[f32], bin_hz: f64, floor: f32) -> Vec<(f64, f64)> {
    let peak = |(before, w): (usize, &[f32])| {
        if w[1] < floor || w[1] <= w[0] || w[1] < w[2] {
            return None;
        }
        let ratio = w[1] / median(frame, before + 1).max(1e-12);
        let tonal = ((ratio - NOISE.0) / (NOISE.1 - NOISE.0)).clamp(0.0, 1.0);
        if tonal == 0.0 {
            return None;
        }
        let [left, top, right] = [w[0], w[1], w[2]].map(|m| f64::from(m.max(1e-12)).ln());
        // The maximum of the parabola through three points, at most half a bin away.
        let offset = 0.5 * (left - right) / (left - 2.0 * top + right);
        let hz = ((before + 1) as f64 + offset.clamp(-0.5, 0.5)) * bin_hz;
        Some((69.0 + 12.0 * (hz / 440.0).log2(), f64::from(tonal * w[1])))
    };
    frame.windows(3).enumerate().filter_map(peak).collect()
}

/// Returns the median magnitude around a bin.
fn median(frame: &[f32], bin: usize) -> f32 {
    let mut around = frame[bin.saturating_sub(AROUND)..frame.len().min(bin + AROUND + 1)].to_vec();
    let middle = around.len() / 2;
    *around.select_nth_unstable_by(middle, f32::total_cmp).1
}

/// Adds `weight` times `more` to `sum`.
pub(super) fn add(sum: &mut Chroma, more: &Chroma, weight: f64) {
    sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += weight * more);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listener::synth;

    #[test]
    fn each_note_of_the_bass_and_above_falls_on_its_class() {
        for note in 28..90 {
            let mut samples = vec![0.0; 48_000];
            synth::add_tone(&mut samples, 0.0, 1.0, synth::hz(note), 0.5);
            let chromagram = Chromagram::new(&samples);
            let moment = chromagram.moments[4];
            let mut both = moment.bass;
            add(&mut both, &moment.upper, 1.0);
            let class = (note % 12) as usize;
            let sum: f64 = both.iter().sum();
            assert!(both[class] > 0.8 * sum, "{note}: {both:?}");
            assert_eq!(moment.bass[class] > moment.upper[class], note < 48);
        }
    }
}
