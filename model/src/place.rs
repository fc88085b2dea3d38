//! Device and weight type of a network.

use burn::tensor::DType;

use crate::Backend;

/// The device of a network, and the type of its weights.
#[derive(Debug, Clone)]
pub struct Place<B: Backend> {
    /// The device that computes.
    pub device: B::Device,
    /// The type of the weights: `F32`, `BF16`, `F16`, or `I8` for [`crate::kernel::quantize_q8`].
    pub dtype: DType,
}

impl<B: Backend> Place<B> {
    /// Returns `device` with f32 weights.
    pub fn f32(device: B::Device) -> Self {
        Self { device, dtype: DType::F32 }
    }

    /// Returns the type that the network computes in: see [`Backend::computes_in`].
    pub fn computes_in(&self) -> DType {
        B::computes_in(self.dtype)
    }
}
