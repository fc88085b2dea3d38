//! GPU kernels in CubeCL: one source for CUDA, Vulkan and Metal.
//!
//! Each file holds one operation: the kernel, and the launch function of the same name. A launch
//! function takes and returns tensors of the current runtime, of any float type; sums and
//! exponentials are computed in f32. The front of the same name in [`super`] documents the
//! computation. The tests of an operation are in `tests/kernels`, in the file of the same name.

mod ada_norm;
mod add_snake;
mod attention;
mod cache_write;
mod code_tokens;
mod conv1d;
mod conv_transpose1d;
#[cfg(feature = "cuda")]
mod cuda;
mod decode;
mod device;
mod draw;
mod fusion;
mod matrix;
mod matvec;
mod norm_rotate;
mod plain_product;
mod rms_norm;
mod rows;
mod snake;
mod swiglu;
#[cfg(feature = "testing")]
pub mod variants;

use burn::tensor::{
    DType, Tensor, TensorMetadata,
    ops::{BoolTensor, FloatTensor},
};
use burn_cubecl::{BoolElement, CubeBackend, CubeRuntime, FloatElement, IntElement};

use super::{
    Backend, CachedLayer, ConvGeometry, Mask, NewTokens, Slot, Visibility, Weight, primitive,
    reference, tensor,
};
use decode::{Decodes, Decoding, TENSORS};

/// A backend with Burn's own operations on the tensors of a runtime; its default types are not used.
type Any<R> = CubeBackend<R, f32, i32, u8>;

impl<R, F, I, BT> Backend for CubeBackend<R, F, I, BT>
where
    R: CubeRuntime,
    F: FloatElement,
    I: IntElement,
    BT: BoolElement,
{
    const DRAWS: bool = true;

    kernel! { batched_product = matrix::matmul }
    kernel! { rms_norm = rms_norm::rms_norm }
    kernel! { ada_norm = ada_norm::ada_norm }
    kernel! { norm_rotate = norm_rotate::norm_rotate }
    kernel! { swiglu = swiglu::swiglu }
    kernel! { cache_write = cache_write::cache_write }
    kernel! { code_tokens = code_tokens::code_tokens }
    kernel! { draw = draw::draw }
    kernel! { snake = snake::snake }
    kernel! { add_snake = add_snake::add_snake }

    fn cached_layers(
        x: Tensor<Self, 3>,
        layers: &mut dyn Iterator<Item = CachedLayer<'_, Self>>,
        new_tokens: &NewTokens<'_, Self>,
    ) -> Tensor<Self, 3> {
        decode::cached_layers(x, layers, new_tokens)
    }

    fn conv1d(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: Option<FloatTensor<Self>>,
        geometry: ConvGeometry,
    ) -> FloatTensor<Self> {
        #[cfg(feature = "cuda")]
        if cuda::takes_conv(&x, &weight, geometry, false) {
            return cuda::conv1d(x, weight, bias, geometry);
        }
        if conv1d::is_for(&x, &weight, geometry) {
            conv1d::conv1d(x, weight, bias, geometry)
        } else {
            let bias = bias.map(tensor);
            primitive(reference::conv1d::<Self>(tensor(x), tensor(weight), bias, geometry))
        }
    }

    fn conv1d_snake(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: Option<FloatTensor<Self>>,
        geometry: ConvGeometry,
        wave: [FloatTensor<Self>; 2],
    ) -> FloatTensor<Self> {
        #[cfg(feature = "cuda")]
        if cuda::takes_conv(&x, &weight, geometry, false) && cuda::takes_snake(&weight, &wave) {
            return cuda::conv1d_snake(x, weight, bias, geometry, wave);
        }
        let [alpha, beta] = wave;
        let y = <Self as Backend>::conv1d(x, weight, bias, geometry);
        <Self as Backend>::snake(y, alpha, beta)
    }

    fn conv1d_add_snake(
        residual: FloatTensor<Self>,
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: Option<FloatTensor<Self>>,
        geometry: ConvGeometry,
        wave: [FloatTensor<Self>; 2],
    ) -> [FloatTensor<Self>; 2] {
        #[cfg(feature = "cuda")]
        if cuda::takes_conv(&x, &weight, geometry, false) && cuda::takes_snake(&weight, &wave) {
            return cuda::conv1d_add_snake(residual, x, weight, bias, geometry, wave);
        }
        let [alpha, beta] = wave;
        let y = <Self as Backend>::conv1d(x, weight, bias, geometry);
        <Self as Backend>::add_snake(residual, y, alpha, beta)
    }

    fn conv_transpose1d(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: Option<FloatTensor<Self>>,
        geometry: ConvGeometry,
    ) -> FloatTensor<Self> {
        #[cfg(feature = "cuda")]
        if cuda::takes_conv(&x, &weight, geometry, true) {
            return cuda::conv_transpose1d(x, weight, bias, geometry);
        }
        conv_transpose1d::conv_transpose1d(x, weight, bias, geometry)
    }

    fn product(x: FloatTensor<Self>, weight: FloatTensor<Self>) -> FloatTensor<Self> {
        if matvec::is_for(x.shape()[0]) {
            return matvec::matvec(x, weight);
        }
        #[cfg(feature = "cuda")]
        if cuda::takes_product(&x, &weight) {
            return cuda::product(x, weight);
        }
        let mut transposed = weight;
        transposed.meta.swap(0, 1);
        matrix::matmul(x, transposed)
    }

    fn gated_product(
        x: FloatTensor<Self>,
        gate: FloatTensor<Self>,
        up: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        #[cfg(feature = "cuda")]
        if !matvec::is_for(x.shape()[0])
            && cuda::takes_product(&x, &gate)
            && cuda::takes_product(&x, &up)
        {
            return cuda::gated_product(x, gate, up);
        }
        Self::swiglu(Self::product(x.clone(), gate), Self::product(x, up))
    }

    fn product_added(
        residual: FloatTensor<Self>,
        gate: Option<FloatTensor<Self>>,
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        #[cfg(feature = "cuda")]
        if cuda::takes_added(&residual, gate.as_ref(), &x, &weight) {
            return cuda::product_added(residual, gate, x, weight);
        }
        let gate = gate.map(tensor);
        primitive(super::products::reference_added::<Self>(
            tensor(residual),
            gate,
            tensor(x),
            Weight::Plain(tensor(weight)),
        ))
    }

    fn attention(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        keys: Option<BoolTensor<Self>>,
        visibility: Visibility,
    ) -> FloatTensor<Self> {
        if attention::takes(&q, &k, &v) {
            return attention::attention(q, k, v, keys, visibility);
        }
        let mask = Mask { visibility, keys: keys.map(Tensor::from_primitive) };
        primitive(reference::attention::<Self>(tensor(q), tensor(k), tensor(v), &mask))
    }
}

impl<R, F, I, BT> Decodes for CubeBackend<R, F, I, BT>
where
    R: CubeRuntime,
    F: FloatElement,
    I: IntElement,
    BT: BoolElement,
{
    fn has_product(device: &Self::Device, dtype: DType) -> bool {
        device::has_product(&R::client(device), dtype)
    }

    fn decodes(device: &Self::Device, decoding: &Decoding) -> bool {
        #[cfg(feature = "cuda")]
        return cuda::takes_layers::<R>(&R::client(device), decoding);
        #[cfg(not(feature = "cuda"))]
        {
            let _ = (device, decoding);
            false
        }
    }

    fn decode(
        x: FloatTensor<Self>,
        rope: [FloatTensor<Self>; 2],
        layers: Vec<[FloatTensor<Self>; TENSORS]>,
        decoding: Decoding,
    ) -> Vec<FloatTensor<Self>> {
        #[cfg(feature = "cuda")]
        return cuda::decode_layers(x, rope, layers, &decoding);
        #[cfg(not(feature = "cuda"))]
        {
            let _ = (x, rope, layers, decoding);
            unreachable!("no device takes such a step")
        }
    }
}
