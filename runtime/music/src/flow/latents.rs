//! Arithmetic on whole latents before and after sampling.
//!
//! Source: upstream `generate_audio` (`renoise`, retake) and its handler (`latent_shift`,
//! `latent_rescale`).

use std::f64::consts::FRAC_PI_2;

use acestep_model::Backend;
use burn::tensor::Tensor;

/// Returns the point between noise and music at time `t`: `t noise + (1 - t) x_0`.
///
/// # Shapes
/// - `x0`, `noise`, output: `[B, T, C]`
pub fn noised<B: Backend>(x0: Tensor<B, 3>, noise: Tensor<B, 3>, t: f32) -> Tensor<B, 3> {
    noise * t + x0 * (1.0 - t)
}

/// Returns the noise of a retake: `cos(v pi / 2) noise + sin(v pi / 2) other`.
///
/// `other` is the noise of another seed. The standard deviation stays the same. A variance of 0
/// returns `noise`, 1 returns `other`.
pub fn retaken(noise: &[f32], other: &[f32], variance: f64) -> Vec<f32> {
    let (sine, cosine) = (variance * FRAC_PI_2).sin_cos();
    let (sine, cosine) = (sine as f32, cosine as f32);
    noise.iter().zip(other).map(|(a, b)| cosine * a + sine * b).collect()
}

/// Returns the latents for the VAE: `rescale x + shift`.
///
/// # Shapes
/// - `x`, output: `[B, T, C]`
pub fn adjusted<B: Backend>(x: Tensor<B, 3>, rescale: f32, shift: f32) -> Tensor<B, 3> {
    if (rescale, shift) == (1.0, 0.0) { x } else { x * rescale + shift }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn_flex::Flex;

    fn song(value: f32) -> Tensor<Flex, 3> {
        Tensor::full([1, 1, 1], value, &Default::default())
    }

    #[test]
    fn time_one_is_noise_and_time_zero_is_music() {
        for (t, expected) in [(1.0, 5.0), (0.0, -3.0), (0.25, -1.0)] {
            assert_eq!(noised(song(-3.0), song(5.0), t).into_scalar(), expected, "{t}");
        }
    }

    #[test]
    fn a_take_turns_from_one_noise_to_the_other() {
        let (a, b) = ([3.0, 1.0], [4.0, 0.0]);
        assert_eq!(retaken(&a, &b, 0.0), a);
        // cos(pi / 2) is 6e-17 in f64.
        for (x, y) in retaken(&a, &b, 1.0).iter().zip(b) {
            assert!((x - y).abs() < 1e-6, "{x} {y}");
        }
        // A third of a right angle: cos 30 = sqrt(3) / 2, sin 30 = 1 / 2.
        let third = retaken(&a, &b, 1.0 / 3.0);
        assert!((third[0] - (3.0 * 0.866_025_4 + 4.0 * 0.5)).abs() < 1e-6, "{third:?}");
        assert!((third[1] - 0.866_025_4).abs() < 1e-6, "{third:?}");
    }

    #[test]
    fn latents_are_scaled_before_they_are_shifted() {
        assert_eq!(adjusted(song(2.0), 3.0, 0.5).into_scalar(), 6.5);
        assert_eq!(adjusted(song(2.0), 1.0, 0.0).into_scalar(), 2.0);
    }
}
