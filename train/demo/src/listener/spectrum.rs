//! Short-time magnitude spectra.
//!
//! `X[t, k] = 2 / sum(w) * |sum_n w[n] x[t hop + n - size / 2] exp(-2 pi i k n / size)|`, with a
//! Hann window `w`. A sine of amplitude 1 on a bin gives 1. Frame `t` is centred on sample
//! `t hop`, so times need no correction.

use acestep_engine::audio::fft;

use super::RATE;

/// Magnitudes of a sound, frame by frame.
pub(super) struct Spectrogram {
    /// Number of frequency bins per frame, from 0 Hz upwards.
    pub bins: usize,
    /// Frequency step between bins in Hz.
    pub bin_hz: f64,
    /// Frames per second.
    pub frame_rate: f64,
    magnitudes: Vec<f32>,
}

impl Spectrogram {
    /// Computes the spectrogram of `samples` with frames of `size` samples every `hop` samples.
    ///
    /// Only bins up to `highest_hz` are kept: all bins of a minute would take more than 50 MB.
    pub(super) fn new(samples: &[f32], size: usize, hop: usize, highest_hz: f64) -> Self {
        let bin_hz = RATE / size as f64;
        let bins = ((highest_hz / bin_hz) as usize + 1).min(size / 2 + 1);
        let plan = fft::forward(size);
        let window = hann(size);
        let scale = 2.0 / window.iter().sum::<f32>();
        let (mut input, mut output) = (plan.make_input_vec(), plan.make_output_vec());
        let mut scratch = plan.make_scratch_vec();
        let mut magnitudes = Vec::new();
        for centre in (0..samples.len()).step_by(hop) {
            for (n, (into, weight)) in input.iter_mut().zip(&window).enumerate() {
                // Silence before the start and after the end.
                let at = (centre + n).checked_sub(size / 2);
                *into = at.and_then(|at| samples.get(at)).map_or(0.0, |sample| sample * weight);
            }
            // All lengths come from the plan itself, so the transform cannot fail.
            if plan.process_with_scratch(&mut input, &mut output, &mut scratch).is_ok() {
                magnitudes
                    .extend(output[..bins].iter().map(|value| scale * value.norm_sqr().sqrt()));
            }
        }
        Self { bins, bin_hz, frame_rate: RATE / hop as f64, magnitudes }
    }

    /// Returns the frames in order of time, each with `bins` magnitudes.
    pub(super) fn frames(&self) -> std::slice::ChunksExact<'_, f32> {
        self.magnitudes.chunks_exact(self.bins)
    }
}

fn hann(size: usize) -> Vec<f32> {
    let step = std::f64::consts::TAU / size as f64;
    (0..size).map(|n| (0.5 - 0.5 * (step * n as f64).cos()) as f32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sine_of_amplitude_one_on_a_bin_has_magnitude_one() {
        let hz = 64.0 * RATE / 1024.0;
        let step = std::f64::consts::TAU * hz / RATE;
        let sine: Vec<f32> = (0..8192).map(|n| (step * f64::from(n)).sin() as f32).collect();
        let spectrogram = Spectrogram::new(&sine, 1024, 512, RATE);
        let frame = spectrogram.frames().nth(4).expect("sixteen frames");
        assert!((frame[64] - 1.0).abs() < 1e-3, "{}", frame[64]);
        assert!(frame[80] < 1e-3);
    }
}
