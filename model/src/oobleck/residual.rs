//! The residual unit of both halves: `x + conv2(snake2(conv1(snake1(x))))`.

use burn::{module::Module, tensor::Tensor};

use crate::{
    Backend,
    kernel::Geometry,
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

    /// What the unit adds to `x`, from the snake of `x` by its own `snake1`.
    fn branch(&self, active: Tensor<B, 3>) -> Tensor<B, 3> {
        self.conv2.forward(self.snake2.forward(self.conv1.forward(active)))
    }
}

/// Units one after the other, then the snake of what follows them: each sum and the snake after it
/// are one operation. `tap` is shown the sum after each unit, by its number.
///
/// # Shapes
/// - `x`, output: `[B, channels, S]`
pub(super) fn residual_units<B: Backend>(
    units: [&ResidualUnit<B>; 3],
    next: &Snake<B>,
    x: Tensor<B, 3>,
    mut tap: impl FnMut(usize, &Tensor<B, 3>),
) -> Tensor<B, 3> {
    let mut active = units[0].snake1.forward(x.clone());
    let mut x = x;
    for (index, unit) in units.into_iter().enumerate() {
        let next = units.get(index + 1).map_or(next, |unit| &unit.snake1);
        [x, active] = next.after_sum(x, unit.branch(active));
        tap(index, &x);
    }
    active
}

/// An undilated filter of `kernel` taps that keeps the length.
pub(super) fn same(kernel: usize) -> Geometry {
    Geometry { stride: 1, padding: kernel / 2, dilation: 1 }
}
