//! Technical faults of a sound: clipping, gaps, NaN or infinity, an offset.

use super::{RATE, Sound};

/// A sample of at least this magnitude counts as clipped.
const CLIPPED: f32 = 0.999;

/// RMS below which a window counts as silent, in dBFS.
const SILENT_DB: f64 = -50.0;

/// Length of a window in samples: 50 ms.
const WINDOW: usize = (0.05 * RATE) as usize;

/// Faults of a sound. A good one has only a short silence at its end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Faults {
    /// Samples of both channels with `|x| >= 0.999`.
    pub clipped: usize,
    /// Samples of both channels that are NaN or infinite.
    pub not_finite: usize,
    /// The longest silence in seconds: 50 ms windows with both channels below -50 dBFS RMS.
    pub silence_s: f64,
    /// Mean of the finite samples of each channel, left and right.
    pub offset: [f64; 2],
}

/// Measures the faults of a song.
pub fn faults<'a>(sound: impl Into<Sound<'a>>) -> Faults {
    let sound = sound.into();
    let samples = || sound.left.iter().chain(sound.right);
    Faults {
        clipped: samples().filter(|x| x.is_finite() && x.abs() >= CLIPPED).count(),
        not_finite: samples().filter(|x| !x.is_finite()).count(),
        silence_s: longest_silence_s(&sound),
        offset: [mean(sound.left), mean(sound.right)],
    }
}

fn longest_silence_s(sound: &Sound) -> f64 {
    let limit = 10f64.powf(SILENT_DB / 10.0);
    let (mut longest, mut current) = (0usize, 0usize);
    for (left, right) in sound.left.chunks(WINDOW).zip(sound.right.chunks(WINDOW)) {
        // Both channels must be silent: a hard-panned part is not a gap.
        current = if power(left).max(power(right)) < limit { current + left.len() } else { 0 };
        longest = longest.max(current);
    }
    longest as f64 / RATE
}

fn power(samples: &[f32]) -> f64 {
    let square = |x: &f32| if x.is_finite() { f64::from(*x).powi(2) } else { 0.0 };
    samples.iter().map(square).sum::<f64>() / samples.len().max(1) as f64
}

fn mean(samples: &[f32]) -> f64 {
    let finite = || samples.iter().filter(|x| x.is_finite());
    finite().map(|&x| f64::from(x)).sum::<f64>() / finite().count().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_is_counted() {
        let mut left = vec![0.1f32; 96_000];
        left[48_000..72_000].fill(0.0);
        let mut right = left.clone();
        left[7] = f32::NAN;
        left[8] = 1.0;
        right[9] = -0.9995;
        let found = faults(&[left, right]);
        assert_eq!((found.clipped, found.not_finite), (2, 1));
        assert!((found.silence_s - 0.5).abs() < 1e-9);
        assert!((found.offset[1] - 0.075).abs() < 1e-4, "{:?}", found.offset);
    }

    #[test]
    fn a_hard_panned_sound_is_no_silence() {
        assert_eq!(faults(&[vec![0.1; 48_000], vec![0.0; 48_000]]).silence_s, 0.0);
    }
}
