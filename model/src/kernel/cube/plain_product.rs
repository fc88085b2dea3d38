//! Matrix product and convolution of any sizes and memory orders by one kernel, for drivers in software.
//!
//! A unit computes a block of 4 by 4 or 8 by 8 outputs, term by term, in f32. All sizes and strides
//! are run-time numbers, so that two compilations serve everything of a type. A convolution is a
//! product whose rows are read once for each tap, each time further on; a product has one tap.
//!
//! Limits: at most two batch axes; no groups; no shared memory, no vectors.
//!
//! Burn's product has hundreds of variants, each slow to compile: see [`super::matrix`].
//!
//! Mesa's lavapipe reads a buffer lane by lane, sizes and strides too: with AVX2 some 20 cycles for each
//! lane. So the kernel reads them once, before its loop, and a large product has large blocks. For the
//! same reason the columns of a convolution ([`super::conv1d`]) take as long to write as its product takes.

use burn_cubecl::{CubeRuntime, kernel::into_contiguous, tensor::CubeTensor};
use cubecl::{calculate_cube_count_elemwise, prelude::*, zspace::metadata::Metadata};

use super::{super::ConvGeometry, rows::empty};

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

/// Matrix product, for drivers in software.
///
/// # Shapes
/// - `left`: `[.., m, k]`, `right`: `[.., k, n]`, output: `[.., m, n]`; a batch axis of 1 is
///   repeated
pub fn product<R: CubeRuntime>(left: CubeTensor<R>, right: CubeTensor<R>) -> CubeTensor<R> {
    let rank = left.meta.num_dims();
    let mut shape: Vec<usize> = left.meta.shape().iter().copied().collect();
    for (axis, size) in shape.iter_mut().enumerate().take(rank - 2) {
        *size = (*size).max(right.meta.shape()[axis]);
    }
    shape[rank - 1] = right.meta.shape()[rank - 1];
    let output = empty(&left, shape);
    launch(left, right, None, &output, 1, ConvGeometry::default());
    output
}

/// Convolution of one group.
///
/// # Shapes
/// - `x`: `[B, S, in]`, `weight`: `[1, k in, out]`, `bias`: `[out]`, output: `[B, S', out]`
pub(super) fn conv1d<R: CubeRuntime>(
    x: CubeTensor<R>,
    weight: CubeTensor<R>,
    bias: Option<CubeTensor<R>>,
    taps: usize,
    geometry: ConvGeometry,
) -> CubeTensor<R> {
    let [batch, samples, _] = x.meta.shape().dims();
    let outputs = geometry.outputs(samples, taps);
    let output = empty(&x, [batch, outputs, weight.meta.shape()[2]]);
    launch(x, weight, bias.map(into_contiguous), &output, taps, geometry);
    output
}

/// Launches the kernel; the number of taps and the geometry are those of a convolution.
fn launch<R: CubeRuntime>(
    left: CubeTensor<R>,
    right: CubeTensor<R>,
    bias: Option<CubeTensor<R>>,
    output: &CubeTensor<R>,
    taps: usize,
    geometry: ConvGeometry,
) {
    if output.meta.num_elements() == 0 {
        return;
    }
    let [left, right, output] = [left, right, output.clone()].map(with_all_axes);
    let [outer, inner, rows, columns] = output.meta.shape().dims();
    let block = block([outer * inner, rows, right.meta.shape()[2], columns]);
    let units = outer * inner * rows.div_ceil(block) * columns.div_ceil(block);
    let client = output.client.clone();
    let dim = CubeDim::new_1d(UNITS as u32);
    let [of_left, of_right, of_output] =
        [&left, &right, &output].map(|x| x.required_address_type());
    // Without a bias this tensor is not read.
    let biased = if bias.is_some() { columns } else { 0 };
    let bias = bias.unwrap_or_else(|| right.clone());
    let types = [output.dtype.into(), bias.dtype.into()];
    plain_product_kernel::launch::<R>(
        &client,
        calculate_cube_count_elemwise(&client, units, dim),
        dim,
        of_left.max(of_right).max(of_output),
        left.into_tensor_arg(),
        right.into_tensor_arg(),
        bias.into_tensor_arg(),
        output.into_tensor_arg(),
        units,
        biased,
        taps,
        geometry.stride,
        geometry.padding[0],
        geometry.dilation,
        block,
        types,
    );
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
#[allow(clippy::too_many_arguments, reason = "a kernel's inputs, and its launch")]
fn plain_product_kernel<T: Float, B: Float>(
    left: &Tensor<T>,
    right: &Tensor<T>,
    bias: &Tensor<B>,
    output: &mut Tensor<T>,
    units: usize,
    biased: usize,
    taps: usize,
    stride: usize,
    padding: usize,
    dilation: usize,
    #[comptime] block: usize,
    #[define(T, B)] _types: [StorageType; 2],
) {
    let (rows, columns) = (output.shape(2), output.shape(3));
    let (samples, terms, items) = (left.shape(2), left.shape(3), output.shape(1));
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

    let first_left = outer * of_outer.0 + inner * of_inner.0;
    let mut rights = Array::<usize>::new(block);
    let mut sums = Array::<f32>::new(comptime!(block * block));
    #[unroll]
    for j in 0..block {
        // What is beyond the last row or column is computed, and not written.
        rights[j] =
            outer * of_outer.1 + inner * of_inner.1 + min(column + j, columns - 1) * of_column;
        let mut sum = 0.0f32;
        if column + j < biased {
            sum = f32::cast_from(bias[column + j]);
        }
        #[unroll]
        for i in 0..block {
            sums[i * block + j] = sum;
        }
    }
    let mut lefts = Array::<usize>::new(block);
    let mut places = Array::<usize>::new(block);
    for tap in 0..taps {
        #[unroll]
        for i in 0..block {
            let place = min(row + i, rows - 1) * stride + tap * dilation;
            // Of a place that is left of the first sample, a number that is beyond the last one.
            places[i] = select(place < padding, samples, max(place, padding) - padding);
            lefts[i] = first_left + min(places[i], samples - 1) * of_row;
        }
        for term in 0..terms {
            let mut factors = Array::<f32>::new(block);
            #[unroll]
            for j in 0..block {
                factors[j] = f32::cast_from(right[rights[j] + (tap * terms + term) * of_right]);
            }
            #[unroll]
            for i in 0..block {
                let value = f32::cast_from(left[lefts[i] + term * of_left]);
                let factor = select(places[i] < samples, value, 0.0f32);
                #[unroll]
                for j in 0..block {
                    sums[i * block + j] += factor * factors[j];
                }
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
