//! SEANet's decoder: vectors at 25 Hz to sound, in chunks of any sizes.
//!
//! Source: Tagliasacchi et al. 2020, arXiv:2009.02095; transformers `MimiDecoder`.
//! Checkpoint: `decoder.layers.*` of Mimi.

use burn::{module::Module, tensor::Tensor};

use super::Config;
use crate::{
    Backend, Tap,
    kernel::{self, ConvActivation, ConvGeometry, Precision},
    nn::{Archive, Conv1d, ConvState, ConvTranspose1d, ForeignState},
};

/// The convolutions of the decoder.
#[derive(Module, Debug)]
pub(super) struct SeaNetDecoder<B: Backend> {
    conv_in: Conv1d<B>,
    stages: Vec<DecoderBlock<B>>,
    conv_out: Conv1d<B>,
}

/// A transposed convolution and a residual unit.
#[derive(Module, Debug)]
struct DecoderBlock<B: Backend> {
    conv: ConvTranspose1d<B>,
    /// Wide, then 1x1.
    unit: [Conv1d<B>; 2],
}

/// The past of a signal.
#[derive(Debug, Clone, Default)]
pub(super) struct SeaNetDecoderState<B: Backend> {
    conv_in: ConvState<B>,
    /// Of each stage: the transposed convolution, the wide convolution of the unit.
    stages: Vec<[ConvState<B>; 2]>,
    conv_out: ConvState<B>,
}

impl<B: Backend> SeaNetDecoder<B> {
    pub(super) fn init(config: &Config, device: &B::Device) -> Self {
        let ratios = &config.upsampling_ratios;
        let conv = |channels, taps| {
            Conv1d::init_with_bias(channels, taps, ConvGeometry::causal(taps, 1), device)
        };
        let stage = |(index, &stride): (usize, &usize)| {
            let wide = config.num_filters << (ratios.len() - index);
            let (channels, taps) = (wide / 2, 2 * stride);
            let inner = channels / config.compress;
            let geometry = ConvGeometry::causal_transposed(taps, stride);
            let residual = config.residual_kernel_size;
            DecoderBlock {
                conv: ConvTranspose1d::init_with_bias([wide, channels], taps, geometry, device),
                unit: [conv([channels, inner], residual), conv([inner, channels], 1)],
            }
        };
        let widest = config.num_filters << ratios.len();
        Self {
            conv_in: conv([config.hidden_size, widest], config.kernel_size),
            stages: ratios.iter().enumerate().map(stage).collect(),
            conv_out: conv([config.num_filters, 1], config.last_kernel_size),
        }
    }

    /// Returns it with filters that are prepacked for this precision.
    pub(super) fn prepacked(self, precision: Precision) -> Self {
        let conv = |conv: Conv1d<B>| conv.prepacked_for(precision);
        let stage = |stage: DecoderBlock<B>| DecoderBlock {
            conv: stage.conv.prepacked_for(precision),
            unit: stage.unit.map(conv),
        };
        Self {
            conv_in: conv(self.conv_in),
            stages: self.stages.into_iter().map(stage).collect(),
            conv_out: conv(self.conv_out),
        }
    }

    /// Computes the next samples of a signal; taps `seanet{i}` with the numbers of the checkpoint's
    /// layers, those of the activations included.
    ///
    /// # Shapes
    /// - `x`: `[1, H, T]`
    /// - output: `[1, 1, product of the factors T]`
    pub(super) fn forward(
        &self,
        x: Tensor<B, 3>,
        state: &mut SeaNetDecoderState<B>,
        tap: &mut impl Tap<B>,
    ) -> Tensor<B, 3> {
        state.stages.resize_with(self.stages.len(), Default::default);
        let mut x = self.conv_in.forward_next(x, &mut state.conv_in);
        tap.tap(format_args!("seanet0"), &x);
        for (index, (stage, past)) in self.stages.iter().zip(&mut state.stages).enumerate() {
            let ([of_conv, of_unit], first) = (past, 3 * index + 1);
            x = kernel::elu(x);
            tap.tap(format_args!("seanet{first}"), &x);
            x = stage.conv.forward_next(x, of_conv);
            tap.tap(format_args!("seanet{}", first + 1), &x);
            let [wide, narrow] = &stage.unit;
            let y = wide.forward_next_fused(x.clone(), ConvActivation::Elu, None, of_unit);
            // One tap has no past.
            let past = &mut ConvState::default();
            x = narrow.forward_next_fused(y, ConvActivation::Elu, Some(x), past);
            tap.tap(format_args!("seanet{}", first + 2), &x);
        }
        let last = 3 * self.stages.len() + 1;
        let x = kernel::elu(x);
        tap.tap(format_args!("seanet{last}"), &x);
        let x = self.conv_out.forward_next(x, &mut state.conv_out);
        tap.tap(format_args!("seanet{}", last + 1), &x);
        x
    }

    pub(super) fn visit(
        &self,
        state: &mut SeaNetDecoderState<B>,
        archive: &mut Archive<'_, B>,
    ) -> Result<(), ForeignState> {
        state.stages.resize_with(self.stages.len(), Default::default);
        self.conv_in.visit(&mut state.conv_in, archive)?;
        for (stage, [of_conv, of_unit]) in self.stages.iter().zip(&mut state.stages) {
            stage.conv.visit(of_conv, archive)?;
            stage.unit[0].visit(of_unit, archive)?;
        }
        self.conv_out.visit(&mut state.conv_out, archive)
    }
}
