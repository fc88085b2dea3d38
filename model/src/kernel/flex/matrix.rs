//! A matrix as the CPU stores it.

use burn::tensor::{DType, TensorMetadata};
use burn_flex::{Flex, FlexTensor};

use super::{
    super::{Packed, Weight, primitive, tensor},
    eight::Q8,
};

impl<const D: usize> From<FlexTensor> for Weight<Flex, D> {
    fn from(weight: FlexTensor) -> Self {
        Self::Plain(tensor(weight))
    }
}

/// The weights of a product.
#[derive(Debug, Clone)]
pub(super) enum Matrix {
    /// `[out, in]`
    Plain(FlexTensor),
    Q8(Q8),
}

impl From<Weight<Flex, 2>> for Matrix {
    fn from(weight: Weight<Flex, 2>) -> Self {
        match weight {
            Weight::Plain(weight) => Self::Plain(primitive(weight)),
            Weight::Packed(weight) => Self::Q8(Q8::of(weight)),
        }
    }
}

impl From<FlexTensor> for Matrix {
    fn from(weight: FlexTensor) -> Self {
        Self::Plain(weight)
    }
}

impl From<Packed<Flex, 2>> for Matrix {
    fn from(weight: Packed<Flex, 2>) -> Self {
        Self::Q8(Q8::of(weight))
    }
}

impl Matrix {
    /// Returns output and input width.
    pub(super) fn dims(&self) -> [usize; 2] {
        match self {
            Self::Plain(weight) => [0, 1].map(|axis| weight.shape()[axis]),
            Self::Q8(weight) => weight.dims(),
        }
    }

    /// Returns the type of the weights; int8 is `I8`.
    pub(super) fn dtype(&self) -> DType {
        match self {
            Self::Plain(weight) => weight.dtype(),
            Self::Q8(_) => DType::I8,
        }
    }
}
