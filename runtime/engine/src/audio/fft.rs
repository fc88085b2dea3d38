//! Fourier transforms of real samples.
//!
//! The library's transforms are generic over the type of a sample. They are compiled here, once.

use std::sync::Arc;

pub use realfft::{ComplexToReal, RealToComplex, num_complex::Complex32};

/// Returns the transform of `size` samples to `size / 2 + 1` bins. It does not scale.
pub fn forward(size: usize) -> Arc<dyn RealToComplex<f32>> {
    realfft::RealFftPlanner::new().plan_fft_forward(size)
}

/// Returns the transform of `size / 2 + 1` bins to `size` samples. After [`forward`], the samples are `size`
/// times what they were.
pub fn inverse(size: usize) -> Arc<dyn ComplexToReal<f32>> {
    realfft::RealFftPlanner::new().plan_fft_inverse(size)
}

#[cfg(test)]
mod tests {
    use super::{forward, inverse};

    #[test]
    fn a_sine_on_a_bin_is_that_bin_and_comes_back() {
        let there = forward(8);
        let (mut samples, mut bins) = (there.make_input_vec(), there.make_output_vec());
        let sine = |n: usize| (std::f32::consts::TAU * 2.0 * n as f32 / 8.0).sin();
        samples.iter_mut().enumerate().for_each(|(n, sample)| *sample = sine(n));
        there.process(&mut samples, &mut bins).expect("the plan's lengths");
        let sizes: Vec<f32> = bins.iter().map(|bin| bin.norm()).collect();
        for (bin, (size, expected)) in sizes.iter().zip([0.0, 0.0, 4.0, 0.0, 0.0]).enumerate() {
            assert!((size - expected).abs() < 1e-6, "bin {bin}: {size}");
        }
        inverse(8).process(&mut bins, &mut samples).expect("the plan's lengths");
        for (n, sample) in samples.iter().enumerate() {
            assert!((sample - 8.0 * sine(n)).abs() < 1e-5, "sample {n}: {sample}");
        }
    }
}
