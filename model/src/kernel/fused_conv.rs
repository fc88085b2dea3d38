//! A convolution with the layers around it, for a signal that arrives in chunks.

use burn::tensor::Tensor;

use super::{Backend, Convolution, SnakeParams, conv1d, elu, half_snake, snake};

/// The activation of the input of a convolution.
#[derive(Debug, Clone)]
pub enum ConvActivation<B: Backend> {
    /// [`snake`].
    Snake(SnakeParams<B>),
    /// [`half_snake`], with its `alpha`.
    HalfSnake(Tensor<B, 3>),
    /// [`elu`].
    Elu,
}

impl<B: Backend> ConvActivation<B> {
    /// # Shapes
    /// - `x`, output: `[B, channels, S]`
    pub fn forward(self, x: Tensor<B, 3>) -> Tensor<B, 3> {
        match self {
            Self::Snake([alpha, beta]) => snake(x, alpha, beta),
            Self::HalfSnake(alpha) => half_snake(x, alpha),
            Self::Elu => elu(x),
        }
    }
}

/// The layers around a convolution.
#[derive(Debug, Clone)]
pub struct FusedLayers<B: Backend> {
    /// Activated inputs before the first, `[B, in, P]`.
    pub past: Option<Tensor<B, 3>>,
    /// The activation of the input.
    pub activation: Option<ConvActivation<B>>,
    /// Added to the output, `[B, out, S']`.
    pub residual: Option<Tensor<B, 3>>,
}

/// Computes `residual + conv1d(past, then activation(x))`.
///
/// # Shapes
/// - `x`: `[B, in, S]`
/// - output: `[B, out, S']`
pub fn fused_conv1d<B: Backend>(
    x: Tensor<B, 3>,
    conv: Convolution<B>,
    layers: FusedLayers<B>,
) -> Tensor<B, 3> {
    B::fused_conv1d(x, conv, layers)
}

/// Reference of [`fused_conv1d`], with the same shapes.
pub fn reference<B: Backend>(
    x: Tensor<B, 3>,
    (weight, bias, geometry): Convolution<B>,
    FusedLayers { past, activation, residual }: FusedLayers<B>,
) -> Tensor<B, 3> {
    let active = match activation {
        Some(activation) => activation.forward(x),
        None => x,
    };
    let known = match past {
        Some(past) => Tensor::cat(vec![past, active], 2),
        None => active,
    };
    let y = conv1d(known, weight, bias, geometry);
    match residual {
        Some(residual) => residual + y,
        None => y,
    }
}
