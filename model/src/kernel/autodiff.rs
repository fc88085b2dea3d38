//! The operations for training, on the autodiff backend.
//!
//! The most expensive operations use the backend's own kernels, forward and backward. For the
//! others, Burn differentiates the reference.

mod sound;
#[cfg(all(test, feature = "cpu"))]
mod tests;
mod transformer;

use burn::tensor::{
    DType,
    ops::{BoolTensor, FloatTensor},
};
use burn_autodiff::{Autodiff, checkpoint::strategy::CheckpointStrategy};

use super::{Backend, ConvGeometry, Visibility, primitive, reference, tensor};

impl<B: Backend, C: CheckpointStrategy> Backend for Autodiff<B, C> {
    fn computes_in(weights: DType) -> DType {
        B::computes_in(weights)
    }

    fn product(x: FloatTensor<Self>, weight: FloatTensor<Self>) -> FloatTensor<Self> {
        transformer::product::<B, C>(x, weight)
    }

    fn rms_norm(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        epsilon: f64,
    ) -> FloatTensor<Self> {
        transformer::rms_norm::<B, C>(x, weight, epsilon)
    }

    fn ada_norm(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        epsilon: f64,
        shift: FloatTensor<Self>,
        scale: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        transformer::ada_norm::<B, C>(x, weight, epsilon, shift, scale)
    }

    fn add_gated(
        x: FloatTensor<Self>,
        gate: FloatTensor<Self>,
        y: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        transformer::add_gated::<B, C>(x, gate, y)
    }

    fn rotate(
        x: FloatTensor<Self>,
        cos: FloatTensor<Self>,
        sin: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        transformer::rotate::<B, C>(x, cos.primitive, sin.primitive)
    }

    fn swiglu(gate: FloatTensor<Self>, up: FloatTensor<Self>) -> FloatTensor<Self> {
        transformer::swiglu::<B, C>(gate, up)
    }

    fn attention(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        keys: Option<BoolTensor<Self>>,
        visibility: Visibility,
    ) -> FloatTensor<Self> {
        transformer::attention::<B, C>([q, k, v], keys, visibility)
    }

    fn snake(
        x: FloatTensor<Self>,
        alpha: FloatTensor<Self>,
        beta: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        sound::snake::<B, C>(x, alpha, beta)
    }

    fn conv1d(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: Option<FloatTensor<Self>>,
        geometry: ConvGeometry,
    ) -> FloatTensor<Self> {
        if geometry.groups > 1 {
            let bias = bias.map(tensor);
            return primitive(reference::conv1d::<Self>(tensor(x), tensor(weight), bias, geometry));
        }
        sound::convolve::<B, C>(sound::Filter { geometry, transposed: false }, x, weight, bias)
    }

    fn conv_transpose1d(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: Option<FloatTensor<Self>>,
        geometry: ConvGeometry,
    ) -> FloatTensor<Self> {
        if geometry.groups > 1 {
            let (x, weight, bias) = (tensor(x), tensor(weight), bias.map(tensor));
            return primitive(reference::conv_transpose1d::<Self>(x, weight, bias, geometry));
        }
        sound::convolve::<B, C>(sound::Filter { geometry, transposed: true }, x, weight, bias)
    }
}
