//! CPU kernels on Flex, for operations that its generic implementation does slowly.

mod activation;
#[cfg(target_arch = "x86_64")]
mod amx;
mod attention;
mod cache;
mod cleared;
mod conv;
mod eight;
mod embedding;
mod exp;
mod gradient;
mod layer_norm;
mod layers;
pub(super) mod level;
mod matrix;
mod modulate;
#[cfg(target_arch = "aarch64")]
mod neon;
mod norm_rotate;
mod pointwise;
mod prefetch;
mod product;
mod rms_norm;
mod rotate;
mod snake;
mod spread;
mod swiglu;

use std::iter;

use burn::tensor::{
    DType, Tensor, TensorData, TensorMetadata,
    ops::{FloatTensor, IntTensor},
};
use burn_flex::{Flex, FlexTensor};

use super::{
    Backend, CachedLayer, ConvGeometry, Convolution, FusedLayers, Mask, NewTokens, Packed, Packing,
    Slot, Visibility, primitive, reference,
    residual::{SnakeParams, UnitTensors},
    tensor,
};
use eight::Q8;

/// Number of elements below which one core finishes before another wakes up.
const WORTH_SHARING: usize = 1 << 14;

/// True if all tensors of an argument are f32, by the types of the table in `kernel/operations.rs`.
macro_rules! is_f32 {
    (Float $x:ident) => {
        $x.dtype() == DType::F32
    };
    (Maybe $x:ident) => {
        $x.as_ref().is_none_or(|x| x.dtype() == DType::F32)
    };
    ([Float; $count:literal] $x:ident) => {
        $x.iter().all(|x| x.dtype() == DType::F32)
    };
    ($other:tt $x:ident) => {
        true
    };
}

impl Backend for Flex {
    const MOST_SEPARATE_ROWS: usize = product::MOST_ROWS;

    /// Weights may be bf16 or int8. Only their products use the narrow type; everything else is
    /// f32.
    fn computes_in(weights: DType) -> DType {
        match weights {
            DType::BF16 | DType::I8 => DType::F32,
            same => same,
        }
    }

    /// Runs on a thread of the pool. From outside the pool every product would be handed over and
    /// would wait for a thread to wake up.
    fn on_pool<R: Send>(work: impl FnOnce() -> R + Send) -> R {
        rayon::scope(|_| work())
    }

    fn empty_cache(size: [usize; 4], _: &Self::Device, dtype: DType) -> FloatTensor<Self> {
        cache::empty_cache(size, dtype)
    }

    fn quantize_q8(weight: FloatTensor<Self>) -> IntTensor<Self> {
        eight::quantize_q8(weight)
    }

    fn q8_words(width: usize) -> usize {
        eight::words_of(width)
    }

    fn q8_from_words(words: TensorData, _: &Self::Device) -> IntTensor<Self> {
        FlexTensor::from_data(words)
    }

    fn pack_filter(weight: FloatTensor<Self>, packing: Packing) -> Option<IntTensor<Self>> {
        conv::pack_filter(weight, packing)
    }

    fn packed_embedding(weight: Packed<Self, 2>, ids: IntTensor<Self>) -> FloatTensor<Self> {
        embedding::packed_embedding(Q8::of(weight), ids)
    }

    fn packed_product(x: FloatTensor<Self>, weight: Packed<Self, 2>) -> FloatTensor<Self> {
        product::product(x, weight)
    }

    fn packed_conv1d(
        x: FloatTensor<Self>,
        weight: Packed<Self, 3>,
        bias: Option<FloatTensor<Self>>,
        geometry: ConvGeometry,
    ) -> FloatTensor<Self> {
        conv::conv1d(x, weight, bias, geometry)
    }

    fn packed_conv_transpose1d(
        x: FloatTensor<Self>,
        weight: Packed<Self, 3>,
        bias: Option<FloatTensor<Self>>,
        geometry: ConvGeometry,
    ) -> FloatTensor<Self> {
        conv::conv_transpose1d(x, weight, bias, geometry)
    }

    fn rounded_as(x: FloatTensor<Self>, weights: DType) -> FloatTensor<Self> {
        attention::rounded_as(x, weights)
    }

    fn fused_conv1d(
        x: Tensor<Self, 3>,
        conv: Convolution<Self>,
        layers: FusedLayers<Self>,
    ) -> Tensor<Self, 3> {
        conv::fused_conv1d(x, conv, layers)
    }

    fn residual_units(
        x: Tensor<Self, 3>,
        units: Vec<UnitTensors<Self>>,
        next: SnakeParams<Self>,
        seen: &mut dyn FnMut(usize, &Tensor<Self, 3>),
    ) -> Tensor<Self, 3> {
        conv::residual_units(x, units, next, seen)
    }

    fn cached_layers(
        x: Tensor<Self, 3>,
        layers: &mut dyn Iterator<Item = CachedLayer<'_, Self>>,
        new_tokens: &NewTokens<'_, Self>,
    ) -> Tensor<Self, 3> {
        layers::cached_layers(x, layers, new_tokens)
    }

    kernel! { product = product::product }
    kernel! { f32 rms_norm = rms_norm::rms_norm }
    kernel! { f32 layer_norm = layer_norm::layer_norm }
    kernel! { ada_norm = modulate::ada_norm }
    kernel! { add_gated = modulate::add_gated }
    kernel! { norm_rotate = norm_rotate::norm_rotate }
    kernel! { f32 rotate = rotate::rotate }
    kernel! { f32 swiglu = swiglu::swiglu }
    kernel! { f32 gelu = pointwise::gelu }
    kernel! { f32 gelu_tanh = pointwise::gelu_tanh }
    kernel! { f32 elu = pointwise::elu }
    kernel! { attention = attention::attention }
    kernel! { f32 cache_write = cache::cache_write }
    kernel! { f32 snake = snake::snake }
    kernel! { f32 add_snake = snake::add_snake }
    kernel! { f32 half_snake = activation::half_snake }
    kernel! { conv1d = conv::conv1d }
    kernel! { conv_transpose1d = spread::conv_transpose1d }
    kernel! { product_gradients = product::product_gradients }
    kernel! { f32 rms_norm_gradients = gradient::rms_norm_gradients }
    kernel! { ada_norm_gradients = modulate::ada_norm_gradients }
    kernel! { add_gated_gradients = modulate::add_gated_gradients }
    kernel! { f32 swiglu_gradients = gradient::swiglu_gradients }
    kernel! { f32 attention_gradients = attention::attention_gradients }
    kernel! { f32 snake_gradients = snake::snake_gradients }
    kernel! { filter_gradient = conv::filter_gradient }
}

/// Returns `count` zeros, which are cleared by all cores if there are many: see [`cleared`].
fn zeros(count: usize) -> Vec<f32> {
    if count < 4 * WORTH_SHARING {
        return vec![0.0; count];
    }
    let lengths = (0..count).step_by(WORTH_SHARING).map(|start| WORTH_SHARING.min(count - start));
    cleared::in_parts(0.0, lengths, |_, _| ())
}

/// Returns the tensor as contiguous storage without offset, so that indices into it are plain.
fn contiguous(x: FlexTensor) -> FlexTensor {
    let count = x.shape().num_elements();
    let is_plain = x.is_contiguous()
        && x.layout().start_offset() == 0
        && x.bytes().len() == count * x.dtype().size();
    if is_plain {
        return x;
    }
    let strides = x.layout().strides();
    let has_rows = strides.last() == Some(&1) && strides.iter().all(|&stride| stride >= 0);
    let is_long = has_rows && x.shape()[strides.len() - 1] >= LONG;
    match is_long && x.dtype() == DType::F32 && count >= 4 * WORTH_SHARING {
        true => copied(&x),
        false => x.to_contiguous(),
    }
}

/// Minimum length of rows that all cores copy, such as those of a window of a sound.
const LONG: usize = 1 << 10;

/// Returns a contiguous copy of an f32 tensor with a contiguous last axis, copied by all cores.
fn copied(x: &FlexTensor) -> FlexTensor {
    let (shape, strides, values) = (x.shape(), x.layout().strides(), x.storage::<f32>());
    let (outer, start) = (strides.len() - 1, x.layout().start_offset());
    let lengths = iter::repeat_n(shape[outer], shape.num_elements() / shape[outer]);
    let copy = cleared::in_parts(0.0, lengths, |mut row, to| {
        let mut first = start;
        for axis in (0..outer).rev() {
            first += row % shape[axis] * strides[axis] as usize;
            row /= shape[axis];
        }
        to.copy_from_slice(&values[first..][..to.len()]);
    });
    FlexTensor::from_data(TensorData::new(copy, x.shape()))
}

/// Returns the tensor with a contiguous last axis and no negative strides.
fn readable(x: FlexTensor) -> FlexTensor {
    let strides = x.layout().strides();
    let is_plain = strides.last() == Some(&1) && strides.iter().all(|&stride| stride >= 0);
    if is_plain { x } else { x.to_contiguous() }
}

fn from_values<const D: usize>(values: Vec<f32>, shape: [usize; D]) -> FlexTensor {
    FlexTensor::from_data(TensorData::new(values, shape))
}

#[cfg(test)]
mod tests {
    use burn::tensor::Tensor;

    pub(super) use super::level::tests::at_every_level;
    use super::*;
    pub(super) use crate::testing::{random, values};

    #[track_caller]
    pub(super) fn assert_close<const D: usize>(
        ours: Tensor<Flex, D>,
        expected: Tensor<Flex, D>,
        allowed: f32,
    ) {
        assert_eq!(ours.dims(), expected.dims());
        for (a, b) in values(ours).into_iter().zip(values(expected)) {
            assert!((a - b).abs() <= allowed * b.abs().max(1.0), "{a} is not {b}");
        }
    }

    #[test]
    fn a_long_window_is_copied_as_it_is() {
        let x = random([2, 3, 21_000]);
        for (axis, start, length) in [(2, 7, 20_000), (1, 1, 2)] {
            let window: FlexTensor = primitive(x.clone().narrow(axis, start, length));
            let copy = contiguous(window.clone());
            assert_eq!(copy.layout().start_offset(), 0);
            assert!(copy.into_data() == window.to_contiguous().into_data());
        }
    }
}
