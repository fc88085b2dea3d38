//! Snake activation: a smooth periodic nonlinearity for audio.
//!
//! `y = x + sin^2(a x) / (b + 1e-9)`, where `a = exp(alpha)` and `b = exp(beta)` per channel.
//!
//! Source: Ziyin et al. 2020, arXiv:2006.08195; diffusers `autoencoder_oobleck.py`, `Snake1d`.
//! Checkpoint: `*.snake{1,2}.{alpha,beta}`, each `[1, channels, 1]`.

use burn::{
    module::{Module, Param},
    tensor::Tensor,
};

use super::{ones, random};
use crate::{Backend, kernel};

/// Snake with a frequency and an amplitude per channel.
#[derive(Module, Debug)]
pub struct Snake<B: Backend> {
    alpha: Param<Tensor<B, 3>>,
    beta: Param<Tensor<B, 3>>,
}

impl<B: Backend> Snake<B> {
    /// Creates a snake for `channels` channels, near `a = b = 1`.
    pub fn init(channels: usize, device: &B::Device) -> Self {
        let near_zero = || random([1, channels, 1], 0.02, device);
        Self { alpha: near_zero(), beta: near_zero() }
    }

    /// # Shapes
    /// - `x`, output: `[B, channels, S]`
    pub fn forward(&self, x: Tensor<B, 3>) -> Tensor<B, 3> {
        kernel::snake(x, self.alpha.val(), self.beta.val())
    }

    /// Returns `alpha` and `beta`, for a kernel that fuses several layers.
    pub(crate) fn parts(&self) -> kernel::SnakeParams<B> {
        [self.alpha.val(), self.beta.val()]
    }
}

/// [`Snake`] whose parameters are `[channels]` in the checkpoint.
///
/// Source: `SnakeBeta` of BigVGAN, arXiv:2206.04658, in the layout of Qwen3-TTS-Tokenizer.
#[derive(Module, Debug)]
pub struct SnakeBeta<B: Backend> {
    alpha: Param<Tensor<B, 1>>,
    beta: Param<Tensor<B, 1>>,
}

impl<B: Backend> SnakeBeta<B> {
    /// Creates a snake for `channels` channels, near `a = b = 1`.
    pub fn init(channels: usize, device: &B::Device) -> Self {
        let near_zero = || random([channels], 0.02, device);
        Self { alpha: near_zero(), beta: near_zero() }
    }

    /// # Shapes
    /// - `x`, output: `[B, channels, S]`
    pub fn forward(&self, x: Tensor<B, 3>) -> Tensor<B, 3> {
        let [alpha, beta] = self.parts();
        kernel::snake(x, alpha, beta)
    }

    /// Returns it for a kernel that fuses several layers.
    pub(crate) fn fused(&self) -> kernel::ConvActivation<B> {
        kernel::ConvActivation::Snake(self.parts())
    }

    /// Returns `alpha` and `beta`, `[1, channels, 1]` each.
    pub(crate) fn parts(&self) -> kernel::SnakeParams<B> {
        [&self.alpha, &self.beta].map(|param| {
            let values = param.val();
            let [channels] = values.dims();
            values.reshape([1, channels, 1])
        })
    }
}

/// Snake with the parameter itself as frequency and amplitude, for the first half of the channels; the
/// others get a leaky ReLU.
///
/// Source: NeMo 3.0.0 `audio_codec_modules.py`, `HalfSnake`. Checkpoint: `*.snake_act.alpha`,
/// `[1, channels / 2, 1]`.
#[derive(Module, Debug)]
pub struct HalfSnake<B: Backend> {
    alpha: Param<Tensor<B, 3>>,
}

impl<B: Backend> HalfSnake<B> {
    /// Creates an activation for `channels` channels, with frequencies of one.
    pub fn init(channels: usize, device: &B::Device) -> Self {
        Self { alpha: ones([1, channels / 2, 1], device) }
    }

    /// # Shapes
    /// - `x`, output: `[B, channels, S]`
    pub fn forward(&self, x: Tensor<B, 3>) -> Tensor<B, 3> {
        kernel::half_snake(x, self.alpha.val())
    }

    /// Returns it for a kernel that fuses several layers.
    pub(crate) fn fused(&self) -> kernel::ConvActivation<B> {
        kernel::ConvActivation::HalfSnake(self.alpha.val())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_close, values};
    use burn_flex::Flex;

    /// From the formula in double precision: `x = 1, a = b = 1` gives `1 + sin^2(1) = 1.708073`;
    /// `x = 2, a = 2, b = e` gives `2 + sin^2(4) / e = 2.210703`.
    #[test]
    fn matches_the_formula() {
        let device = Default::default();
        let tensor = |a: f32, b: f32| Tensor::<Flex, 3>::from_data([[[a], [b]]], &device);
        let alpha = tensor(0.0, 2.0f32.ln());
        let y = kernel::snake(tensor(1.0, 2.0), alpha, tensor(0.0, 1.0));
        assert_close(&values(y), &[1.708_073, 2.210_703], 1e-6);
    }
}
