//! The decoder: latents to audio.
//!
//! Five stages, each a snake, a transposed convolution and three residual units of dilation 1, 3
//! and 9: 1 frame becomes 10, 60, 240, 960, 1920 samples. The output is not bounded.
//!
//! Checkpoint: `decoder.*` of the VAE.

use burn::{
    module::Module,
    tensor::{DType, Tensor},
};

use super::{
    Config,
    residual::{ResidualUnit, residual_units, same},
};
use crate::{
    Backend, NoTap, Tap,
    kernel::ConvGeometry,
    nn::{Conv1d, ConvTranspose1d, Snake},
};

/// The decoder.
#[derive(Module, Debug)]
pub struct Decoder<B: Backend> {
    conv1: Conv1d<B>,
    block: Vec<DecoderBlock<B>>,
    snake1: Snake<B>,
    conv2: Conv1d<B>,
}

#[derive(Module, Debug)]
struct DecoderBlock<B: Backend> {
    snake1: Snake<B>,
    conv_t1: ConvTranspose1d<B>,
    res_unit1: ResidualUnit<B>,
    res_unit2: ResidualUnit<B>,
    res_unit3: ResidualUnit<B>,
}

impl<B: Backend> Decoder<B> {
    /// Creates a decoder of the configured size.
    pub fn init(config: &Config, device: &B::Device) -> Self {
        let stages = config.stages(config.decoder_channels);
        let widest = stages.last().map_or(config.decoder_channels, |&(_, wide, _)| wide);
        let block = |&(narrow, wide, ratio): &(usize, usize, usize)| DecoderBlock {
            snake1: Snake::init(wide, device),
            conv_t1: ConvTranspose1d::init_with_bias(
                [wide, narrow],
                2 * ratio,
                ConvGeometry {
                    stride: ratio,
                    padding: [ratio.div_ceil(2); 2],
                    ..Default::default()
                },
                device,
            ),
            res_unit1: ResidualUnit::init(narrow, 1, device),
            res_unit2: ResidualUnit::init(narrow, 3, device),
            res_unit3: ResidualUnit::init(narrow, 9, device),
        };
        let latents = [config.decoder_input_channels, widest];
        Self {
            conv1: Conv1d::init_with_bias(latents, 7, same(7), device),
            block: stages.iter().rev().map(block).collect(),
            snake1: Snake::init(config.decoder_channels, device),
            conv2: Conv1d::init(
                [config.decoder_channels, config.audio_channels],
                7,
                same(7),
                device,
            ),
        }
    }

    /// Returns the decoder with filters prepacked by
    /// [`kernel::pack_filter`](crate::kernel::pack_filter), for decoding only. The result cannot be
    /// cast or saved.
    pub fn prepacked(self) -> Self {
        Self {
            conv1: self.conv1.prepacked(),
            block: self.block.into_iter().map(DecoderBlock::prepacked).collect(),
            snake1: self.snake1,
            conv2: self.conv2.prepacked(),
        }
    }

    /// # Shapes
    /// - `latents`: `[B, C, T]`
    /// - output: `[B, 2, 1920 T]`
    pub fn forward(&self, latents: Tensor<B, 3>) -> Tensor<B, 3> {
        self.forward_tapped(latents, &mut NoTap)
    }

    /// [`Self::forward`] that taps `conv1`, `block.i` and the parts of each block.
    pub fn forward_tapped(&self, latents: Tensor<B, 3>, tap: &mut impl Tap<B>) -> Tensor<B, 3> {
        // ANCHOR: decode
        // The first snake of a block is fused into the last sum before the block.
        let snake = |i: usize| self.block.get(i).map_or(&self.snake1, |block| &block.snake1);
        let x = self.conv1.enter(latents);
        tap.tap(format_args!("conv1"), &x);
        let mut x = snake(0).forward(x);
        for (index, block) in self.block.iter().enumerate() {
            x = block.forward(x, snake(index + 1), index, tap);
        }
        self.conv2.forward(x).cast(DType::F32)
        // ANCHOR_END: decode
    }
}

impl<B: Backend> DecoderBlock<B> {
    fn prepacked(self) -> Self {
        Self {
            snake1: self.snake1,
            conv_t1: self.conv_t1.prepacked(),
            res_unit1: self.res_unit1.prepacked(),
            res_unit2: self.res_unit2.prepacked(),
            res_unit3: self.res_unit3.prepacked(),
        }
    }

    /// Computes from the output of `snake1` to the output of `next`, the snake that follows.
    fn forward(
        &self,
        x: Tensor<B, 3>,
        next: &Snake<B>,
        index: usize,
        tap: &mut impl Tap<B>,
    ) -> Tensor<B, 3> {
        tap.tap(format_args!("block.{index}.snake1"), &x);
        let x = self.conv_t1.forward(x);
        tap.tap(format_args!("block.{index}.conv_t1"), &x);
        let units = [&self.res_unit1, &self.res_unit2, &self.res_unit3];
        residual_units(units, next, x, |unit, x| match unit {
            // The sum of the last unit is the output of the block.
            2 => tap.tap(format_args!("block.{index}"), x),
            _ => tap.tap(format_args!("block.{index}.res_unit{}", unit + 1), x),
        })
    }
}
