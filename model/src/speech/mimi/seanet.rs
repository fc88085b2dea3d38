//! SEANet's encoder: sound to vectors at 25 Hz, whole or in chunks.
//!
//! Source: Tagliasacchi et al. 2020, arXiv:2009.02095; transformers `MimiEncoder`.
//! Checkpoint: `encoder.layers.*` of Mimi.

use burn::{module::Module, tensor::Tensor};

use super::{
    Config,
    padding::{Padding, next, padded, strided},
};
use crate::{
    Backend, Tap, kernel,
    nn::{Conv1d, ConvState},
};

/// The convolutions of the encoder.
#[derive(Module, Debug)]
pub(super) struct SeaNet<B: Backend> {
    conv_in: Conv1d<B>,
    stages: Vec<EncoderBlock<B>>,
    conv_out: Conv1d<B>,
    /// Taps of the first and the last convolution.
    taps: [usize; 2],
}

/// A residual unit and a strided convolution.
#[derive(Module, Debug)]
struct EncoderBlock<B: Backend> {
    /// Wide, then 1x1.
    unit: [Conv1d<B>; 2],
    conv: Conv1d<B>,
    taps: usize,
    stride: usize,
}

/// The past of a signal.
#[derive(Debug, Clone, Default)]
pub(super) struct SeaNetState<B: Backend> {
    conv_in: ConvState<B>,
    /// Of each stage: the wide convolution of the unit, the strided one.
    stages: Vec<[ConvState<B>; 2]>,
    conv_out: ConvState<B>,
    has_begun: bool,
}

impl<B: Backend> SeaNet<B> {
    pub(super) fn init(config: &Config, device: &B::Device) -> Self {
        let conv = |channels, taps, stride| {
            Conv1d::init_with_bias(channels, taps, strided(stride), device)
        };
        let stage = |(index, &stride): (usize, &usize)| {
            let channels = config.num_filters << index;
            let inner = channels / config.compress;
            let taps = config.residual_kernel_size;
            EncoderBlock {
                unit: [conv([channels, inner], taps, 1), conv([inner, channels], 1, 1)],
                conv: conv([channels, 2 * channels], 2 * stride, stride),
                taps,
                stride,
            }
        };
        let ratios = &config.upsampling_ratios;
        let widest = config.num_filters << ratios.len();
        let taps = [config.kernel_size, config.last_kernel_size];
        Self {
            conv_in: conv([1, config.num_filters], taps[0], 1),
            stages: ratios.iter().rev().enumerate().map(stage).collect(),
            conv_out: conv([widest, config.hidden_size], taps[1], 1),
            taps,
        }
    }

    /// Computes the vectors; taps `seanet{i}` with the numbers of the checkpoint's layers.
    ///
    /// # Shapes
    /// - `x`: `[1, 1, S]`
    /// - output: `[1, H, ceil(S / product of the factors)]`
    pub(super) fn forward(&self, x: Tensor<B, 3>, tap: &mut impl Tap<B>) -> Tensor<B, 3> {
        let zeros = Padding::Zeros;
        let mut x = padded(&self.conv_in, x, (self.taps[0], 1), zeros);
        tap.tap(format_args!("seanet0"), &x);
        for (index, stage) in self.stages.iter().enumerate() {
            let [wide, narrow] = &stage.unit;
            let y = padded(wide, kernel::elu(x.clone()), (stage.taps, 1), zeros);
            x = x + padded(narrow, kernel::elu(y), (1, 1), zeros);
            tap.tap(format_args!("seanet{}", 3 * index + 1), &x);
            x = kernel::elu(x);
            tap.tap(format_args!("seanet{}", 3 * index + 2), &x);
            let taps = (2 * stage.stride, stage.stride);
            x = padded(&stage.conv, x, taps, zeros);
            tap.tap(format_args!("seanet{}", 3 * index + 3), &x);
        }
        let (x, last) = (kernel::elu(x), 3 * self.stages.len() + 1);
        tap.tap(format_args!("seanet{last}"), &x);
        let x = padded(&self.conv_out, x, (self.taps[1], 1), zeros);
        tap.tap(format_args!("seanet{}", last + 1), &x);
        x
    }

    /// Computes the vectors of the next samples of a signal, a multiple of the product of the
    /// factors.
    ///
    /// # Shapes
    /// - `x`: `[1, 1, S]`
    /// - output: `[1, H, S / product of the factors]`
    pub(super) fn forward_next(&self, x: Tensor<B, 3>, state: &mut SeaNetState<B>) -> Tensor<B, 3> {
        let (zeros, is_first) = (Padding::Zeros, !state.has_begun);
        state.has_begun = true;
        state.stages.resize_with(self.stages.len(), Default::default);
        let taps = (self.taps[0], 1);
        let mut x = next(&self.conv_in, x, taps, zeros, (is_first, &mut state.conv_in));
        for (stage, [of_unit, of_conv]) in self.stages.iter().zip(&mut state.stages) {
            let [wide, narrow] = &stage.unit;
            let taps = (stage.taps, 1);
            let y = next(wide, kernel::elu(x.clone()), taps, zeros, (is_first, of_unit));
            x = x + narrow.forward(kernel::elu(y));
            let taps = (2 * stage.stride, stage.stride);
            x = next(&stage.conv, kernel::elu(x), taps, zeros, (is_first, of_conv));
        }
        let taps = (self.taps[1], 1);
        next(&self.conv_out, kernel::elu(x), taps, zeros, (is_first, &mut state.conv_out))
    }
}
