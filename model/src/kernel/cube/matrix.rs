//! Matrix products: the fastest of many variants on a card, the first that fits elsewhere.
//!
//! Burn has dozens of kernels for a product and times them for each class of shapes. On a card that is
//! worth the wait, and kept on disk. On a driver in software each variant takes half a second to
//! compile, for products that take a thousandth: there CubeCL's tuning level is set to `minimal`, which
//! is taken here to mean that nothing is timed.

use burn_cubecl::{
    CubeRuntime,
    kernel::matmul::{self, MatmulStrategy},
    tensor::CubeTensor,
};
use cubecl::config::{CubeClRuntimeConfig, autotune::AutotuneLevel};
use cubecl_common::config::RuntimeConfig;

/// Whether variants are timed against each other.
pub(super) fn is_tuned() -> bool {
    !matches!(CubeClRuntimeConfig::get().autotune.level, AutotuneLevel::Minimal)
}

/// The product of two matrices, or of batches of them.
///
/// # Panics
/// If the shapes do not match, or no variant takes them: there is one that takes all.
pub(super) fn matmul<R: CubeRuntime>(left: CubeTensor<R>, right: CubeTensor<R>) -> CubeTensor<R> {
    let strategy = if is_tuned() { MatmulStrategy::default() } else { MatmulStrategy::Cube };
    let dtype = left.dtype;
    match matmul::matmul(left, right, None, strategy, dtype) {
        Ok(product) => product,
        Err(error) => panic!("a matrix product that no kernel takes: {error:?}"),
    }
}
