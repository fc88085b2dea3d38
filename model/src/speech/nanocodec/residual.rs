//! The chains of a stage: residual blocks of dilated causal convolutions.
//!
//! Source: NeMo 3.0.0 `audio_codec_modules.py`, `HiFiGANResLayer`, `HiFiGANResBlock` and
//! `ResidualBlock`.

use std::fmt::Arguments;

use burn::{module::Module, tensor::Tensor};

use super::DecoderConfig;
use crate::{
    Backend, Tap,
    kernel::{ConvGeometry, Precision},
    nn::{Conv1d, ConvState, HalfSnake},
};

/// `x + skip_conv(snake(input_conv(snake(x))))`.
#[derive(Module, Debug)]
struct Block<B: Backend> {
    input_activation: HalfSnake<B>,
    input_conv: Conv1d<B>,
    skip_activation: HalfSnake<B>,
    skip_conv: Conv1d<B>,
}

/// Blocks one after the other.
#[derive(Module, Debug)]
struct Chain<B: Backend> {
    res_blocks: Vec<Block<B>>,
}

/// Chains side by side; the result is their mean.
#[derive(Module, Debug)]
pub(super) struct Chains<B: Backend> {
    res_blocks: Vec<Chain<B>>,
}

/// The past of the signals of all chains.
#[derive(Debug, Clone, Default)]
pub(super) struct ChainsState<B: Backend>(Vec<[ConvState<B>; 2]>);

impl<B: Backend> Chains<B> {
    pub(super) fn init(config: &DecoderConfig, channels: usize, device: &B::Device) -> Self {
        let conv = |taps, dilation| {
            let geometry = ConvGeometry::causal(taps, dilation);
            Conv1d::init_with_bias([channels; 2], taps, geometry, device)
        };
        let block = |taps, dilation| Block {
            input_activation: HalfSnake::init(channels, device),
            input_conv: conv(taps, dilation),
            skip_activation: HalfSnake::init(channels, device),
            skip_conv: conv(taps, 1),
        };
        let chain = |&taps: &usize| Chain {
            res_blocks: config
                .resblock_dilation_sizes
                .iter()
                .map(|&dilation| block(taps, dilation))
                .collect(),
        };
        Self { res_blocks: config.resblock_kernel_sizes.iter().map(chain).collect() }
    }

    /// Returns it with prepacked filters.
    pub(super) fn prepacked(self, precision: Precision) -> Self {
        let block = |block: Block<B>| Block {
            input_conv: block.input_conv.prepacked_for(precision),
            skip_conv: block.skip_conv.prepacked_for(precision),
            ..block
        };
        let chain = |chain: Chain<B>| Chain {
            res_blocks: chain.res_blocks.into_iter().map(block).collect(),
        };
        Self { res_blocks: self.res_blocks.into_iter().map(chain).collect() }
    }

    /// Computes the next samples; taps `{name}.chain{k}`, `{name}.chain{k}.block{d}` and
    /// `{name}.chain{k}.block{d}.input_conv`.
    ///
    /// # Shapes
    /// - `x`, output: `[1, C, S]`
    pub(super) fn forward(
        &self,
        x: Tensor<B, 3>,
        state: &mut ChainsState<B>,
        name: Arguments<'_>,
        tap: &mut impl Tap<B>,
    ) -> Tensor<B, 3> {
        let blocks = self.res_blocks.iter().map(|chain| chain.res_blocks.len()).sum();
        state.0.resize_with(blocks, Default::default);
        let mut states = state.0.iter_mut();
        let mut sum: Option<Tensor<B, 3>> = None;
        for (k, chain) in self.res_blocks.iter().enumerate() {
            let mut y = x.clone();
            for ((d, block), [input, skip]) in
                chain.res_blocks.iter().enumerate().zip(states.by_ref())
            {
                let activation = block.input_activation.fused();
                let inner = block.input_conv.forward_next_fused(y.clone(), activation, None, input);
                tap.tap(format_args!("{name}.chain{k}.block{d}.input_conv"), &inner);
                let activation = block.skip_activation.fused();
                y = block.skip_conv.forward_next_fused(inner, activation, Some(y), skip);
                tap.tap(format_args!("{name}.chain{k}.block{d}"), &y);
            }
            tap.tap(format_args!("{name}.chain{k}"), &y);
            sum = Some(match sum {
                Some(sum) => sum + y,
                None => y,
            });
        }
        let mean = sum.unwrap_or(x) / self.res_blocks.len() as f64;
        tap.tap(name, &mean);
        mean
    }
}
