//! Residual units of the VAE.
//!
//! Source: diffusers `autoencoder_oobleck.py`, `OobleckResidualUnit`.

use burn::tensor::Tensor;

use super::{Backend, Geometry, add_snake, conv1d, snake};

/// Parameters of a snake: `alpha` and `beta`, each `[1, channels, 1]`.
pub type Wave<B> = [Tensor<B, 3>; 2];

/// A convolution: weight `[out, in, k]`, bias `[out]`.
pub type Convolution<B> = (Tensor<B, 3>, Option<Tensor<B, 1>>, Geometry);

/// `x + conv2(snake2(conv1(snake1(x))))`; both convolutions keep channels and length.
#[derive(Debug, Clone)]
pub struct Unit<B: Backend> {
    /// The first snake.
    pub snake1: Wave<B>,
    /// The wide filter.
    pub conv1: Convolution<B>,
    /// The second snake.
    pub snake2: Wave<B>,
    /// The mixing of channels.
    pub conv2: Convolution<B>,
}

/// Units one after the other, then the snake of what follows them. `seen` is shown the sum that each
/// unit ends with, by its number.
///
/// # Shapes
/// - `x`, sums, output: `[B, channels, S]`
pub fn residual_units<B: Backend>(
    x: Tensor<B, 3>,
    units: Vec<Unit<B>>,
    next: Wave<B>,
    mut seen: impl FnMut(usize, &Tensor<B, 3>),
) -> Tensor<B, 3> {
    B::residual_units(x, units, next, &mut seen)
}

/// Reference of [`residual_units`], of the same shapes: each sum and the snake after it are one operation.
pub fn reference<B: Backend>(
    x: Tensor<B, 3>,
    units: Vec<Unit<B>>,
    next: Wave<B>,
    seen: &mut dyn FnMut(usize, &Tensor<B, 3>),
) -> Tensor<B, 3> {
    let [alpha, beta] = units.first().map_or_else(|| next.clone(), |unit| unit.snake1.clone());
    let after: Vec<Wave<B>> =
        units.iter().skip(1).map(|unit| unit.snake1.clone()).chain([next]).collect();
    let mut active = snake(x.clone(), alpha, beta);
    let mut x = x;
    for (index, (unit, [alpha, beta])) in units.into_iter().zip(after).enumerate() {
        let (weight, bias, geometry) = unit.conv1;
        let wide = conv1d(active, weight, bias, geometry);
        let wide = snake(wide, unit.snake2[0].clone(), unit.snake2[1].clone());
        let (weight, bias, geometry) = unit.conv2;
        let branch = conv1d(wide, weight, bias, geometry);
        [x, active] = add_snake(x, branch, alpha, beta);
        seen(index, &x);
    }
    active
}
