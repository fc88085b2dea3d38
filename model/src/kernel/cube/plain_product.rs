//! Matrix product of any sizes and memory orders by one kernel, for drivers in software.
//!
//! A unit computes a block of 4 by 4 or 8 by 8 outputs, term by term, in f32. All sizes and strides
//! are run-time numbers, so that two compilations serve every product of a type.
//!
//! Limits: at most two batch axes; no shared memory, no vectors.
//!
//! Burn's product has hundreds of variants, by sizes, memory orders and divisors. A driver in
//! software compiles each of them for one to ten seconds.
//!
//! Mesa's lavapipe reads a buffer lane by lane, sizes and strides too: with AVX2 some 20 cycles for each
//! lane. So the kernel reads them once, before its loop, and a large product has large blocks.

use burn_cubecl::{CubeRuntime, tensor::CubeTensor};
use cubecl::{calculate_cube_count_elemwise, prelude::*, zspace::metadata::Metadata};

use super::rows::empty;

/// Outputs of a block in each direction: of a small product, and of a large one.
const BLOCKS: [usize; 2] = [4, 8];
/// Units per cube.
const UNITS: usize = 32;
/// Axes of the tensors in the kernel: two of the batch, rows, columns.
const AXES: usize = 4;
/// Multiplications from which a product is large.
const LARGE: usize = 1 << 20;

/// True if [`product`] supports these tensors.
pub(super) fn takes<R: CubeRuntime>(left: &CubeTensor<R>, right: &CubeTensor<R>) -> bool {
    let (rank, other) = (left.meta.num_dims(), right.meta.num_dims());
    (2..=AXES).contains(&rank) && rank == other
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
    let block = block([outer * inner, rows, left.meta.shape()[3], columns]);
    let units = outer * inner * rows.div_ceil(block) * columns.div_ceil(block);
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
        block,
        dtype,
    );
    output
}

/// Outputs of a block in each direction for `[batches, rows, terms, columns]`.
fn block([batches, rows, terms, columns]: [usize; 4]) -> usize {
    let large = [rows, terms, columns].into_iter().fold(batches, usize::saturating_mul) >= LARGE;
    BLOCKS[usize::from(large && rows.min(columns) >= BLOCKS[1])]
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
    #[comptime] block: usize,
    #[define(T)] _type: StorageType,
) {
    let (rows, columns) = (output.shape(2), output.shape(3));
    let (terms, items) = (left.shape(3), output.shape(1));
    let (of_outer, of_inner) =
        ((left.stride(0), right.stride(0)), (left.stride(1), right.stride(1)));
    let (of_row, of_column) = (left.stride(2), right.stride(3));
    let (of_left, of_right) = (left.stride(3), right.stride(2));
    if ABSOLUTE_POS >= units {
        terminate!();
    }
    let (across, down) = (columns.div_ceil(block), rows.div_ceil(block));
    let column = ABSOLUTE_POS % across * block;
    let row = ABSOLUTE_POS / across % down * block;
    let batch = ABSOLUTE_POS / (across * down);
    let (outer, inner) = (batch / items, batch % items);

    let mut lefts = Array::<usize>::new(block);
    let mut rights = Array::<usize>::new(block);
    #[unroll]
    for i in 0..block {
        // What is beyond the last row or column is computed, and not written.
        lefts[i] = outer * of_outer.0 + inner * of_inner.0 + min(row + i, rows - 1) * of_row;
        rights[i] =
            outer * of_outer.1 + inner * of_inner.1 + min(column + i, columns - 1) * of_column;
    }
    let mut sums = Array::<f32>::new(comptime!(block * block));
    #[unroll]
    for i in 0..comptime!(block * block) {
        sums[i] = 0.0f32;
    }
    for term in 0..terms {
        let mut factors = Array::<f32>::new(block);
        #[unroll]
        for i in 0..block {
            factors[i] = f32::cast_from(right[rights[i] + term * of_right]);
        }
        #[unroll]
        for i in 0..block {
            let factor = f32::cast_from(left[lefts[i] + term * of_left]);
            #[unroll]
            for j in 0..block {
                sums[i * block + j] += factor * factors[j];
            }
        }
    }
    let first = batch * rows * columns;
    #[unroll]
    for i in 0..block {
        #[unroll]
        for j in 0..block {
            if row + i < rows && column + j < columns {
                output[first + (row + i) * columns + column + j] =
                    T::cast_from(sums[i * block + j]);
            }
        }
    }
}
