//! Variants of kernels by name, for the tests in `tests/kernels`.
//!
//! A front chooses the fastest variant for a device. A test on a driver in software, or without any
//! GPU, names the variant that other devices use.

use std::cell::Cell;

use burn::tensor::Tensor;
use burn_cubecl::{CubeRuntime, tensor::CubeTensor};
use cubecl::{Runtime, client::ComputeClient};

pub use super::attention::Routine;
#[cfg(feature = "cuda")]
use super::cuda;
use super::{
    super::{Backend, ConvGeometry, Slot, Visibility},
    attention, conv_transpose1d, conv1d, matrix, plain_product, rows,
};

/// Attention by one routine; `None` if it does not support the call.
pub fn attention_by<R: CubeRuntime>(
    routine: Routine,
    q: CubeTensor<R>,
    k: CubeTensor<R>,
    v: CubeTensor<R>,
    keys: Option<CubeTensor<R>>,
    visibility: Visibility,
) -> Option<CubeTensor<R>> {
    attention::attention_by(Some(routine), q, k, v, keys, visibility)
}

/// Convolution as a product of columns, on devices with a faster kernel too.
pub fn conv1d<R: CubeRuntime>(
    x: CubeTensor<R>,
    weight: CubeTensor<R>,
    bias: Option<CubeTensor<R>>,
    geometry: ConvGeometry,
) -> CubeTensor<R> {
    conv1d::in_tiles(x, weight, bias, geometry, conv1d::COLUMNS)
}

/// `conv1d` with at most `bytes` of columns at a time.
pub fn conv1d_in_tiles<R: CubeRuntime>(
    x: CubeTensor<R>,
    weight: CubeTensor<R>,
    bias: Option<CubeTensor<R>>,
    geometry: ConvGeometry,
    bytes: usize,
) -> CubeTensor<R> {
    conv1d::in_tiles(x, weight, bias, geometry, bytes)
}

/// Transposed convolution as a product and an overlap-add, on devices with a faster kernel too.
pub fn conv_transpose1d<R: CubeRuntime>(
    x: CubeTensor<R>,
    weight: CubeTensor<R>,
    bias: Option<CubeTensor<R>>,
    geometry: ConvGeometry,
) -> CubeTensor<R> {
    conv_transpose1d::conv_transpose1d(x, weight, bias, geometry)
}

/// `conv_transpose1d` with at most `bytes` of columns at a time.
pub fn conv_transpose1d_in_tiles<R: CubeRuntime>(
    x: CubeTensor<R>,
    weight: CubeTensor<R>,
    bias: Option<CubeTensor<R>>,
    geometry: ConvGeometry,
    bytes: usize,
) -> CubeTensor<R> {
    conv_transpose1d::in_tiles(x, weight, bias, geometry, bytes)
}

/// Matrix product without matrix units, as NVIDIA GPUs compute f32.
pub fn product_by_units<R: CubeRuntime>(
    left: CubeTensor<R>,
    right: CubeTensor<R>,
) -> CubeTensor<R> {
    matrix::by_units(left, right)
}

/// Matrix product by the kernel for drivers in software.
pub fn plain_product<R: CubeRuntime>(left: CubeTensor<R>, right: CubeTensor<R>) -> CubeTensor<R> {
    plain_product::product(left, right)
}

/// View of the first `length` positions of the rows of `slots`, which follow each other.
pub fn cache_read<B: Backend>(cache: &Tensor<B, 4>, slots: &[Slot], length: usize) -> Tensor<B, 4> {
    super::super::cache_read(cache, slots, length)
}

/// True if `lanes` neighbouring units can read each other's values.
pub fn shuffles<R: Runtime>(client: &ComputeClient<R>, lanes: usize) -> bool {
    rows::shuffles(client, lanes)
}

std::thread_local! {
    static SHUFFLES: Cell<bool> = const { Cell::new(false) };
}

/// True if kernels of this thread may use plane shuffles that CubeCL does not report.
pub(super) fn shuffles_in_software() -> bool {
    SHUFFLES.get()
}

/// Runs `test` with plane shuffles, as on a real GPU. CubeCL does not report them for a software
/// driver, which supports them nevertheless.
pub fn with_shuffles<T>(test: impl FnOnce() -> T) -> T {
    SHUFFLES.set(true);
    let result = test();
    SHUFFLES.set(false);
    result
}

/// True if the kernel for Hopper takes this call of attention: queries, keys and values.
#[cfg(feature = "cuda")]
pub fn takes_attention<R: CubeRuntime>(
    tensors: [&CubeTensor<R>; 3],
    keys: Option<&CubeTensor<R>>,
    visibility: Visibility,
) -> bool {
    cuda::takes_attention(tensors, keys, visibility)
}

/// True if the kernel for Hopper takes this convolution.
#[cfg(feature = "cuda")]
pub fn takes_conv<R: CubeRuntime>(
    x: &CubeTensor<R>,
    weight: &CubeTensor<R>,
    geometry: ConvGeometry,
    is_transposed: bool,
) -> bool {
    cuda::takes_conv(x, weight, geometry, is_transposed)
}

/// True if the kernel for Hopper takes this product.
#[cfg(feature = "cuda")]
pub fn takes_product<R: CubeRuntime>(x: &CubeTensor<R>, weight: &CubeTensor<R>) -> bool {
    cuda::takes_product(x, weight)
}
