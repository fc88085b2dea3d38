//! Kernels for cards, in CubeCL: one text for CUDA, Vulkan and Metal.
//!
//! Each file holds one operation: the kernel, and the launch function of the same name. A launch
//! function takes and gives tensors of the runtime at hand, of any float type; sums and
//! exponentials are f32. What an operation computes stands at its front in [`super`].

mod ada_norm;
mod add_snake;
mod attention;
mod cache_write;
mod code_tokens;
mod conv1d;
mod conv_transpose1d;
#[cfg(all(test, feature = "cuda", feature = "wgpu", feature = "cpu"))]
mod cuda_source;
mod fusion;
mod matrix;
mod matvec;
#[cfg(all(test, feature = "wgpu", feature = "cpu"))]
mod measure;
mod norm_rotate;
#[cfg(all(test, feature = "cuda", feature = "wgpu", feature = "cpu"))]
mod paper;
mod rms_norm;
mod rows;
mod snake;
mod swiglu;
#[cfg(all(test, feature = "wgpu", feature = "cpu"))]
mod testing;

use burn::tensor::{
    Tensor, TensorMetadata,
    ops::{BoolTensor, FloatTensor, IntTensor},
};
use burn_cubecl::{BoolElement, CubeBackend, CubeRuntime, FloatElement, IntElement};

use super::{Backend, Geometry, Mask, Slot, Visibility, primitive, reference, tensor};

impl<R, F, I, BT> Backend for CubeBackend<R, F, I, BT>
where
    R: CubeRuntime,
    F: FloatElement,
    I: IntElement,
    BT: BoolElement,
{
    fn ada_norm(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        epsilon: f64,
        shift: FloatTensor<Self>,
        scale: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        ada_norm::ada_norm(x, weight, epsilon, shift, scale)
    }

    fn add_snake(
        x: FloatTensor<Self>,
        y: FloatTensor<Self>,
        alpha: FloatTensor<Self>,
        beta: FloatTensor<Self>,
    ) -> [FloatTensor<Self>; 2] {
        add_snake::add_snake(x, y, alpha, beta)
    }

    fn cache_write(
        cache: FloatTensor<Self>,
        new: FloatTensor<Self>,
        slots: &[Slot],
    ) -> FloatTensor<Self> {
        cache_write::cache_write(cache, new, slots)
    }

    fn code_tokens(
        codes: IntTensor<Self>,
        levels: &[u32],
        project: (FloatTensor<Self>, Option<FloatTensor<Self>>),
        embed: (FloatTensor<Self>, Option<FloatTensor<Self>>),
        places: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        code_tokens::code_tokens::<R, F, I, BT>(codes, levels, project, embed, places)
    }

    fn conv1d(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: Option<FloatTensor<Self>>,
        geometry: Geometry,
    ) -> FloatTensor<Self> {
        if conv1d::is_for(&x, &weight, geometry) {
            conv1d::conv1d::<R, F, I, BT>(x, weight, bias, geometry)
        } else {
            let bias = bias.map(tensor);
            primitive(reference::conv1d::<Self>(tensor(x), tensor(weight), bias, geometry))
        }
    }

    fn conv_transpose1d(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: Option<FloatTensor<Self>>,
        geometry: Geometry,
    ) -> FloatTensor<Self> {
        conv_transpose1d::conv_transpose1d::<R, F, I, BT>(x, weight, bias, geometry)
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

    fn product(x: FloatTensor<Self>, weight: FloatTensor<Self>) -> FloatTensor<Self> {
        if matvec::is_for(x.shape()[0]) {
            matvec::matvec(x, weight)
        } else {
            let mut turned = weight;
            turned.meta.swap(0, 1);
            matrix::matmul(x, turned)
        }
    }

    fn rms_norm(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        epsilon: f64,
    ) -> FloatTensor<Self> {
        rms_norm::rms_norm(x, weight, epsilon)
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

    fn snake(
        x: FloatTensor<Self>,
        alpha: FloatTensor<Self>,
        beta: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        snake::snake(x, alpha, beta)
    }

    fn swiglu(gate: FloatTensor<Self>, up: FloatTensor<Self>) -> FloatTensor<Self> {
        swiglu::swiglu(gate, up)
    }
}
