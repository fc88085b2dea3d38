//! Wave tables: one period of a band-limited wave, dark and bright.

use std::sync::LazyLock;

use super::SAMPLE_RATE;

/// Entries per period; a power of two, so that a phase wraps around.
pub(super) const TABLE: usize = 2048;

/// Highest frequency of harmonics, in hertz.
const HIGHEST: f32 = 10_000.0;

/// One period of a sine.
static SINE: LazyLock<Vec<f32>> = LazyLock::new(|| {
    (0..TABLE)
        .map(|index| (std::f64::consts::TAU * index as f64 / TABLE as f64).sin() as f32)
        .collect()
});

/// Amplitudes of the harmonics of a wave.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Spectrum {
    /// Harmonic `h` has amplitude `h^-slope`, times `even` for even ones. Above `cutoff` hertz it
    /// falls with the fourth power.
    Falling {
        /// 1 = saw, 2 = soft.
        slope: f32,
        /// 1 = all harmonics, 0 = odd ones only.
        even: f32,
        /// Cutoff in hertz.
        cutoff: f32,
    },
    /// Amplitudes, from the fundamental up.
    Listed(&'static [f32]),
}

impl Spectrum {
    fn strength(self, harmonic: usize, fundamental: f32) -> f32 {
        match self {
            Self::Falling { slope, even, cutoff } => {
                let parity = if harmonic.is_multiple_of(2) { even } else { 1.0 };
                let ratio = harmonic as f32 * fundamental / cutoff;
                parity * (harmonic as f32).powf(-slope) / (1.0 + ratio.powi(4))
            }
            Self::Listed(strengths) => strengths.get(harmonic - 1).copied().unwrap_or(0.0),
        }
    }
}

/// Pairs (dark wave, difference of the bright wave to it); the first pair is repeated at the end.
pub(super) type Table = Vec<[f32; 2]>;

/// Returns the table for fundamentals up to `fundamental` hertz.
pub(super) fn table(dark: Spectrum, bright: Spectrum, fundamental: f32) -> Table {
    let limit = HIGHEST.min(SAMPLE_RATE as f32 / 2.0);
    let harmonics = ((limit / fundamental) as usize).clamp(1, 48);
    let mut table = vec![[0.0f32; 2]; TABLE + 1];
    let sine: &[f32] = &SINE;
    for harmonic in 1..=harmonics {
        let low = dark.strength(harmonic, fundamental);
        let added = bright.strength(harmonic, fundamental) - low;
        // A harmonic below -80 dB is skipped to save time.
        if low.abs() + added.abs() < 1e-4 {
            continue;
        }
        let mut phase = 0;
        for pair in &mut table[..TABLE] {
            let wave = sine[phase & (TABLE - 1)];
            pair[0] += low * wave;
            pair[1] += added * wave;
            phase += harmonic;
        }
    }
    table[TABLE] = table[0];
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lone_fundamental_is_a_sine() {
        let table = table(Spectrum::Listed(&[1.0]), Spectrum::Listed(&[1.0]), 440.0);
        assert!((table[TABLE / 4][0] - 1.0).abs() < 1e-6);
        assert!(table[TABLE / 2][0].abs() < 1e-6);
        assert!(table.iter().all(|pair| pair[1] == 0.0));
    }

    #[test]
    fn no_harmonic_lies_above_the_limit() {
        let saw = Spectrum::Falling { slope: 1.0, even: 1.0, cutoff: 1e6 };
        let table = table(saw, saw, 6_000.0);
        // Only the fundamental remains, so the wave equals a sine.
        assert!((table[TABLE / 4][0] - 1.0).abs() < 1e-6);
    }
}
