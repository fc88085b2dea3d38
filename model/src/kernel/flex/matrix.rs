//! A matrix as the CPU stores it.

use burn::tensor::{DType, TensorMetadata};
use burn_flex::{Flex, FlexTensor};

use super::{
    super::{Weight, primitive},
    eight::Q8,
};

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
