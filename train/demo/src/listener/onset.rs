//! Onset envelopes: the strength of onsets at each moment, in three registers.
//!
//! The magnitudes of a frame are added in third-octave bands and compressed as
//! `y = ln(1 + c a / a_max)`. A register's strength is the sum of the rises
//! `max(0, y[t] - y[t - 2])` of its bands. `a_max` is the loudest band of the whole song, so that
//! soft onsets stay weaker than loud ones.
//!
//! Sources: Klapuri, Eronen & Astola 2006, "Analysis of the meter of acoustic musical signals"
//! (log-compressed spectral flux); Ellis 2007, "Beat tracking by dynamic programming" (few bands).

use super::spectrum::Spectrogram;

/// Number of registers: low (kick, bass), middle (chords, melody, snare body), high (hats, noise).
pub(super) const REGISTERS: usize = 3;

/// Upper edges of the low and the middle register in Hz.
const EDGES: [f64; REGISTERS - 1] = [180.0, 2_500.0];

/// Lowest and highest frequency that counts, in Hz.
const HEARD: (f64, f64) = (30.0, 14_000.0);

const SIZE: usize = 2_048;
const HOP: usize = 256;

/// Compression of loudness: 1 % of the loudest band gives about a tenth of its onset strength.
const COMPRESSION: f32 = 30.0;

/// Distance of the compared frames: about the rise time of a struck sound in a Hann window.
const LAG: usize = 2;

/// Onset strength over time in three registers.
pub(super) struct Onsets {
    /// Frames per second.
    pub rate: f64,
    /// Strength of each frame: `[low, middle, high]`, not negative.
    pub frames: Vec<[f32; REGISTERS]>,
}

impl Onsets {
    /// Computes the onsets of one channel.
    pub(super) fn new(samples: &[f32]) -> Self {
        let spectrogram = Spectrogram::new(samples, SIZE, HOP, HEARD.1 * 1.3);
        let bands = Bands::new(spectrogram.bins, spectrogram.bin_hz);
        let mut levels: Vec<Vec<f32>> = spectrogram.frames().map(|f| bands.sums(f)).collect();
        let loudest = levels.iter().flatten().fold(1e-6f32, |a, &b| a.max(b));
        for level in levels.iter_mut().flatten() {
            *level = (COMPRESSION * *level / loudest).ln_1p();
        }
        let silent = vec![0.0; bands.registers.len()];
        let rise = |t: usize| {
            let before = t.checked_sub(LAG).map_or(&silent, |t| &levels[t]);
            let mut sum = [0.0; REGISTERS];
            for ((now, before), &register) in levels[t].iter().zip(before).zip(&bands.registers) {
                sum[register] += (now - before).max(0.0);
            }
            sum
        };
        Self { rate: spectrogram.frame_rate, frames: (0..levels.len()).map(rise).collect() }
    }

    /// Returns one envelope, the weighted sum of the registers.
    pub(super) fn weighted(&self, weights: [f32; REGISTERS]) -> Vec<f32> {
        let sum = |f: &[f32; REGISTERS]| f.iter().zip(&weights).map(|(a, w)| a * w).sum();
        self.frames.iter().map(sum).collect()
    }
}

/// Third-octave bands: the band of each bin, and the register of each band.
struct Bands {
    of_bin: Vec<Option<usize>>,
    registers: Vec<usize>,
}

impl Bands {
    fn new(bins: usize, bin_hz: f64) -> Self {
        let mut edges = vec![HEARD.0];
        while let Some(&edge) = edges.last()
            && edge < HEARD.1
        {
            // Low third octaves are narrower than a bin, but a band needs at least one bin.
            edges.push((edge * 2f64.powf(1.0 / 3.0)).max(edge + bin_hz));
        }
        let band = |bin: usize| {
            let hz = bin as f64 * bin_hz;
            edges.windows(2).position(|edge| edge[0] <= hz && hz < edge[1])
        };
        let register = |edge: &[f64]| EDGES.iter().filter(|&&e| e <= edge[0]).count();
        Self {
            of_bin: (0..bins).map(band).collect(),
            registers: edges.windows(2).map(register).collect(),
        }
    }

    fn sums(&self, frame: &[f32]) -> Vec<f32> {
        let mut sums = vec![0.0f32; self.registers.len()];
        for (magnitude, band) in frame.iter().zip(&self.of_bin) {
            if let Some(band) = band {
                sums[*band] += magnitude * magnitude;
            }
        }
        sums.iter().map(|power| power.sqrt()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listener::synth;

    #[test]
    fn an_onset_is_heard_in_its_register_and_at_its_time() {
        for (hz, register) in [(80.0, 0), (700.0, 1), (6_000.0, 2)] {
            let mut samples = vec![0.0; 48_000];
            synth::add_tone(&mut samples, 0.5, 0.3, hz, 0.5);
            let onsets = Onsets::new(&samples);
            let of = |f: &[f32; 3]| f[register];
            let peak = onsets.frames.iter().map(of).enumerate().max_by(|a, b| a.1.total_cmp(&b.1));
            let (frame, strength) = peak.expect("a second has frames");
            let at = frame as f64 / onsets.rate;
            assert!((at - 0.5).abs() < 0.02, "{hz} Hz at {at} s");
            assert!(strength > 1.0, "{hz} Hz: {strength}");
        }
    }
}
