//! Matrix products: autotuned on a GPU, the first suitable variant elsewhere.
//!
//! Burn has dozens of kernels for a product and times them for each class of shapes. On a GPU this
//! pays off, and the result is cached on disk. On a software driver each variant takes one to ten
//! seconds to compile, for products that take a millisecond. There CubeCL's tuning level is set to
//! `minimal`, which here means that nothing is timed. One kernel computes all products there: see
//! [`plain_product`].
//!
//! NVIDIA's matrix units do not support f32, only tf32, which has a 10-bit mantissa. Burn's
//! variants for them would round f32 to tf32, but the goldens' tolerances are a hundred times as
//! strict. So f32 products use plain units, which keep full f32 factors.

use burn_cubecl::{
    CubeRuntime,
    kernel::matmul::{self, MatmulStrategy},
    tensor::CubeTensor,
};
use cubek::{
    matmul::{
        definition::{MatmulElems, MatmulGlobalElems, MatmulSetupError},
        launch::{Strategy, launch_ref},
        routines::{
            BlueprintStrategy, TileSizeSelection, double_unit::DoubleUnitSelectionArgs,
            simple_unit::SimpleUnitSelectionArgs,
        },
    },
    std::InputBinding,
};

use super::{
    device::{is_cut, is_in_software, is_tuned},
    plain_product,
    rows::empty,
};

/// Computes the product of two matrices, or of batches of them.
///
/// # Panics
/// If the shapes do not match, or no variant supports them; one variant supports all.
pub(super) fn matmul<R: CubeRuntime>(left: CubeTensor<R>, right: CubeTensor<R>) -> CubeTensor<R> {
    if is_cut(&left) {
        return by_units(left, right);
    }
    if is_in_software(&left.client) && plain_product::takes(&left, &right) {
        return plain_product::product(left, right);
    }
    let strategy = if is_tuned() { MatmulStrategy::default() } else { MatmulStrategy::Cube };
    let dtype = left.dtype;
    taken(matmul::matmul(left, right, None, strategy, dtype))
}

/// Matrix product without matrix units, as NVIDIA GPUs compute f32.
pub fn by_units<R: CubeRuntime>(left: CubeTensor<R>, right: CubeTensor<R>) -> CubeTensor<R> {
    // Double buffering of tiles pays off only for sums of this many terms.
    const LONG: usize = 256;
    let (rows, terms) = (left.meta.shape()[left.meta.num_dims() - 2], inner(&left));
    let tile_size =
        if rows >= 64 { TileSizeSelection::MaxTileSize } else { TileSizeSelection::MinTileSize };
    let strategy = if terms >= LONG {
        Strategy::DoubleUnit(BlueprintStrategy::Inferred(DoubleUnitSelectionArgs { tile_size }))
    } else {
        Strategy::SimpleUnit(BlueprintStrategy::Inferred(SimpleUnitSelectionArgs { tile_size }))
    };
    let launched = launch(&strategy, left.clone(), right.clone());
    // A variant may need more shared memory than the device has.
    taken(launched.or_else(|_| launch(&Strategy::Naive, left, right)))
}

/// Returns the number of terms of each sum.
fn inner<R: CubeRuntime>(left: &CubeTensor<R>) -> usize {
    left.meta.shape()[left.meta.num_dims() - 1]
}

fn launch<R: CubeRuntime>(
    strategy: &Strategy,
    left: CubeTensor<R>,
    right: CubeTensor<R>,
) -> Result<CubeTensor<R>, MatmulSetupError> {
    let dtype = left.dtype;
    let client = left.client.clone();
    let rank = left.meta.num_dims();
    let mut shape: Vec<usize> = left.meta.shape().iter().copied().collect();
    shape[rank - 1] = right.meta.shape()[rank - 1];
    let output = empty(&left, shape);
    let global = MatmulGlobalElems { lhs: dtype.into(), rhs: dtype.into(), out: dtype.into() };
    launch_ref(
        strategy,
        &client,
        InputBinding::new(left.binding(), dtype.into()),
        InputBinding::new(right.binding(), dtype.into()),
        output.clone().binding(),
        &mut MatmulElems::from_globals(&global),
    )?;
    Ok(output)
}

fn taken<R: CubeRuntime>(product: Result<CubeTensor<R>, MatmulSetupError>) -> CubeTensor<R> {
    match product {
        Ok(product) => product,
        Err(error) => panic!("a matrix product that no kernel takes: {error:?}"),
    }
}
