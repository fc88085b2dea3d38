//! Keys and values rounded to bf16, if the CPU multiplies bf16 pairs.

use burn::tensor::DType;
use burn_flex::FlexTensor;

/// Kernel of [`crate::kernel::Backend::rounded_as`], for bf16 and int8 weights.
#[cfg(target_arch = "x86_64")]
pub(in super::super) fn rounded_as(x: FlexTensor, weights: DType) -> FlexTensor {
    use burn::tensor::{Bytes, TensorMetadata};

    use super::{
        super::{WORTH_SHARING, cleared},
        Dots,
    };

    let is_narrow = matches!(weights, DType::BF16 | DType::I8) && x.dtype() == DType::F32;
    let Some(dots) = Dots::new(x.shape()[3]).filter(|_| is_narrow) else { return x };
    // The memory order stays the same.
    let is_whole = x.bytes().len() == x.shape().num_elements() * size_of::<f32>();
    let x = if is_whole { x } else { x.to_contiguous() };
    let from = x.storage::<f32>();
    let pieces = from.chunks(WORTH_SHARING).map(<[f32]>::len);
    let to = cleared::in_parts(0, pieces, |index, to| {
        dots.round(&from[index * WORTH_SHARING..][..to.len()], to);
    });
    FlexTensor::new(Bytes::from_elems::<u16>(to), x.layout().clone(), DType::BF16)
}

#[cfg(not(target_arch = "x86_64"))]
pub(in super::super) fn rounded_as(x: FlexTensor, _: DType) -> FlexTensor {
    x
}
