//! Where a network is, and in what numbers.

use burn::tensor::DType;

use crate::Backend;

/// Where a network is put, and in what type its weights are kept.
#[derive(Debug, Clone)]
pub struct Place<B: Backend> {
    /// The device that computes.
    pub device: B::Device,
    /// The type of the weights: `F32`, `BF16`, `F16`, or `I8` for [`crate::kernel::eight_bits`].
    pub dtype: DType,
}

impl<B: Backend> Place<B> {
    /// `device`, in f32.
    pub fn f32(device: B::Device) -> Self {
        Self { device, dtype: DType::F32 }
    }

    /// The type of what the network computes with: see [`Backend::computes_in`].
    pub fn computes_in(&self) -> DType {
        B::computes_in(self.dtype)
    }
}
