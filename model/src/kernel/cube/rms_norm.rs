//! Root-mean-square norm of rows: read once, summed in f32, written once.
//!
//! `y = w x / sqrt(mean(x^2) + epsilon)`. Several units share a row. As plain operations it is a
//! square, a mean, a root and two products, and each reads and writes the whole tensor.
//!
//! Limits: rows are made contiguous first; any width.
//!
//! Gain over the plain operations on Mesa lavapipe on two cores: 375 rows of 2048 values are 2.0
//! times as fast, or 2.1 times if Burn fuses what it can.

use burn_cubecl::{CubeRuntime, kernel::into_contiguous, tensor::CubeTensor};
use cubecl::prelude::*;

use super::rows::{RowLaunch, empty, inverse_rms};

/// # Shapes
/// - `x`, output: `[rows, H]`, `weight`: `[H]`
pub(super) fn rms_norm<R: CubeRuntime>(
    x: CubeTensor<R>,
    weight: CubeTensor<R>,
    epsilon: f64,
) -> CubeTensor<R> {
    let (x, weight) = (into_contiguous(x), into_contiguous(weight));
    let output = empty(&x, x.meta.shape().clone());
    if x.meta.num_elements() == 0 {
        return output;
    }
    let width = x.meta.shape()[x.meta.num_dims() - 1];
    let rows = RowLaunch::of(&x, width);
    rms_norm_kernel::launch::<R>(
        &x.client.clone(),
        rows.count.clone(),
        rows.dim,
        rows.vector,
        x.clone().into_tensor_arg(),
        weight.clone().into_tensor_arg(),
        output.clone().into_tensor_arg(),
        epsilon as f32,
        rows.lanes,
        rows.shuffle,
        [x.dtype.into(), weight.dtype.into()],
    );
    output
}

#[cube(launch)]
fn rms_norm_kernel<T: Float, W: Float, N: Size>(
    x: &Tensor<Vector<T, N>>,
    weight: &Tensor<Vector<W, N>>,
    output: &mut Tensor<Vector<T, N>>,
    epsilon: f32,
    #[comptime] lanes: u32,
    #[comptime] shuffle: bool,
    #[define(T, W)] _types: [StorageType; 2],
) {
    let vectors = weight.len();
    let row = CUBE_POS * CUBE_DIM_Y as usize + UNIT_POS_Y as usize;
    let rows = x.len() / vectors;
    // Units beyond the last row continue, because all must reach the sum; they read row 0.
    let start = select(row < rows, row * vectors, 0usize);

    let mut squares = Vector::<f32, N>::new(0.0f32);
    let mut i = UNIT_POS_X as usize;
    while i < vectors {
        let value = Vector::<f32, N>::cast_from(x[start + i]);
        squares += value * value;
        i += lanes as usize;
    }
    let inverse = inverse_rms::<N>(squares, vectors, epsilon, lanes, shuffle);

    if row < rows {
        let mut i = UNIT_POS_X as usize;
        while i < vectors {
            let value = Vector::<f32, N>::cast_from(x[start + i]) * inverse;
            // Rounded like the reference: to the tensor's type, then multiplied by the weight.
            let value = Vector::<T, N>::cast_from(value);
            output[start + i] = value * Vector::<T, N>::cast_from(weight[i]);
            i += lanes as usize;
        }
    }
}
