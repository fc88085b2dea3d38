//! Finite scalar quantisation: a code is a digit of each dimension, and a digit is a value.
//!
//! `code = sum_d digit_d base_d`, `value_d = (digit_d - L_d / 2) / (L_d / 2)` with whole numbers.
//!
//! Source: Mentzer et al. 2023, arXiv:2309.15505; NeMo 3.0.0 `audio_codec_modules.py`,
//! `FiniteScalarQuantizer`.

use burn::tensor::{Int, Tensor};

use crate::Backend;

/// The codes of one codebook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScalarQuantizer {
    levels: Vec<u32>,
}

impl ScalarQuantizer {
    /// Creates a codebook with `levels` of at least 2 in each dimension.
    pub fn new(levels: Vec<u32>) -> Self {
        Self { levels }
    }

    /// Returns the number of dimensions.
    pub fn dimensions(&self) -> usize {
        self.levels.len()
    }

    /// Returns the number of codes.
    pub fn codes(&self) -> usize {
        self.levels.iter().map(|&level| level as usize).product()
    }

    /// Returns the levels of each dimension, each with the value of its digit 1.
    pub fn digits(&self) -> impl Iterator<Item = (u32, u32)> {
        self.levels.iter().scan(1, |base, &level| {
            let own = *base;
            *base *= level;
            Some((level, own))
        })
    }

    /// Returns the values of a code.
    pub fn values(&self, code: u32) -> Vec<f32> {
        let value = |(level, base): (u32, u32)| {
            let half = (level / 2) as f32;
            ((code / base % level) as f32 - half) / half
        };
        self.digits().map(value).collect()
    }

    /// Returns the value of dimension `dimension` before rounding: `s tanh(x + tan(o / s)) - o`,
    /// with `s = 0.999 (L - 1) / 2` and `o = 1/2` for an even `L`, else 0.
    pub fn compressed(&self, dimension: usize, x: f32) -> f32 {
        let level = self.levels[dimension];
        let scale = (f64::from(level) - 1.0) / 2.0 * (1.0 - 1e-3);
        let offset = if level.is_multiple_of(2) { 0.5 } else { 0.0 };
        let shift = (offset / scale).tan() as f32;
        scale as f32 * (x + shift).tanh() - offset as f32
    }

    /// Returns the code nearest to a latent, one value per dimension.
    pub fn code(&self, latent: &[f32]) -> u32 {
        let digit = |(dimension, (level, base)): (usize, (u32, u32))| {
            let rounded = self.compressed(dimension, latent[dimension]).round_ties_even();
            (rounded as i64 + i64::from(level / 2)) as u32 * base
        };
        self.digits().enumerate().map(digit).sum()
    }

    /// Returns the latent of frames of codes.
    ///
    /// # Shapes
    /// - `codes`: `[G, F]`, less than [`Self::codes`] each
    /// - output: `[1, G dimensions, F]`, f32
    pub fn latent<B: Backend>(&self, codes: Tensor<B, 2, Int>) -> Tensor<B, 3> {
        let [groups, frames] = codes.dims();
        let value = |(level, base): (u32, u32)| {
            let digit =
                codes.clone().div_scalar(i64::from(base)).remainder_scalar(i64::from(level));
            let half = f64::from(level / 2);
            ((digit.float() - half) / half).unsqueeze_dim::<3>(1) // [G, 1, F]
        };
        Tensor::cat(self.digits().map(value).collect(), 1).reshape([
            1,
            groups * self.dimensions(),
            frames,
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: 1234 = 2 + 8 (0 + 7 (4 + 6 * 3)) with levels 8, 7, 6, 6.
    #[test]
    fn a_code_is_the_digits_of_its_values() {
        let quantizer = ScalarQuantizer::new(vec![8, 7, 6, 6]);
        assert_eq!(quantizer.codes(), 2016);
        assert_eq!(quantizer.values(1234), [-0.5, -1.0, 1.0 / 3.0, 0.0]);
        assert_eq!(quantizer.values(0), [-1.0; 4]);
        assert_eq!(quantizer.values(2015), [0.75, 1.0, 2.0 / 3.0, 2.0 / 3.0]);
    }

    /// An even number of levels has no level in the middle of the rounded ones.
    #[test]
    fn a_latent_of_zeros_has_the_code_of_zeros() {
        let quantizer = ScalarQuantizer::new(vec![8, 7, 6, 6]);
        let zero = quantizer.code(&[0.0; 4]);
        assert_eq!(quantizer.values(zero), [0.0; 4]);
        assert_eq!(quantizer.code(&[9.0; 4]), 2015);
        assert_eq!(quantizer.code(&[-9.0; 4]), 0);
    }
}
