//! Two-pole filters, for noise.
//!
//! Source: R. Bristow-Johnson, "Cookbook formulae for audio EQ biquad filter coefficients".

use super::SAMPLE_RATE;

/// A filter with its state.
#[derive(Debug, Clone, Copy)]
pub(super) struct Filter {
    forward: [f32; 3],
    backward: [f32; 2],
    memory: [f32; 2],
}

impl Filter {
    /// Creates a low-pass filter with a cutoff in hertz.
    pub(super) fn low_pass(cutoff: f32) -> Self {
        Self::new(cutoff, |cosine| [(1.0 - cosine) / 2.0, 1.0 - cosine, (1.0 - cosine) / 2.0])
    }

    /// Creates a high-pass filter with a cutoff in hertz.
    pub(super) fn high_pass(cutoff: f32) -> Self {
        Self::new(cutoff, |cosine| [(1.0 + cosine) / 2.0, -1.0 - cosine, (1.0 + cosine) / 2.0])
    }

    fn new(cutoff: f32, forward: impl Fn(f32) -> [f32; 3]) -> Self {
        let angle = std::f32::consts::TAU * cutoff / SAMPLE_RATE as f32;
        let (sine, cosine) = angle.sin_cos();
        // Q = 1/sqrt(2): maximally flat.
        let alpha = sine / std::f32::consts::SQRT_2;
        let scale = 1.0 / (1.0 + alpha);
        Self {
            forward: forward(cosine).map(|value| value * scale),
            backward: [-2.0 * cosine * scale, (1.0 - alpha) * scale],
            memory: [0.0; 2],
        }
    }

    /// Filters one sample.
    pub(super) fn next(&mut self, input: f32) -> f32 {
        let output = self.forward[0] * input + self.memory[0];
        self.memory[0] = self.forward[1] * input - self.backward[0] * output + self.memory[1];
        self.memory[1] = self.forward[2] * input - self.backward[1] * output;
        output
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_pass_keeps_a_constant_and_high_pass_removes_it() {
        let settle = |mut filter: Filter| (0..5_000).map(|_| filter.next(1.0)).last();
        let low = settle(Filter::low_pass(1_000.0)).expect("samples");
        let high = settle(Filter::high_pass(1_000.0)).expect("samples");
        assert!((low - 1.0).abs() < 1e-3, "{low}");
        assert!(high.abs() < 1e-3, "{high}");
    }
}
