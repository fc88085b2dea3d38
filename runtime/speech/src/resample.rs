//! Recordings to the rate of a network, by the filter of soxr's quality `HQ`, which upstream's librosa uses: a sinc
//! under a Kaiser window. With the shorter filter of songs, a sixth of a voice's mel bands would differ by more than
//! 0.1 from 16 kHz.
//!
//! ```text
//! y[n] = sum over i of x[i] s h(s (i - n from / to))     s = ROLLOFF min(1, to / from)
//! h(t) = sinc(t) I0(BETA sqrt(1 - (t / CROSSINGS)^2)) / I0(BETA)     for |t| < CROSSINGS, else 0
//! ```
//!
//! Source: libsoxr 0.1.3; the three numbers are those whose filter is nearest to its own at 48 to 24 kHz.

use acestep_engine::{
    Error, Observe,
    audio::resample::{Ratio, filtered, sinc},
    progress::check,
};

/// Zero crossings of the filter on each side.
const CROSSINGS: f64 = 93.056;
/// Cutoff of the filter, relative to the lower rate's Nyquist frequency.
const ROLLOFF: f64 = 0.956_872;
/// Shape of the Kaiser window.
const BETA: f64 = 13.04;
/// Samples between two checks for a cancellation: some milliseconds, at odd rates a fraction of a second.
const SAMPLES_PER_CHECK: usize = 4096;

/// Returns a sound of the rate `from` at the rate `to`, both above 0: `S` samples become `ceil(S to / from)`.
pub(crate) fn resampled(
    sound: &[f32],
    from: u32,
    to: u32,
    observe: &dyn Observe,
) -> Result<Vec<f32>, Error> {
    if from == to {
        return Ok(sound.to_vec());
    }
    let ratio = Ratio::new(from, to);
    let Ratio { from, to } = ratio;
    let count = ratio.samples(sound.len());
    let scale = ROLLOFF * (to as f64 / from as f64).min(1.0);
    let (reach, top) = (CROSSINGS / scale, bessel(BETA));
    let (mut made, mut done) = (vec![0.0; count], 0_usize);
    // Every `to`th sample has the same taps. They are not kept: at odd rates all of them would fill the memory.
    for phase in 0..to.min(count) {
        let place = phase as f64 * from as f64 / to as f64;
        let (first, last) = ((place - reach).ceil() as isize, (place + reach).floor() as isize);
        let tap = |i: isize| scale * windowed_sinc((i as f64 - place) * scale) / top;
        let taps: Vec<f64> = (first..=last).map(tap).collect();
        for (period, sample) in made[phase..].iter_mut().step_by(to).enumerate() {
            if done.is_multiple_of(SAMPLES_PER_CHECK) {
                check(observe)?;
            }
            done += 1;
            *sample = filtered(&taps, first + (period * from) as isize, sound, 0);
        }
    }
    Ok(made)
}

/// Returns `h(t) I0(BETA)`.
fn windowed_sinc(t: f64) -> f64 {
    let inside = 1.0 - (t / CROSSINGS).powi(2);
    if inside <= 0.0 {
        return 0.0;
    }
    sinc(t) * bessel(BETA * inside.sqrt())
}

/// Returns the modified Bessel function `I0(x)`, by its series.
fn bessel(x: f64) -> f64 {
    let (mut sum, mut term, mut k) = (1.0_f64, 1.0_f64, 1.0_f64);
    while term > 1e-12 * sum {
        term *= (x / (2.0 * k)).powi(2);
        sum += term;
        k += 1.0;
    }
    sum
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, f64::consts::PI};

    use acestep_engine::{CancelIf, Unobserved};

    use super::*;

    fn resampled(sound: &[f32], from: u32, to: u32) -> Vec<f32> {
        super::resampled(sound, from, to, &Unobserved).expect("a sound")
    }

    /// Deterministic noise of full amplitude.
    fn noise(samples: usize) -> Vec<f32> {
        let mut state = 7u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state as f32 / 2f32.powi(31) - 1.0
        };
        (0..samples).map(|_| next()).collect()
    }

    /// Golden: `soxr.resample(noise, rate, 24000, quality="HQ")` of python-soxr 1.1.0, from sample `at` on. At
    /// 48 kHz soxr has one stage, and the samples are equal; more stages differ by up to 4e-4.
    #[test]
    fn noise_becomes_that_of_soxr() {
        for (rate, at, expected, tolerance) in [
            (48_000, 500, [0.14184_f32, -0.42652, -0.74272, -0.35115], 2e-5),
            (16_000, 1500, [0.47179, -0.18628, -0.62277, -0.31689], 2e-4),
            (44_100, 600, [0.56845, 0.43707, -0.18445, 0.26557], 4e-4),
        ] {
            let made = resampled(&noise(2_000), rate, 24_000);
            for (&made, expected) in made[at..].iter().zip(expected) {
                assert!((made - expected).abs() < tolerance, "{rate} Hz: {made} for {expected}");
            }
        }
    }

    /// soxr's response: 1 at 10.5 kHz, 0.451 at 11.5 kHz, and nothing from 12 kHz on.
    #[test]
    fn nothing_above_the_new_rate_is_heard_and_nothing_below_is_lost() {
        for (hertz, expected) in [(10_500.0, 1.0), (11_500.0, 0.451), (12_500.0, 0.0)] {
            let wave = |n: u16| (2.0 * PI * hertz * f64::from(n) / 48_000.0).sin() as f32;
            let sine: Vec<f32> = (0..4_000).map(wave).collect();
            let made = resampled(&sine, 48_000, 24_000);
            let peak = made[800..1_200].iter().fold(0.0, |peak: f32, x| peak.max(x.abs()));
            assert!((peak - expected).abs() < 1e-3, "{hertz} Hz: {peak}");
        }
    }

    /// 2000 samples at 44.1 kHz are 1088.4 at 24 kHz. At 47,999 Hz each sample has taps of its own.
    #[test]
    fn lengths_are_those_of_librosa_and_the_same_rate_changes_nothing() {
        let x = noise(2_000);
        assert_eq!(resampled(&x, 44_100, 24_000).len(), 1_089);
        assert_eq!(resampled(&x, 47_999, 24_000).len(), 1_001);
        assert_eq!(resampled(&x[..1], 100, 24_000).len(), 240);
        assert_eq!(resampled(&x, 24_000, 24_000), x);
        assert!(resampled(&[], 44_100, 24_000).is_empty());
    }

    /// 10,000 samples of one phase, or of 80, are three times 4096 or less.
    #[test]
    fn a_long_recording_is_cancelled_while_it_is_resampled() {
        for (from, samples) in [(48_000, 20_000), (44_100, 18_375)] {
            let run = |last| {
                let checks = Cell::new(0);
                let observe = CancelIf(|| checks.replace(checks.get() + 1) == last);
                super::resampled(&vec![0.0; samples], from, 24_000, &observe)
            };
            assert!(matches!(run(2), Err(Error::Cancelled)), "{from} Hz");
            assert_eq!(run(3).expect("three checks").len(), 10_000, "{from} Hz");
        }
    }
}
