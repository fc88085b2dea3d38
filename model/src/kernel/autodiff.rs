//! The operations for training, on the autodiff backend.
//!
//! The most expensive operations use the backend's own kernels, forward and backward. For the
//! others, Burn differentiates the reference.

mod sound;
#[cfg(all(test, feature = "cpu"))]
mod tests;
mod transformer;

use burn::tensor::DType;
use burn_autodiff::{Autodiff, checkpoint::strategy::CheckpointStrategy};

use super::{Backend, ConvGeometry, Visibility};

impl<B: Backend, C: CheckpointStrategy> Backend for Autodiff<B, C> {
    fn computes_in(weights: DType) -> DType {
        B::computes_in(weights)
    }

    kernel! { product = transformer::product::<B, C> }
    kernel! { rms_norm = transformer::rms_norm::<B, C> }
    kernel! { ada_norm = transformer::ada_norm::<B, C> }
    kernel! { add_gated = transformer::add_gated::<B, C> }
    kernel! { rotate = transformer::rotate::<B, C> }
    kernel! { swiglu = transformer::swiglu::<B, C> }
    kernel! { attention = transformer::attention::<B, C> }
    kernel! { snake = sound::snake::<B, C> }
    kernel! { conv1d = sound::conv1d::<B, C> }
    kernel! { conv_transpose1d = sound::conv_transpose1d::<B, C> }
}
