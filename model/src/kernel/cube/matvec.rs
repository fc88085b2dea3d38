//! The product of a weight with a few rows, which a language model computes for every token.
//!
//! `y[r, o] = sum_i W[o, i] x[r, i]`. The weight is read once for any number of rows, with the
//! widest possible reads, directly into registers. So a step takes the weight's size over the
//! memory bandwidth, and shared memory would not help. Sums are f32. Several lanes share an output,
//! and several reads are in flight before the first is used.
//!
//! Limits: it handles products of up to [`FEW_ROWS`] rows; Burn handles more rows, with tensor
//! cores.
//!
//! Gain over Burn's product on Mesa lavapipe on two cores, 1024 to 3072 values: two rows (a token
//! with guidance) are 4.1 times as fast, four rows 1.9 times, one row the same, eight rows 0.7
//! times, hence the limit. That driver is compute-bound; the share of the memory bandwidth can only
//! be measured on a GPU.

use burn_cubecl::{CubeRuntime, kernel::into_contiguous, tensor::CubeTensor};
use cubecl::prelude::*;

use super::rows::{common_vector, empty, row_sum, shuffles, spread};

/// Maximum number of rows for which this product is faster.
pub(super) const FEW_ROWS: usize = 4;

/// Rows whose sums stay in registers. More rows repeat the same outputs, whose weights are then in
/// the nearest cache.
const IN_REGISTERS: usize = 4;

/// Units per cube.
const UNITS: u32 = 256;

/// Reads of one output's weights that a unit has in flight.
const READS: usize = 4;

/// True if [`matvec`] should compute a product of this many rows.
pub(super) fn is_for(rows: usize) -> bool {
    rows <= FEW_ROWS
}

/// Works for any number of rows, in the type of `x`.
///
/// # Shapes
/// - `x`: `[rows, in]`, `weight`: `[out, in]`, output: `[rows, out]`
pub(super) fn matvec<R: CubeRuntime>(x: CubeTensor<R>, weight: CubeTensor<R>) -> CubeTensor<R> {
    let (x, weight) = (into_contiguous(x), into_contiguous(weight));
    let [rows, width] = x.meta.shape().dims();
    let outputs = weight.meta.shape()[0];
    let client = x.client.clone();
    let output = empty(&x, [rows, outputs]);
    if output.meta.num_elements() == 0 {
        return output;
    }
    let properties = client.properties();
    let plane = properties.hardware.plane_size_min.clamp(1, 32);
    let shuffle = shuffles(&client, plane as usize);
    let lanes = if shuffle { plane } else { 32 };
    let vector = common_vector([&x, &weight]);
    let vectors = width / vector;
    // Two outputs per row of lanes read the same `x` once, if there are still enough rows of lanes
    // to fill a GPU and the sums stay in registers.
    let together = if outputs >= 2048 && rows <= 2 { 2 } else { 1 };
    let deep = (1..=READS)
        .rev()
        .find(|deep| deep.is_power_of_two() && deep * lanes as usize <= vectors)
        .unwrap_or(1);
    let per_cube = ((UNITS / lanes) as usize).min(outputs.div_ceil(together).next_power_of_two());
    let types = [x.dtype.into(), weight.dtype.into()];
    matvec_kernel::launch::<R>(
        &client,
        spread(outputs.div_ceil(per_cube * together)),
        CubeDim::new_2d(lanes, per_cube as u32),
        vector,
        x.into_tensor_arg(),
        weight.into_tensor_arg(),
        output.clone().into_tensor_arg(),
        outputs,
        rows,
        together,
        deep,
        lanes,
        shuffle,
        types,
    );
    output
}

#[cube(launch)]
#[allow(clippy::too_many_arguments, reason = "a kernel's inputs, and its launch")]
fn matvec_kernel<T: Float, W: Float, N: Size>(
    x: &Tensor<Vector<T, N>>,
    weight: &Tensor<Vector<W, N>>,
    output: &mut Tensor<T>,
    outputs: usize,
    #[comptime] rows: usize,
    #[comptime] together: usize,
    #[comptime] deep: usize,
    #[comptime] lanes: u32,
    #[comptime] shuffle: bool,
    #[define(T, W)] _types: [StorageType; 2],
) {
    #[unroll]
    for group in 0..comptime!(rows.div_ceil(IN_REGISTERS)) {
        let first = comptime!(group * IN_REGISTERS);
        let count = comptime!(Ord::min(IN_REGISTERS, rows - first));
        multiply::<T, W, N>(
            x, weight, output, outputs, rows, first, count, together, deep, lanes, shuffle,
        );
    }
}

/// Computes the products of `count` rows from `first` on.
#[cube]
#[allow(clippy::too_many_arguments, reason = "what the kernel was given, and which rows")]
fn multiply<T: Float, W: Float, N: Size>(
    x: &Tensor<Vector<T, N>>,
    weight: &Tensor<Vector<W, N>>,
    output: &mut Tensor<T>,
    outputs: usize,
    #[comptime] rows: usize,
    #[comptime] first: usize,
    #[comptime] count: usize,
    #[comptime] together: usize,
    #[comptime] deep: usize,
    #[comptime] lanes: u32,
    #[comptime] shuffle: bool,
) {
    let vectors = x.len() / rows;
    let place = (CUBE_POS * CUBE_DIM_Y as usize + UNIT_POS_Y as usize) * together;

    let mut starts = Array::<usize>::new(together);
    #[unroll]
    for o in 0..together {
        // Units beyond the last output continue, because all must reach the sum.
        starts[o] = select(place + o < outputs, place + o, 0usize) * vectors;
    }
    let mut sums = Array::<Vector<f32, N>>::new(comptime!(count * together));
    #[unroll]
    for i in 0..comptime!(count * together) {
        sums[i] = Vector::new(0.0f32);
    }

    let step = comptime!(lanes as usize);
    let mut i = UNIT_POS_X as usize;
    while i + comptime!((deep - 1) * step) < vectors {
        let mut read = Array::<Vector<W, N>>::new(comptime!(together * deep));
        #[unroll]
        for o in 0..together {
            #[unroll]
            for d in 0..deep {
                read[o * deep + d] = weight[starts[o] + i + d * step];
            }
        }
        #[unroll]
        for d in 0..deep {
            #[unroll]
            for r in 0..count {
                let value = Vector::<f32, N>::cast_from(x[(first + r) * vectors + i + d * step]);
                #[unroll]
                for o in 0..together {
                    let w = Vector::<f32, N>::cast_from(read[o * deep + d]);
                    sums[r * together + o] += w * value;
                }
            }
        }
        i += comptime!(deep * step);
    }
    if comptime!(deep > 1) {
        while i < vectors {
            #[unroll]
            for o in 0..together {
                let w = Vector::<f32, N>::cast_from(weight[starts[o] + i]);
                #[unroll]
                for r in 0..count {
                    let value = Vector::<f32, N>::cast_from(x[(first + r) * vectors + i]);
                    sums[r * together + o] += w * value;
                }
            }
            i += step;
        }
    }

    #[unroll]
    for r in 0..count {
        #[unroll]
        for o in 0..together {
            let parts = sums[r * together + o];
            let mut sum = 0.0f32;
            #[unroll]
            for j in 0..parts.size() {
                sum += parts[j];
            }
            let total = row_sum(sum, lanes, shuffle);
            if UNIT_POS_X == 0 && place + o < outputs {
                output[(first + r) * outputs + place + o] = T::cast_from(total);
            }
        }
    }
}
