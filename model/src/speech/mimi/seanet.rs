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
    Backend, NoTap, Tap, kernel,
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
    /// One for each convolution, in their order.
    convs: Vec<ConvState<B>>,
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
        self.walk(x, |conv, x, taps| padded(conv, x, taps, Padding::Zeros), tap)
    }

    /// Computes the vectors of the next samples of a signal, a multiple of the product of the
    /// factors.
    ///
    /// # Shapes
    /// - `x`: `[1, 1, S]`
    /// - output: `[1, H, S / product of the factors]`
    pub(super) fn forward_next(&self, x: Tensor<B, 3>, state: &mut SeaNetState<B>) -> Tensor<B, 3> {
        let is_first = !std::mem::replace(&mut state.has_begun, true);
        state.convs.resize_with(3 * self.stages.len() + 2, Default::default);
        let mut convs = state.convs.iter_mut();
        let each = |conv: &Conv1d<B>, x, taps| {
            let past = convs.next().expect("a state for each convolution");
            next(conv, x, taps, Padding::Zeros, (is_first, past))
        };
        self.walk(x, each, &mut NoTap)
    }

    /// Applies the layers, with `conv` for a convolution of these taps and this stride.
    fn walk(
        &self,
        x: Tensor<B, 3>,
        mut conv: impl FnMut(&Conv1d<B>, Tensor<B, 3>, (usize, usize)) -> Tensor<B, 3>,
        tap: &mut impl Tap<B>,
    ) -> Tensor<B, 3> {
        let mut x = conv(&self.conv_in, x, (self.taps[0], 1));
        tap.tap(format_args!("seanet0"), &x);
        for (index, stage) in self.stages.iter().enumerate() {
            let [wide, narrow] = &stage.unit;
            let y = conv(wide, kernel::elu(x.clone()), (stage.taps, 1));
            x = x + conv(narrow, kernel::elu(y), (1, 1));
            tap.tap(format_args!("seanet{}", 3 * index + 1), &x);
            x = kernel::elu(x);
            tap.tap(format_args!("seanet{}", 3 * index + 2), &x);
            x = conv(&stage.conv, x, (2 * stage.stride, stage.stride));
            tap.tap(format_args!("seanet{}", 3 * index + 3), &x);
        }
        let (x, last) = (kernel::elu(x), 3 * self.stages.len() + 1);
        tap.tap(format_args!("seanet{last}"), &x);
        let x = conv(&self.conv_out, x, (self.taps[1], 1));
        tap.tap(format_args!("seanet{}", last + 1), &x);
        x
    }
}
