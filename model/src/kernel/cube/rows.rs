//! Distribution of rows over units: several lanes per row, several rows per cube, and the sum over
//! the lanes of a row.

use burn::tensor::Shape;
use burn_cubecl::{CubeRuntime, ops::numeric::empty_device_contiguous_dtype, tensor::CubeTensor};
use cubecl::{
    calculate_cube_count_elemwise, features::Plane, prelude::*, tensor_vector_size_parallel,
};

use super::device::is_in_software;

/// Units per cube: enough to hide memory latency, few enough for every device.
const UNITS: usize = 256;
/// This many rows, one plane each, occupy every multiprocessor of a GPU.
const MANY_ROWS: usize = 256;

/// Units per cube of a driver in software, which begins each cube anew: cubes of 16, the number of CubeCL, take
/// up to 1.8 times as long.
const UNITS_IN_SOFTWARE: u32 = 64;

/// The launch of a kernel whose units share rows of a contiguous tensor.
///
/// `UNIT_POS_X` is the lane in the row, `CUBE_POS * CUBE_DIM_Y + UNIT_POS_Y` the row.
#[derive(Debug, Clone)]
pub(super) struct RowLaunch {
    /// Number of cubes for all rows.
    pub(super) count: CubeCount,
    /// Lanes by rows.
    pub(super) dim: CubeDim,
    /// Values per read; a divisor of the row's length.
    pub(super) vector: usize,
    /// Units that share a row, a power of two.
    pub(super) lanes: u32,
    /// True if lanes add through [`plane_shuffle_xor`]; otherwise they use shared memory.
    pub(super) shuffle: bool,
}

impl RowLaunch {
    /// Returns the launch for the rows of `x`, `width` values each.
    pub(super) fn of<R: CubeRuntime>(x: &CubeTensor<R>, width: usize) -> Self {
        Self::counted(x, x.meta.num_elements() / width, width)
    }

    /// Returns the launch for `rows` rows of the type of `x`, where units step through `width`
    /// values per row.
    pub(super) fn counted<R: CubeRuntime>(x: &CubeTensor<R>, rows: usize, width: usize) -> Self {
        let properties = x.client.properties();
        let vector = x
            .client
            .io_optimized_vector_sizes(x.dtype.size())
            .filter(|&size| width.is_multiple_of(size))
            .max()
            .unwrap_or(1);
        // A lane that reads two vectors hides part of the latency.
        let lanes = (width / vector).div_ceil(2).next_power_of_two().clamp(1, UNITS);
        // If rows alone fill a GPU, the lanes of one plane add without waiting for others.
        let plane = properties.hardware.plane_size_min as usize;
        let alone = rows >= MANY_ROWS && shuffles(&x.client, 2);
        let lanes = if alone { lanes.min(plane) } else { lanes };
        let per_cube = (UNITS / lanes).min(rows.next_power_of_two());
        let cubes = rows.div_ceil(per_cube);
        Self {
            count: spread(cubes),
            dim: CubeDim::new_2d(lanes as u32, per_cube as u32),
            vector,
            lanes: lanes as u32,
            shuffle: shuffles(&x.client, lanes),
        }
    }
}

/// True if `lanes` neighbouring units can read each other's values.
pub fn shuffles<R: Runtime>(client: &ComputeClient<R>, lanes: usize) -> bool {
    let properties = client.properties();
    let can = properties.features.plane.contains(Plane::Ops);
    #[cfg(feature = "testing")]
    let can = can || super::variants::shuffles_in_software();
    can && lanes <= properties.hardware.plane_size_min as usize
}

/// Returns this many cubes, in two dimensions if one dimension would be too long.
///
/// A kernel computes its place from `CUBE_POS` and must check that it exists.
pub(super) fn spread(cubes: usize) -> CubeCount {
    // The smallest limit per dimension of any runtime.
    const MOST: usize = 65_535;
    let rows = cubes.div_ceil(MOST);
    CubeCount::Static(cubes.div_ceil(rows) as u32, rows as u32, 1)
}

/// Returns the cubes and their size for `units` units that share nothing.
pub(super) fn elementwise<R: Runtime>(
    client: &ComputeClient<R>,
    units: usize,
) -> (CubeCount, CubeDim) {
    let dim = match is_in_software(client) {
        true => CubeDim::new_1d(UNITS_IN_SOFTWARE),
        false => CubeDim::new(client, units),
    };
    (calculate_cube_count_elemwise(client, units, dim), dim)
}

/// Allocates a contiguous tensor of this shape, in the type and on the device of `x`.
pub(super) fn empty<R: CubeRuntime>(x: &CubeTensor<R>, shape: impl Into<Shape>) -> CubeTensor<R> {
    empty_device_contiguous_dtype(x.client.clone(), x.device.clone(), shape.into(), x.dtype)
}

/// Returns the number of values that one read can take from each of `tensors` along the last axis.
pub(super) fn common_vector<'a, R: CubeRuntime>(
    tensors: impl IntoIterator<Item = &'a CubeTensor<R>>,
) -> usize {
    let vector = |x: &CubeTensor<R>| {
        let sizes = x.client.io_optimized_vector_sizes(x.dtype.size());
        tensor_vector_size_parallel(sizes, x.meta.shape(), x.meta.strides(), x.meta.num_dims() - 1)
    };
    tensors.into_iter().map(vector).min().unwrap_or(1)
}

/// Returns `1 / sqrt(mean + epsilon)`, the factor of a norm, from the sums of squares of a lane of a row of
/// `vectors` vectors. Every unit of the cube must call it.
#[cube]
pub(super) fn inverse_rms<N: Size>(
    squares: Vector<f32, N>,
    vectors: usize,
    epsilon: f32,
    #[comptime] lanes: u32,
    #[comptime] shuffle: bool,
) -> Vector<f32, N> {
    let mut sum = 0.0f32;
    #[unroll]
    for j in 0..squares.size() {
        sum += squares[j];
    }
    let mean = row_sum(sum, lanes, shuffle) / (vectors * squares.size()) as f32;
    Vector::<f32, N>::new(1.0f32 / f32::sqrt(mean + epsilon))
}

// ANCHOR: row_sum
/// Returns the sum of `value` over the lanes of a row. Every unit of the cube must call it.
#[cube]
pub(super) fn row_sum(value: f32, #[comptime] lanes: u32, #[comptime] shuffle: bool) -> f32 {
    let mut sum = value;
    if comptime!(shuffle) {
        #[unroll]
        for i in 0..comptime!(lanes.ilog2()) {
            sum += plane_shuffle_xor(sum, comptime!(1 << i));
        }
    } else {
        let mut shared = SharedMemory::<f32>::new(comptime!(UNITS));
        let place = (UNIT_POS_Y * lanes + UNIT_POS_X) as usize;
        shared[place] = sum;
        #[unroll]
        for i in 0..comptime!(lanes.ilog2()) {
            sync_cube();
            let reach = comptime!(lanes >> (i + 1));
            if UNIT_POS_X < reach {
                let other = shared[place + reach as usize];
                shared[place] += other;
            }
        }
        sync_cube();
        sum = shared[(UNIT_POS_Y * lanes) as usize];
        // The next sum may only start after all units have read this one.
        sync_cube();
    }
    sum
}
// ANCHOR_END: row_sum
