//! Residual units of the VAE.
//!
//! Source: diffusers `autoencoder_oobleck.py`, `OobleckResidualUnit`.

use burn::tensor::Tensor;

use super::{Backend, ConvGeometry, Weight, add_snake, conv1d, primitive, snake, tensor};

/// Parameters of a snake: `alpha` and `beta`, each `[1, channels, 1]`.
pub type SnakeParams<B> = [Tensor<B, 3>; 2];

/// A convolution: weight `[out, in, k]`, bias `[out]`.
pub type Convolution<B> = (Weight<B, 3>, Option<Tensor<B, 1>>, ConvGeometry);

/// `x + conv2(snake2(conv1(snake1(x))))`; both convolutions keep channels and length.
#[derive(Debug, Clone)]
pub struct UnitTensors<B: Backend> {
    /// The first snake.
    pub snake1: SnakeParams<B>,
    /// The wide filter.
    pub conv1: Convolution<B>,
    /// The second snake.
    pub snake2: SnakeParams<B>,
    /// The 1x1 convolution.
    pub conv2: Convolution<B>,
}

/// Applies units one after the other, then the snake of the next layer. `seen` receives the number
/// of each unit and its output sum.
///
/// # Shapes
/// - `x`, sums, output: `[B, channels, S]`
pub fn residual_units<B: Backend>(
    x: Tensor<B, 3>,
    units: Vec<UnitTensors<B>>,
    next: SnakeParams<B>,
    mut seen: impl FnMut(usize, &Tensor<B, 3>),
) -> Tensor<B, 3> {
    B::residual_units(x, units, next, &mut seen)
}

/// Reference of [`residual_units`], of the same shapes: each sum is fused with the snake after it.
pub fn reference<B: Backend>(
    x: Tensor<B, 3>,
    units: Vec<UnitTensors<B>>,
    next: SnakeParams<B>,
    seen: &mut dyn FnMut(usize, &Tensor<B, 3>),
) -> Tensor<B, 3> {
    let [alpha, beta] = units.first().map_or_else(|| next.clone(), |unit| unit.snake1.clone());
    let after: Vec<SnakeParams<B>> =
        units.iter().skip(1).map(|unit| unit.snake1.clone()).chain([next]).collect();
    let mut active = snake(x.clone(), alpha, beta);
    let mut x = x;
    for (index, (unit, wave)) in units.into_iter().zip(after).enumerate() {
        let wide = conv1d_snake(active, unit.conv1, unit.snake2);
        [x, active] = conv1d_add_snake(x, wide, unit.conv2, wave);
        seen(index, &x);
    }
    active
}

/// [`super::conv1d`], then [`snake`].
fn conv1d_snake<B: Backend>(
    x: Tensor<B, 3>,
    (weight, bias, geometry): Convolution<B>,
    [alpha, beta]: SnakeParams<B>,
) -> Tensor<B, 3> {
    let Weight::Plain(weight) = weight else {
        return snake(conv1d(x, weight, bias, geometry), alpha, beta);
    };
    let (bias, wave) = (bias.map(primitive), [alpha, beta].map(primitive));
    tensor(B::conv1d_snake(primitive(x), primitive(weight), bias, geometry, wave))
}

/// [`super::conv1d`] of `x`, then [`super::add_snake`] with `residual`.
fn conv1d_add_snake<B: Backend>(
    residual: Tensor<B, 3>,
    x: Tensor<B, 3>,
    (weight, bias, geometry): Convolution<B>,
    [alpha, beta]: SnakeParams<B>,
) -> [Tensor<B, 3>; 2] {
    let Weight::Plain(weight) = weight else {
        return add_snake(residual, conv1d(x, weight, bias, geometry), alpha, beta);
    };
    let (bias, wave) = (bias.map(primitive), [alpha, beta].map(primitive));
    let [residual, x, weight] = [primitive(residual), primitive(x), primitive(weight)];
    B::conv1d_add_snake(residual, x, weight, bias, geometry, wave).map(tensor)
}
