//! Matrix product of any sizes and memory orders by one kernel, for drivers in software.
//!
//! A unit computes a block of 4 by 4 outputs, term by term, in f32. All sizes and strides are
//! run-time numbers, so that one compilation serves every product of a type.
//!
//! Limits: at most two batch axes; no shared memory, no vectors.
//!
//! Burn's product has hundreds of variants, by sizes, memory orders and divisors. A driver in
//! software compiles each of them for one to ten seconds, which only a large product is worth: see
//! [`takes`].

use burn_cubecl::{CubeRuntime, tensor::CubeTensor};
use cubecl::{calculate_cube_count_elemwise, prelude::*, zspace::metadata::Metadata};

use super::rows::empty;

/// Outputs of a block in each direction.
const BLOCK: usize = 4;
/// Units per cube.
const UNITS: usize = 32;
/// Axes of the tensors in the kernel: two of the batch, rows, columns.
const AXES: usize = 4;
/// Largest number of multiplications for which this kernel is worth while.
const MOST: usize = 1 << 26;

/// True if [`product`] supports these tensors, and compiling a variant of Burn's would take longer
/// than it.
pub(super) fn takes<R: CubeRuntime>(left: &CubeTensor<R>, right: &CubeTensor<R>) -> bool {
    let (rank, other) = (left.meta.num_dims(), right.meta.num_dims());
    (2..=AXES).contains(&rank) && rank == other && {
        let columns = right.meta.shape()[rank - 1];
        left.meta.num_elements().saturating_mul(columns) <= MOST
    }
}

/// # Shapes
/// - `left`: `[.., m, k]`, `right`: `[.., k, n]`, output: `[.., m, n]`; a batch axis of 1 is
///   repeated
pub(super) fn product<R: CubeRuntime>(left: CubeTensor<R>, right: CubeTensor<R>) -> CubeTensor<R> {
    let rank = left.meta.num_dims();
    let mut shape: Vec<usize> = left.meta.shape().iter().copied().collect();
    for (axis, size) in shape.iter_mut().enumerate().take(rank - 2) {
        *size = (*size).max(right.meta.shape()[axis]);
    }
    shape[rank - 1] = right.meta.shape()[rank - 1];
    let output = empty(&left, shape);
    if output.meta.num_elements() == 0 {
        return output;
    }
    let [left, right, whole] = [left, right, output.clone()].map(with_all_axes);
    let [outer, inner, rows, columns] = whole.meta.shape().dims();
    let units = outer * inner * rows.div_ceil(BLOCK) * columns.div_ceil(BLOCK);
    let client = whole.client.clone();
    let dim = CubeDim::new_1d(UNITS as u32);
    let [of_left, of_right, of_output] = [&left, &right, &whole].map(|x| x.required_address_type());
    let dtype = whole.dtype.into();
    plain_product_kernel::launch::<R>(
        &client,
        calculate_cube_count_elemwise(&client, units, dim),
        dim,
        of_left.max(of_right).max(of_output),
        left.into_tensor_arg(),
        right.into_tensor_arg(),
        whole.into_tensor_arg(),
        units,
        dtype,
    );
    output
}

/// Returns a view of four axes. The stride of an axis of one is 0, so that a batch axis is repeated.
fn with_all_axes<R: CubeRuntime>(mut x: CubeTensor<R>) -> CubeTensor<R> {
    let missing = AXES - x.meta.num_dims();
    let (mut shape, mut strides) = ([1; AXES], [0; AXES]);
    for axis in missing..AXES {
        shape[axis] = x.meta.shape()[axis - missing];
        strides[axis] = if shape[axis] == 1 { 0 } else { x.meta.strides()[axis - missing] };
    }
    *x.meta = Metadata::new(shape, strides);
    x
}

#[cube(launch, address_type = "dynamic")]
fn plain_product_kernel<T: Float>(
    left: &Tensor<T>,
    right: &Tensor<T>,
    output: &mut Tensor<T>,
    units: usize,
    #[define(T)] _type: StorageType,
) {
    if ABSOLUTE_POS >= units {
        terminate!();
    }
    let (rows, columns) = (output.shape(2), output.shape(3));
    let (across, down) = (columns.div_ceil(BLOCK), rows.div_ceil(BLOCK));
    let column = ABSOLUTE_POS % across * BLOCK;
    let row = ABSOLUTE_POS / across % down * BLOCK;
    let batch = ABSOLUTE_POS / (across * down);
    let (outer, inner) = (batch / output.shape(1), batch % output.shape(1));

    let mut lefts = Array::<usize>::new(BLOCK);
    let mut rights = Array::<usize>::new(BLOCK);
    #[unroll]
    for i in 0..BLOCK {
        // What is beyond the last row or column is computed, and not written.
        lefts[i] = outer * left.stride(0)
            + inner * left.stride(1)
            + min(row + i, rows - 1) * left.stride(2);
        rights[i] = outer * right.stride(0)
            + inner * right.stride(1)
            + min(column + i, columns - 1) * right.stride(3);
    }
    let mut sums = Array::<f32>::new(comptime!(BLOCK * BLOCK));
    #[unroll]
    for i in 0..comptime!(BLOCK * BLOCK) {
        sums[i] = 0.0f32;
    }
    for term in 0..left.shape(3) {
        let mut factors = Array::<f32>::new(BLOCK);
        #[unroll]
        for i in 0..BLOCK {
            factors[i] = f32::cast_from(right[rights[i] + term * right.stride(2)]);
        }
        #[unroll]
        for i in 0..BLOCK {
            let factor = f32::cast_from(left[lefts[i] + term * left.stride(3)]);
            #[unroll]
            for j in 0..BLOCK {
                sums[i * BLOCK + j] += factor * factors[j];
            }
        }
    }
    let first = batch * rows * columns;
    #[unroll]
    for i in 0..BLOCK {
        #[unroll]
        for j in 0..BLOCK {
            if row + i < rows && column + j < columns {
                output[first + (row + i) * columns + column + j] =
                    T::cast_from(sums[i * BLOCK + j]);
            }
        }
    }
}
