//! The residual unit of encoder and decoder: `x + conv2(snake2(conv1(snake1(x))))`.
//!
//! Source: diffusers `autoencoder_oobleck.py`, `OobleckResidualUnit`.

use burn::{module::Module, tensor::Tensor};

use crate::{
    Backend,
    kernel::{self, ConvGeometry, UnitTensors},
    nn::{Conv1d, Snake},
};

/// A wide dilated filter, then a 1x1 convolution that mixes channels.
#[derive(Module, Debug)]
pub(super) struct ResidualUnit<B: Backend> {
    snake1: Snake<B>,
    conv1: Conv1d<B>,
    snake2: Snake<B>,
    conv2: Conv1d<B>,
}

impl<B: Backend> ResidualUnit<B> {
    pub(super) fn init(channels: usize, dilation: usize, device: &B::Device) -> Self {
        let wide = ConvGeometry { padding: [3 * dilation; 2], dilation, ..Default::default() };
        Self {
            snake1: Snake::init(channels, device),
            conv1: Conv1d::init_with_bias([channels; 2], 7, wide, device),
            snake2: Snake::init(channels, device),
            conv2: Conv1d::init_with_bias([channels; 2], 1, same(1), device),
        }
    }

    pub(super) fn prepacked(self) -> Self {
        Self { conv1: self.conv1.prepacked(), conv2: self.conv2.prepacked(), ..self }
    }

    fn parts(&self) -> UnitTensors<B> {
        UnitTensors {
            snake1: self.snake1.parts(),
            conv1: self.conv1.parts(),
            snake2: self.snake2.parts(),
            conv2: self.conv2.parts(),
        }
    }
}

/// Applies units one after the other, then the snake of the next layer. `tap` receives the number
/// of each unit and the sum after it.
///
/// # Shapes
/// - `x`, output: `[B, channels, S]`
pub(super) fn residual_units<B: Backend>(
    units: [&ResidualUnit<B>; 3],
    next: &Snake<B>,
    x: Tensor<B, 3>,
    tap: impl FnMut(usize, &Tensor<B, 3>),
) -> Tensor<B, 3> {
    let units = units.into_iter().map(ResidualUnit::parts).collect();
    kernel::residual_units(x, units, next.parts(), tap)
}

/// Returns the geometry of an undilated filter of `kernel` taps that keeps the length.
pub(super) fn same(kernel: usize) -> ConvGeometry {
    ConvGeometry { padding: [kernel / 2; 2], ..Default::default() }
}

/// Returns the geometry of a filter of `2 ratio` taps that changes the rate by `ratio`.
pub(super) fn resampling(ratio: usize) -> ConvGeometry {
    ConvGeometry { stride: ratio, padding: [ratio.div_ceil(2); 2], ..Default::default() }
}
