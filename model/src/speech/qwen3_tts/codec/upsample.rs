//! An up-sampling stage: a transposed convolution, then a ConvNeXt block.
//!
//! Source: upstream `Qwen3TTSTokenizerV2ConvNeXtBlock`; Liu et al. 2022, arXiv:2201.03545.
//! Checkpoint: `decoder.upsample.*`.

use burn::{
    module::{Module, Param},
    tensor::Tensor,
};

use crate::{
    Backend,
    kernel::{self, ConvGeometry},
    nn::{
        Archive, Conv1d, ConvState, ConvTranspose1d, ForeignState, Linear, Norm, NormKind, random,
    },
};

/// Epsilon of the layer norm, a constant of the reference.
const EPSILON: f64 = 1e-6;
/// Samples that are multiplied at once. Kernels compute each of so few rows alone, so the result of a
/// sample does not depend on the number of samples that arrived with it.
const PIECE: usize = 16;
/// Taps of the depthwise convolution.
const TAPS: usize = 7;

/// An up-sampling stage.
#[derive(Module, Debug)]
pub(super) struct Upsample<B: Backend> {
    conv: ConvTranspose1d<B>,
    convnext: ConvNeXt<B>,
}

/// `x + gamma pwconv2(gelu(pwconv1(norm(dwconv(x)))))`.
#[derive(Module, Debug)]
struct ConvNeXt<B: Backend> {
    dwconv: Conv1d<B>,
    norm: Norm<B>,
    pwconv1: Linear<B>,
    pwconv2: Linear<B>,
    gamma: Param<Tensor<B, 1>>,
}

/// The past of a stage.
#[derive(Debug, Clone, Default)]
pub(super) struct UpsampleState<B: Backend> {
    conv: ConvState<B>,
    dwconv: ConvState<B>,
}

impl<B: Backend> Upsample<B> {
    pub(super) fn visit(
        &self,
        state: &mut UpsampleState<B>,
        archive: &mut Archive<'_, B>,
    ) -> Result<(), ForeignState> {
        self.conv.visit(&mut state.conv, archive)?;
        self.convnext.dwconv.visit(&mut state.dwconv, archive)
    }

    pub(super) fn init(channels: usize, factor: usize, device: &B::Device) -> Self {
        let depthwise = ConvGeometry { groups: channels, ..ConvGeometry::causal(TAPS, 1) };
        let geometry = ConvGeometry::causal_transposed(factor, factor);
        Self {
            conv: ConvTranspose1d::init_with_bias([channels; 2], factor, geometry, device),
            convnext: ConvNeXt {
                dwconv: Conv1d::init_with_bias([channels; 2], TAPS, depthwise, device),
                norm: Norm::init(NormKind::Layer { bias: true }, channels, EPSILON, device),
                pwconv1: Linear::init_with_bias(channels, 4 * channels, device),
                pwconv2: Linear::init_with_bias(4 * channels, channels, device),
                gamma: random([channels], 0.5, device),
            },
        }
    }

    pub(super) fn prepacked(self) -> Self {
        Self { conv: self.conv.prepacked(), ..self }
    }

    /// # Shapes
    /// - `x`: `[1, channels, S]`
    /// - output: `[1, channels, factor S]`
    pub(super) fn forward(&self, x: Tensor<B, 3>, state: &mut UpsampleState<B>) -> Tensor<B, 3> {
        let x = self.conv.forward_next(x, &mut state.conv);
        let block = &self.convnext;
        let y = block.dwconv.forward_next(x.clone(), &mut state.dwconv).swap_dims(1, 2);
        let y = block.norm.forward(y);
        let samples = y.dims()[1];
        let pieces = (0..samples).step_by(PIECE).map(|first| {
            let piece = y.clone().narrow(1, first, PIECE.min(samples - first));
            block.pwconv2.forward(kernel::gelu(block.pwconv1.forward(piece)))
        });
        let y = Tensor::cat(pieces.collect(), 1);
        x + (y * block.gamma.val().unsqueeze()).swap_dims(1, 2)
    }
}
