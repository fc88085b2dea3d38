//! A weight times a few rows: what a language model does for every token it writes.
//!
//! `y[r, o] = sum_i W[o, i] x[r, i]`. The weight is read once, whatever the number of rows, in the
//! widest reads there are and straight into registers: its size over the memory's speed is the time
//! of a step, and nothing is gained by keeping it elsewhere in between. Sums are f32. Some lanes
//! share an output, and several reads are on their way before the first is used.
//!
//! Limits: up to [`FEW_ROWS`] rows; more are Burn's matrix product, which fills tensor cores.

use burn_cubecl::{
    CubeRuntime, kernel::into_contiguous, ops::numeric::empty_device_contiguous_dtype,
    tensor::CubeTensor,
};
use cubecl::{features::Plane, prelude::*};

use super::rows::{common_vector, row_sum, spread};

/// Most rows of `x` that one pass over the weight serves.
pub(super) const FEW_ROWS: usize = 8;

/// Units of a cube.
const UNITS: u32 = 256;

/// Reads of the weight that a unit has on their way.
const READS: usize = 4;

/// Whether [`matvec`] is for this many rows.
pub(super) fn is_for(rows: usize) -> bool {
    rows <= FEW_ROWS
}

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
    let shuffle = properties.features.plane.contains(Plane::Ops);
    let lanes = if shuffle { properties.hardware.plane_size_min.clamp(1, 32) } else { 32 };
    let vector = common_vector(&[&x, &weight]);
    let vectors = width / vector;
    // Two outputs a row of lanes read the same `x` once, where enough rows of lanes remain to fill
    // a card and their sums stay in registers.
    let together = if outputs >= 4096 && rows <= 4 { 2 } else { 1 };
    let deep = (1..=READS / together)
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
    let vectors = x.len() / rows;
    let first = (CUBE_POS * CUBE_DIM_Y as usize + UNIT_POS_Y as usize) * together;

    let mut starts = Array::<usize>::new(together);
    #[unroll]
    for o in 0..together {
        // Beyond the last output units go along, for all meet at the sum.
        starts[o] = select(first + o < outputs, first + o, 0usize) * vectors;
    }
    let mut sums = Array::<Vector<f32, N>>::new(comptime!(rows * together));
    #[unroll]
    for i in 0..comptime!(rows * together) {
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
            for r in 0..rows {
                let value = Vector::<f32, N>::cast_from(x[r * vectors + i + d * step]);
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
                for r in 0..rows {
                    let value = Vector::<f32, N>::cast_from(x[r * vectors + i]);
                    sums[r * together + o] += w * value;
                }
            }
            i += step;
        }
    }

    #[unroll]
    for r in 0..rows {
        #[unroll]
        for o in 0..together {
            let parts = sums[r * together + o];
            let mut sum = 0.0f32;
            #[unroll]
            for j in 0..parts.size() {
                sum += parts[j];
            }
            let total = row_sum(sum, lanes, shuffle);
            if UNIT_POS_X == 0 && first + o < outputs {
                output[r * outputs + first + o] = T::cast_from(total);
            }
        }
    }
}

#[cfg(all(test, feature = "wgpu", feature = "cpu"))]
mod tests {
    use burn::tensor::DType;

    use super::super::testing::{Operation, random, read, same_everywhere};
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
            (7, 1040, 65),
            (8, 96, 130),
            (9, 64, 40),
            (2, 64, 0),
        ];
        for (rows, width, outputs) in cases {
            let name = format!("product of {rows} rows, {width} to {outputs}");
            same_everywhere(&name, &Product { rows, width, outputs }, 1e-5);
        }
    }
}
