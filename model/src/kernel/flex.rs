//! CPU kernels on Flex, for operations that its generic implementation does slowly.

mod attention;
mod cache;
mod conv;
mod eight;
mod embedding;
mod exp;
mod gradient;
mod layers;
mod matrix;
mod modulate;
mod norm_rotate;
mod product;
mod rms_norm;
mod rotate;
mod snake;
mod swiglu;

use burn::tensor::{
    DType, Tensor, TensorData, TensorMetadata,
    ops::{BoolTensor, FloatTensor, IntTensor},
};
use burn_flex::{Flex, FlexTensor};

use super::{
    Backend, CachedLayer, ConvGeometry, Packed, Reading, Slot, Visibility, Weight,
    residual::{SnakeParams, UnitTensors},
    tensor,
};
use eight::Q8;
use matrix::Matrix;

/// Number of elements below which one core finishes before another wakes up.
const WORTH_SHARING: usize = 1 << 14;

impl Backend for Flex {
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

    fn quantize_q8(weight: FloatTensor<Self>) -> IntTensor<Self> {
        eight::quantize_q8(weight)
    }

    fn pack_filter(
        weight: FloatTensor<Self>,
        stride: usize,
        is_transposed: bool,
    ) -> Option<IntTensor<Self>> {
        conv::pack_filter(weight, stride, is_transposed)
    }

    fn packed_embedding(weight: Packed<Self, 2>, ids: IntTensor<Self>) -> FloatTensor<Self> {
        embedding::packed_embedding(Q8::of(weight), ids)
    }

    fn product(x: FloatTensor<Self>, weight: FloatTensor<Self>) -> FloatTensor<Self> {
        product::product(x, Matrix::Plain(weight))
    }

    fn packed_product(x: FloatTensor<Self>, weight: Packed<Self, 2>) -> FloatTensor<Self> {
        product::product(x, Matrix::Q8(Q8::of(weight)))
    }

    fn rms_norm(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        epsilon: f64,
    ) -> FloatTensor<Self> {
        rms_norm::rms_norm(x, weight, epsilon)
    }

    fn ada_norm(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        epsilon: f64,
        shift: FloatTensor<Self>,
        scale: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        modulate::ada_norm(x, weight, epsilon, shift, scale)
    }

    fn add_gated(
        x: FloatTensor<Self>,
        gate: FloatTensor<Self>,
        y: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        modulate::add_gated(x, gate, y)
    }

    fn norm_rotate(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        epsilon: f64,
        cos: FloatTensor<Self>,
        sin: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        norm_rotate::norm_rotate(x, weight, epsilon, cos, sin)
    }

    fn rotate(
        x: FloatTensor<Self>,
        cos: FloatTensor<Self>,
        sin: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        rotate::rotate(x, cos, sin)
    }

    fn swiglu(gate: FloatTensor<Self>, up: FloatTensor<Self>) -> FloatTensor<Self> {
        swiglu::swiglu(gate, up)
    }

    fn rounded_as(x: FloatTensor<Self>, weights: DType) -> FloatTensor<Self> {
        attention::rounded_as(x, weights)
    }

    fn attention(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        keys: Option<BoolTensor<Self>>,
        visibility: Visibility,
    ) -> FloatTensor<Self> {
        attention::attention(q, k, v, keys, visibility)
    }

    fn snake(
        x: FloatTensor<Self>,
        alpha: FloatTensor<Self>,
        beta: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        snake::snake(x, alpha, beta)
    }

    fn add_snake(
        x: FloatTensor<Self>,
        y: FloatTensor<Self>,
        alpha: FloatTensor<Self>,
        beta: FloatTensor<Self>,
    ) -> [FloatTensor<Self>; 2] {
        snake::add_snake(x, y, alpha, beta)
    }

    fn conv1d(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: Option<FloatTensor<Self>>,
        geometry: ConvGeometry,
    ) -> FloatTensor<Self> {
        conv::conv1d(x, Weight::Plain(tensor(weight)), bias, geometry)
    }

    fn packed_conv1d(
        x: FloatTensor<Self>,
        weight: Packed<Self, 3>,
        bias: Option<FloatTensor<Self>>,
        geometry: ConvGeometry,
    ) -> FloatTensor<Self> {
        conv::conv1d(x, Weight::Packed(weight), bias, geometry)
    }

    fn conv_transpose1d(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: Option<FloatTensor<Self>>,
        geometry: ConvGeometry,
    ) -> FloatTensor<Self> {
        conv::conv_transpose1d(x, Weight::Plain(tensor(weight)), bias, geometry)
    }

    fn packed_conv_transpose1d(
        x: FloatTensor<Self>,
        weight: Packed<Self, 3>,
        bias: Option<FloatTensor<Self>>,
        geometry: ConvGeometry,
    ) -> FloatTensor<Self> {
        conv::conv_transpose1d(x, Weight::Packed(weight), bias, geometry)
    }

    fn product_gradients(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        wanted: [bool; 2],
    ) -> [Option<FloatTensor<Self>>; 2] {
        product::product_gradients(x, weight, gradient, wanted)
    }

    fn rms_norm_gradients(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        epsilon: f64,
        gradient: FloatTensor<Self>,
    ) -> [FloatTensor<Self>; 2] {
        gradient::rms_norm_gradients(x, weight, epsilon, gradient)
    }

    fn ada_norm_gradients(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        epsilon: f64,
        scale: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
    ) -> [FloatTensor<Self>; 4] {
        modulate::ada_norm_gradients(x, weight, epsilon, scale, gradient)
    }

    fn add_gated_gradients(
        gate: FloatTensor<Self>,
        y: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
    ) -> [FloatTensor<Self>; 2] {
        modulate::add_gated_gradients(gate, y, gradient)
    }

    fn swiglu_gradients(
        gate: FloatTensor<Self>,
        up: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
    ) -> [FloatTensor<Self>; 2] {
        gradient::swiglu_gradients(gate, up, gradient)
    }

    fn attention_gradients(
        inputs: [FloatTensor<Self>; 3],
        keys: Option<BoolTensor<Self>>,
        visibility: Visibility,
        gradient: FloatTensor<Self>,
    ) -> [FloatTensor<Self>; 3] {
        attention::attention_gradients(inputs, keys, visibility, gradient)
    }

    fn snake_gradients(
        x: FloatTensor<Self>,
        alpha: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
    ) -> [FloatTensor<Self>; 3] {
        snake::snake_gradients(x, alpha, beta, gradient)
    }

    fn filter_gradient(
        x: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        taps: usize,
        geometry: ConvGeometry,
    ) -> FloatTensor<Self> {
        conv::filter_gradient(x, gradient, taps, geometry)
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
        reading: &Reading<'_, Self>,
    ) -> Tensor<Self, 3> {
        layers::cached_layers(x, layers, reading)
    }

    fn cache_write(
        cache: FloatTensor<Self>,
        new: FloatTensor<Self>,
        slots: &[Slot],
    ) -> FloatTensor<Self> {
        cache::cache_write(cache, new, slots)
    }
}

/// Returns the tensor as contiguous storage without offset, so that indices into it are plain.
fn contiguous(x: FlexTensor) -> FlexTensor {
    let is_plain = x.is_contiguous()
        && x.layout().start_offset() == 0
        && x.bytes().len() == x.shape().num_elements() * x.dtype().size();
    if is_plain { x } else { x.to_contiguous() }
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
    use burn::tensor::{Distribution, Tensor};

    use super::*;

    pub(super) fn random<const D: usize>(shape: [usize; D]) -> Tensor<Flex, D> {
        Tensor::random(shape, Distribution::Normal(0.0, 1.0), &Default::default())
    }

    #[track_caller]
    pub(super) fn assert_close<const D: usize>(
        ours: Tensor<Flex, D>,
        expected: Tensor<Flex, D>,
        allowed: f32,
    ) {
        assert_eq!(ours.dims(), expected.dims());
        let values = |x: Tensor<Flex, D>| x.into_data().to_vec::<f32>().expect("f32");
        for (a, b) in values(ours).into_iter().zip(values(expected)) {
            assert!((a - b).abs() <= allowed * b.abs().max(1.0), "{a} is not {b}");
        }
    }
}
