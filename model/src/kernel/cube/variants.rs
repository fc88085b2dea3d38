//! Variants of kernels by name, for the tests in `tests/kernels`.
//!
//! A front chooses the fastest variant for a device. A test on a driver in software, or without any
//! GPU, names the variant that other devices use.

use std::cell::Cell;

use burn::tensor::Tensor;
use burn_cubecl::{CubeRuntime, tensor::CubeTensor};

#[cfg(feature = "cuda")]
pub use super::cuda::{takes_attention, takes_conv, takes_product};
use super::{
    super::{Backend, ConvGeometry, Slot, Visibility},
    attention, conv1d,
};
pub use super::{
    attention::Routine,
    conv_transpose1d::{conv_transpose1d, in_tiles as conv_transpose1d_in_tiles},
    conv1d::in_tiles as conv1d_in_tiles,
    matrix::by_units as product_by_units,
    plain_product::product as plain_product,
    rows::shuffles,
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

/// View of the first `length` positions of the rows of `slots`, which follow each other.
pub fn cache_read<B: Backend>(cache: &Tensor<B, 4>, slots: &[Slot], length: usize) -> Tensor<B, 4> {
    super::super::cache_read(cache, slots, length)
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
