//! Kernels for cards, in CubeCL: one text for CUDA, Vulkan and Metal.
//!
//! Each file holds one operation: the kernel, and the launch function of the same name. A launch
//! function takes and gives tensors of the runtime at hand, of any float type; sums and
//! exponentials are f32. What an operation computes stands at its front in [`super`].

#[cfg(all(test, feature = "cuda", feature = "wgpu", feature = "cpu"))]
mod cuda_source;
mod fusion;
#[cfg(all(test, feature = "cuda", feature = "wgpu", feature = "cpu"))]
mod paper;
mod rms_norm;
mod rows;
#[cfg(all(test, feature = "wgpu", feature = "cpu"))]
mod testing;

use burn::tensor::ops::FloatTensor;
use burn_cubecl::{BoolElement, CubeBackend, CubeRuntime, FloatElement, IntElement};

use super::Backend;

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
}
