//! Differential correction in the wavelet domain (DCW).
//!
//! A sampler's latents are slightly noisier or less noisy than the time implies. After each step
//! they are pushed away from the music that the velocity predicts, with one factor for low
//! frequencies and one for high frequencies: `L(x) += a (L(x) - L(y))`, `H(x) += b (H(x) - H(y))`.
//! `L` and `H` are means and half differences of neighbouring frames (Haar wavelets in time).
//!
//! Source: Yu et al. 2026, arXiv:2604.16044; upstream `acestep/models/common/dcw_correction.py`;
//! acestep.cpp `dwt-haar.h`.

use acestep_model::Backend;
use burn::tensor::Tensor;
use serde::Serialize;

use crate::named::named;

named! {
    /// Frequencies that are corrected, by upstream's names.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum DcwMode {
        /// Low frequencies, by `t scaler`.
        Low = "low",
        /// High frequencies, by `(1 - t) scaler`.
        High = "high",
        /// Both, by `t scaler` and `(1 - t) high_scaler`.
        Double = "double",
        /// All frequencies by `scaler`, at all times.
        Pix = "pix",
    }
}

/// Mode and strength of the correction.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Dcw {
    /// Frequencies to correct.
    pub mode: DcwMode,
    /// Strength.
    pub scaler: f32,
    /// Strength for high frequencies in [`DcwMode::Double`].
    pub high_scaler: f32,
}

impl Dcw {
    /// Returns the factors of low and high frequencies after a step that began at time `t`.
    fn factors(&self, t: f32) -> (f32, f32) {
        match self.mode {
            DcwMode::Low => (t * self.scaler, 0.0),
            DcwMode::High => (0.0, (1.0 - t) * self.scaler),
            DcwMode::Double => (t * self.scaler, (1.0 - t) * self.high_scaler),
            DcwMode::Pix => (self.scaler, self.scaler),
        }
    }

    /// Returns the latents after a step that began at time `t`, pushed away from `music`.
    ///
    /// The Haar transform is linear, so the correction is computed on `x - music` and added to `x`.
    /// An odd last frame is paired with zeros.
    ///
    /// # Shapes
    /// - `x`, `music`, output: `[B, T, C]`
    // ANCHOR: dcw
    pub fn corrected<B: Backend>(
        &self,
        x: Tensor<B, 3>,
        music: Tensor<B, 3>,
        t: f32,
    ) -> Tensor<B, 3> {
        let [batch, frames, channels] = x.dims();
        let (low, high) = self.factors(t);
        let mut difference = x.clone() - music;
        if frames % 2 == 1 {
            let silent = Tensor::zeros([batch, 1, channels], &x.device());
            difference = Tensor::cat(vec![difference, silent], 1);
        }
        let pairs = difference.reshape([batch, frames.div_ceil(2), 2, channels]);
        let (first, second) = (pairs.clone().narrow(2, 0, 1), pairs.narrow(2, 1, 1));
        let mean = (first.clone() + second.clone()) * (low / 2.0);
        let half = (first - second) * (high / 2.0);
        let pairs = Tensor::cat(vec![mean.clone() + half.clone(), mean - half], 2);
        x + pairs.reshape([batch, frames.div_ceil(2) * 2, channels]).narrow(1, 0, frames)
    }
    // ANCHOR_END: dcw
}

#[cfg(test)]
mod tests {
    use burn_flex::Flex;

    use super::*;
    use crate::test_goldens::frames as song;

    fn wave(frames: usize, seed: f64) -> Vec<f64> {
        (0..frames).map(|i| ((i as f64 + 1.0) * seed).sin() * 2.0).collect()
    }

    /// Textbook Haar transform and its inverse, in f64.
    fn by_wavelets(x: &[f64], y: &[f64], low: f64, high: f64) -> Vec<f64> {
        let root = 0.5f64.sqrt();
        let at = |z: &[f64], i: usize| z.get(i).copied().unwrap_or(0.0);
        let bands = |z: &[f64], i: usize| {
            let (a, b) = (at(z, 2 * i), at(z, 2 * i + 1));
            ((a + b) * root, (a - b) * root)
        };
        let pair = |i: usize| {
            let ((xl, xh), (yl, yh)) = (bands(x, i), bands(y, i));
            let (l, h) = (xl + low * (xl - yl), xh + high * (xh - yh));
            [(l + h) * root, (l - h) * root]
        };
        let mut out: Vec<f64> = (0..x.len().div_ceil(2)).flat_map(pair).collect();
        out.truncate(x.len());
        out
    }

    #[test]
    fn every_mode_equals_the_transform_written_out() {
        let t = 0.7;
        for frames in [1, 6, 7] {
            let (x, y) = (wave(frames, 0.9), wave(frames, 0.4));
            for (mode, low, high) in [
                (DcwMode::Low, 0.7 * 0.3, 0.0),
                (DcwMode::High, 0.0, 0.3 * 0.3),
                (DcwMode::Double, 0.7 * 0.3, 0.3 * 0.2),
                (DcwMode::Pix, 0.3, 0.3),
            ] {
                let dcw = Dcw { mode, scaler: 0.3, high_scaler: 0.2 };
                let song = |z: &[f64]| song(&z.iter().map(|&z| z as f32).collect::<Vec<_>>());
                let ours = dcw.corrected(song(&x), song(&y), t).into_data().to_vec::<f32>();
                let expected = by_wavelets(&x, &y, low, high);
                for (a, b) in ours.expect("f32").iter().zip(&expected) {
                    assert!((f64::from(*a) - b).abs() < 1e-6, "{mode:?} {frames}: {a} {b}");
                }
            }
        }
    }

    #[test]
    fn songs_and_channels_are_corrected_alone() {
        let x = Tensor::<Flex, 3>::from_data(
            [[[1., 10.], [3., 30.]], [[0., 0.], [0., 8.]]],
            &Default::default(),
        );
        let dcw = Dcw { mode: DcwMode::Low, scaler: 1.0, high_scaler: 0.0 };
        let out = dcw.corrected(x.clone(), x.zeros_like(), 0.5);
        let out = out.into_data().to_vec::<f32>().expect("f32");
        assert_eq!(out, [2., 20., 4., 40., 0., 2., 0., 10.]);
    }
}
