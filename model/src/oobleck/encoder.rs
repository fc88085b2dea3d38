//! The encoder: audio to latents.
//!
//! Five stages, each three residual units, a snake and a strided convolution. The output is a
//! normal distribution: `std = softplus(scale) + 1e-4`.
//!
//! Checkpoint: `encoder.*` of the VAE.

use burn::{
    module::Module,
    tensor::{DType, Tensor},
};

use super::{
    Config,
    residual::{ResidualUnit, resampling, residual_units, same},
};
use crate::{
    Backend, kernel,
    nn::{Conv1d, Snake},
};

impl Config {
    /// Returns one side of the encoder's receptive field in latent frames, 7 in the released models.
    /// A frame depends on the samples of this number of frames before it and after it.
    pub fn encoder_reach(&self) -> usize {
        // Filters of seven taps, one in each unit of a stage.
        let units = 3 * (1 + 3 + 9);
        // From the last layer to the first: the samples that are needed beyond those of the frame. A
        // strided convolution has `2 ratio` taps, which begin `ratio / 2` before the output's samples.
        let before = |after: usize, &ratio: &usize| after * ratio + ratio / 2 + units;
        let samples = self.downsampling_ratios.iter().rev().fold(1, before) + 3;
        samples.div_ceil(self.hop())
    }
}

/// The encoder.
#[derive(Module, Debug)]
pub struct Encoder<B: Backend> {
    conv1: Conv1d<B>,
    block: Vec<EncoderBlock<B>>,
    snake1: Snake<B>,
    conv2: Conv1d<B>,
}

#[derive(Module, Debug)]
struct EncoderBlock<B: Backend> {
    res_unit1: ResidualUnit<B>,
    res_unit2: ResidualUnit<B>,
    res_unit3: ResidualUnit<B>,
    snake1: Snake<B>,
    conv1: Conv1d<B>,
}

/// The distribution of latents that an audio signal was encoded to.
#[derive(Debug, Clone)]
pub struct Posterior<B: Backend> {
    /// `[B, C, T]`
    pub mean: Tensor<B, 3>,
    /// The raw second half of the output, `[B, C, T]`; see [`Self::std`].
    pub scale: Tensor<B, 3>,
}

impl<B: Backend> Posterior<B> {
    /// Returns the standard deviation, `[B, C, T]`.
    pub fn std(&self) -> Tensor<B, 3> {
        kernel::softplus(self.scale.clone()) + 1e-4
    }

    /// Returns `mean + std noise`, all of the same shape. Upstream samples where this project uses
    /// the mean.
    pub fn sample(&self, noise: Tensor<B, 3>) -> Tensor<B, 3> {
        self.mean.clone() + self.std() * noise
    }
}

impl<B: Backend> Encoder<B> {
    /// Creates an encoder of the configured size.
    pub fn init(config: &Config, device: &B::Device) -> Self {
        let stages = config.stages(config.encoder_hidden_size);
        let widest = stages.last().map_or(config.encoder_hidden_size, |&(_, wide, _)| wide);
        let block = |&(narrow, wide, ratio): &(usize, usize, usize)| EncoderBlock {
            res_unit1: ResidualUnit::init(narrow, 1, device),
            res_unit2: ResidualUnit::init(narrow, 3, device),
            res_unit3: ResidualUnit::init(narrow, 9, device),
            snake1: Snake::init(narrow, device),
            conv1: Conv1d::init_with_bias([narrow, wide], 2 * ratio, resampling(ratio), device),
        };
        let sound = [config.audio_channels, config.encoder_hidden_size];
        Self {
            conv1: Conv1d::init_with_bias(sound, 7, same(7), device),
            block: stages.iter().map(block).collect(),
            snake1: Snake::init(widest, device),
            conv2: Conv1d::init_with_bias([widest, config.encoder_hidden_size], 3, same(3), device),
        }
    }

    /// Returns the encoder with prepacked filters, like
    /// [`Decoder::prepacked`](super::Decoder::prepacked).
    pub fn prepacked(self) -> Self {
        Self {
            conv1: self.conv1.prepacked(),
            block: self.block.into_iter().map(EncoderBlock::prepacked).collect(),
            snake1: self.snake1,
            conv2: self.conv2.prepacked(),
        }
    }

    /// Encodes audio; samples after the last whole frame are dropped.
    ///
    /// # Shapes
    /// - `sound`: `[B, 2, S]`
    /// - output: `[B, C, S / 1920]`
    pub fn forward(&self, sound: Tensor<B, 3>) -> Posterior<B> {
        let x = self.conv1.enter(sound);
        let x = self.block.iter().fold(x, |x, block| block.forward(x));
        let x = self.conv2.forward(self.snake1.forward(x)).cast(DType::F32);
        let half = x.dims()[1] / 2;
        Posterior { mean: x.clone().narrow(1, 0, half), scale: x.narrow(1, half, half) }
    }
}

impl<B: Backend> EncoderBlock<B> {
    fn prepacked(self) -> Self {
        Self {
            res_unit1: self.res_unit1.prepacked(),
            res_unit2: self.res_unit2.prepacked(),
            res_unit3: self.res_unit3.prepacked(),
            snake1: self.snake1,
            conv1: self.conv1.prepacked(),
        }
    }

    fn forward(&self, x: Tensor<B, 3>) -> Tensor<B, 3> {
        let units = [&self.res_unit1, &self.res_unit2, &self.res_unit3];
        self.conv1.forward(residual_units(units, &self.snake1, x, |_, _| {}))
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::tests::config;

    /// Released models, by hand: 1 of the last filter, then 10 + 5 + 39 = 54, 324 + 3 + 39 = 366,
    /// 1464 + 2 + 39 = 1505, 6020 + 2 + 39 = 6061, 12122 + 1 + 39 = 12162, and 3 of the first filter:
    /// 6.3 frames of 1920.
    #[test]
    fn a_frame_depends_on_seven_frames_of_sound_on_each_side() {
        assert_eq!(config(&[2, 4, 4, 6, 10], 4).encoder_reach(), 7);
    }
}
