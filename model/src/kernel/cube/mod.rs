//! Kernels for cards, in CubeCL: one text for CUDA, Vulkan and Metal.
//!
//! Each file holds one operation: the kernel, and the launch function of the same name. A launch
//! function takes and gives tensors of the runtime at hand, of any float type; sums and
//! exponentials are f32. What an operation computes stands at its front in [`super`].

mod attention;
#[cfg(all(test, feature = "cuda", feature = "wgpu", feature = "cpu"))]
mod cuda_source;
mod fusion;
#[cfg(all(test, feature = "cuda", feature = "wgpu", feature = "cpu"))]
mod paper;
mod rms_norm;
mod rows;
#[cfg(all(test, feature = "wgpu", feature = "cpu"))]
mod testing;

use burn::tensor::{
    Tensor,
    ops::{BoolTensor, FloatTensor},
};
use burn_cubecl::{BoolElement, CubeBackend, CubeRuntime, FloatElement, IntElement};

use super::{Backend, Mask, Visibility, primitive, reference, tensor};

impl<R, F, I, BT> Backend for CubeBackend<R, F, I, BT>
where
    R: CubeRuntime,
    F: FloatElement,
    I: IntElement,
    BT: BoolElement,
{
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
}
