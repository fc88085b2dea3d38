//! The residual unit of both halves: `x + conv2(snake2(conv1(snake1(x))))`.

use burn::{module::Module, tensor::Tensor};

use crate::{
    Backend,
    kernel::{self, Geometry},
    nn::{Conv1d, Snake},
};

/// A wide dilated filter, then a mixing of channels.
#[derive(Module, Debug)]
pub(super) struct ResidualUnit<B: Backend> {
    snake1: Snake<B>,
    conv1: Conv1d<B>,
    snake2: Snake<B>,
    conv2: Conv1d<B>,
}

impl<B: Backend> ResidualUnit<B> {
    pub(super) fn init(channels: usize, dilation: usize, device: &B::Device) -> Self {
        let wide = Geometry { stride: 1, padding: 3 * dilation, dilation };
        Self {
            snake1: Snake::init(channels, device),
            conv1: Conv1d::init_with_bias([channels; 2], 7, wide, device),
            snake2: Snake::init(channels, device),
            conv2: Conv1d::init_with_bias([channels; 2], 1, same(1), device),
        }
    }

    /// # Shapes
    /// - `x`, output: `[B, channels, S]`
    pub(super) fn forward(&self, x: Tensor<B, 3>) -> Tensor<B, 3> {
        let y = self.conv1.forward(self.snake1.forward(x.clone()));
        kernel::add(x, self.conv2.forward(self.snake2.forward(y)))
    }
}

/// An undilated filter of `kernel` taps that keeps the length.
pub(super) fn same(kernel: usize) -> Geometry {
    Geometry { stride: 1, padding: kernel / 2, dilation: 1 }
}
