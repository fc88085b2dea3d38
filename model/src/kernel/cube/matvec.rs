//! A weight times a few rows: what a language model does for every token it writes.
//!
//! `y[r, o] = sum_i W[o, i] x[r, i]`. The weight is read once, whatever the number of rows, in the
//! widest reads there are and straight into registers: its size over the memory's speed is the time
//! of a step, and nothing is gained by keeping it elsewhere in between. Sums are f32. Some lanes
//! share an output, and several reads are on their way before the first is used.
//!
//! Limits: products of up to [`FEW_ROWS`] rows come here; more are Burn's, which fills tensor cores.
//!
//! Gain over Burn's product on Mesa lavapipe on two cores, 1024 to 3072 values: two rows (a token with
//! guidance) 4.1 times as fast, four rows 1.9 times, one row the same, eight rows 0.7 times, hence the
//! limit. That driver is bound by arithmetic; the share of a card's bandwidth can only be
//! measured on one.

use burn_cubecl::{
    CubeRuntime, kernel::into_contiguous, ops::numeric::empty_device_contiguous_dtype,
    tensor::CubeTensor,
};
use cubecl::prelude::*;

use super::rows::{common_vector, row_sum, shuffles, spread};

/// Most rows for which this is the faster product.
pub(super) const FEW_ROWS: usize = 4;

/// Rows whose sums stay in registers: beyond, the same outputs are gone through again, their weights
/// then in the nearest cache.
const IN_REGISTERS: usize = 4;

/// Units of a cube.
const UNITS: u32 = 256;

/// Reads of one output's weights that a unit has on their way.
const READS: usize = 4;

/// Whether a product of this many rows should be [`matvec`]'s.
pub(super) fn is_for(rows: usize) -> bool {
    rows <= FEW_ROWS
}

/// For any number of rows, in the type of `x`.
///
/// # Shapes
/// - `x`: `[rows, in]`, `weight`: `[out, in]`, output: `[rows, out]`
pub(super) fn matvec<R: CubeRuntime>(x: CubeTensor<R>, weight: CubeTensor<R>) -> CubeTensor<R> {
    let (x, weight) = (into_contiguous(x), into_contiguous(weight));
    let [rows, width] = x.meta.shape().dims();
    let outputs = weight.meta.shape()[0];
    let client = x.client.clone();
    let output = empty_device_contiguous_dtype(
        client.clone(),
        x.device.clone(),
        [rows, outputs].into(),
        x.dtype,
    );
    if output.meta.num_elements() == 0 {
        return output;
    }
    let properties = client.properties();
    let plane = properties.hardware.plane_size_min.clamp(1, 32);
    let shuffle = shuffles(&client, plane as usize);
    let lanes = if shuffle { plane } else { 32 };
    let vector = common_vector(&[&x, &weight]);
    let vectors = width / vector;
    // Two outputs a row of lanes read the same `x` once, where enough rows of lanes remain to fill
    // a card and their sums stay in registers.
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

/// The products of `count` rows from `first` on.
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
        // Beyond the last output units go along, for all meet at the sum.
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

#[cfg(all(test, feature = "wgpu", feature = "cpu"))]
mod tests {
    use burn::tensor::DType;

    use super::super::testing::{Operation, random, read, same_everywhere, same_with_shuffles};
    use crate::{Backend, kernel};

    struct Product {
        rows: usize,
        width: usize,
        outputs: usize,
    }

    impl Operation for Product {
        fn run<B: Backend>(&self, dtype: DType, device: &B::Device) -> Vec<f32> {
            let x = random::<B, 2>([self.width, self.rows], 1, dtype, device).transpose();
            let weight = random::<B, 2>([self.outputs, self.width], 2, dtype, device);
            read(kernel::linear(x, weight, None))
        }
    }

    /// Rows that one pass serves and one too many; outputs that fill no cube; widths of all kinds.
    #[test]
    fn products_of_every_size() {
        let cases = [
            (1, 1, 1),
            (1, 1024, 96),
            (2, 1024, 33),
            (2, 136, 4099),
            (3, 7, 5),
            (4, 200, 4097),
            (4, 1040, 65),
            (5, 64, 40),
            (2, 64, 0),
        ];
        for (rows, width, outputs) in cases {
            let name = format!("product of {rows} rows, {width} to {outputs}");
            same_everywhere(&name, &Product { rows, width, outputs }, 1e-5);
            same_with_shuffles(&name, &Product { rows, width, outputs }, 1e-5);
        }
    }
}
