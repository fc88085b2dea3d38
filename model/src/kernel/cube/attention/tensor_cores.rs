//! Attention with cooperative matrices (tensor cores) of f16 or bf16 and sums in f32.
//!
//! A cube has up to 64 rows of one key head, sixteen per plane. Queries, a tile of keys and then of
//! values, scores and weights are in shared memory. The mixed values stay in the planes' matrices,
//! whose layout only the device knows. So they are rescaled through shared memory, and only if a
//! row's scores grow by more than [`HEADROOM`]; `a / l` is the same for any `m` that is close
//! enough.
//!
//! Limits: `D` is a multiple of 16, planes have exactly 32 units (NVIDIA; AMD and Intel use
//! [`super::units`]), and matrices are 16 by 16 by 16.
//!
//! The gain was not measured for lack of a GPU. No software driver has such matrices.
//!
//! Everything except the matrix products is shared with [`super::units`], or can run without
//! matrices: [`super::Routine::Emulated`] replaces them with the loops of [`super::emulated`].

use burn::tensor::DType;
use burn_cubecl::{CubeRuntime, tensor::CubeTensor};
use cubecl::{
    cmma,
    ir::{ElemType, FloatKind, features::MmaConfig},
    prelude::*,
};

use super::super::rows::{shuffles, spread};
use super::emulated::{looped_in, looped_mix, looped_out, looped_scores};
use super::sight::{Reach, keys_from, keys_until, sees};
use super::teams::{KernelParams, across_lanes, row_of};
use super::{Call, LANES, TEAM_ROWS, VECTOR, hidden_score, mean_value, place};

/// Units of a plane, which multiply matrices together.
pub(super) const PLANE: usize = 32;
/// Rows and columns of a matrix.
pub(super) const SIDE: usize = 16;
/// Values between rows in shared memory: half a matrix. Rows that are read together are then in
/// different banks, and every matrix is aligned.
const GAP: usize = SIDE / 2;
/// Maximum excess of a score over the row's measure before the measure is raised. A weight is then
/// at most `e^8 = 2981`, which f16 can hold and f32 can sum.
const HEADROOM: f32 = 8.0;
/// Keys per tile, best first.
const TILES: [usize; 2] = [64, 32];
/// Alignment of shared memory, in bytes.
const ALIGNMENT: usize = 128;

/// Vector over the rows of a team.
type TeamRows = Const<TEAM_ROWS>;

/// Parameters of the kernel source besides its types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Cores {
    pub(super) plan: KernelParams,
    /// Values per read.
    pub(super) vector: usize,
    emulated: bool,
}

impl Cores {
    pub(super) fn width(&self) -> usize {
        self.plan.vectors * VECTOR
    }

    /// Returns the number of matrices side by side in a row of values.
    fn sides(&self) -> usize {
        self.width() / SIDE
    }

    /// Returns the distance of rows of queries, keys or values, in vectors.
    pub(super) fn pitch(&self) -> usize {
        (self.width() + GAP) / self.vector
    }

    /// Returns the distance of rows of scores or weights.
    pub(super) fn score_pitch(&self) -> usize {
        self.plan.keys + GAP
    }

    /// Returns the number of mixed values in shared memory, which replace the matrices.
    fn mixed(&self) -> usize {
        if self.emulated { self.plan.rows * self.width() } else { 1 }
    }

    /// Returns the bytes of shared memory of a cube.
    fn bytes(&self, value: usize) -> usize {
        let KernelParams { rows, keys, .. } = self.plan;
        let tiles = (rows + keys) * (self.width() + GAP) * value;
        let scores = rows * self.score_pitch() * (size_of::<f32>() + value);
        let exchange = if self.plan.shuffle { 0 } else { 2 * self.plan.units() * TEAM_ROWS };
        let floats = rows + self.plan.teams() + self.mixed() + exchange;
        tiles + scores + floats * size_of::<f32>() + 8 * ALIGNMENT
    }
}

/// True if the device supports such matrices and has the memory. Emulation only needs the memory.
pub(super) fn takes<R: CubeRuntime>(call: &Call<R>, emulated: bool) -> bool {
    let float = match call.q.dtype {
        DType::F16 => FloatKind::F16,
        DType::BF16 => FloatKind::BF16,
        _ if emulated => FloatKind::F32,
        _ => return false,
    };
    let properties = call.q.client.properties();
    let of = |kind: FloatKind| ElemType::Float(kind).into();
    let matrices = properties.features.matmul.cmma.contains(&MmaConfig {
        a_type: of(float),
        b_type: of(float),
        cd_type: of(FloatKind::F32),
        m: SIDE as u32,
        n: SIDE as u32,
        k: SIDE as u32,
    });
    let hardware = &properties.hardware;
    let planes = [hardware.plane_size_min, hardware.plane_size_max] == [PLANE as u32; 2];
    call.width().is_multiple_of(SIDE)
        && (emulated || matrices && planes)
        && cores(call, emulated).is_some()
}

fn cores<R: CubeRuntime>(call: &Call<R>, emulated: bool) -> Option<Cores> {
    let client = &call.q.client;
    let hardware = &client.properties().hardware;
    let size = call.q.dtype.size();
    let strides_allow = |vector: &usize| {
        let tensors = [&call.q, &call.k, &call.v];
        tensors.iter().all(|x| x.meta.strides()[..3].iter().all(|s| s.is_multiple_of(*vector)))
    };
    let vectors =
        client.io_optimized_vector_sizes(size).filter(|&n| n == VECTOR || n == 2 * VECTOR);
    let vector = vectors.filter(strides_allow).max()?;
    let with = |keys: usize| Cores {
        plan: KernelParams {
            vectors: call.width() / VECTOR,
            group: call.group(),
            sight: call.sight.0,
            padded: call.keys.is_some(),
            rows: call.rows().next_power_of_two().clamp(SIDE, if emulated { 32 } else { 64 }),
            keys,
            shuffle: shuffles(client, LANES),
        },
        vector,
        emulated,
    };
    let fits = |cores: &Cores| cores.bytes(size) <= hardware.max_shared_memory_size;
    TILES.into_iter().map(with).find(fits)
}

/// Writes the attention of `call` to `output`, `[B, Lq, heads, D]`.
///
/// # Panics
/// If [`takes`] returns false for the call.
pub(super) fn launch<R: CubeRuntime>(call: &Call<R>, output: &CubeTensor<R>, emulated: bool) {
    let cores = cores(call, emulated).expect("asked whether it is taken");
    let flags = call.flags();
    let cubes = call.items() * call.rows().div_ceil(cores.plan.rows);
    attention_tensor_cores_kernel::launch::<R>(
        &output.client,
        spread(cubes),
        CubeDim::new_2d(LANES as u32, cores.plan.teams() as u32),
        cores.vector,
        call.q.clone().into_tensor_arg(),
        call.k.clone().into_tensor_arg(),
        call.v.clone().into_tensor_arg(),
        flags.clone().into_tensor_arg(),
        output.clone().into_tensor_arg(),
        call.sight.1.launch(),
        call.scale(),
        cores,
        [output.dtype.into(), flags.dtype.into()],
    );
}

#[allow(clippy::assign_op_pattern, reason = "the macro writes it so")]
#[cube(launch)]
fn attention_tensor_cores_kernel<T: Float, K: Numeric, N: Size>(
    q: &Tensor<Vector<T, N>>,
    k: &Tensor<Vector<T, N>>,
    v: &Tensor<Vector<T, N>>,
    flags: &Tensor<K>,
    output: &mut Tensor<Vector<T, N>>,
    reach: &Reach,
    scale: f32,
    #[comptime] cores: Cores,
    #[define(T, K)] _types: [StorageType; 2],
) {
    let plan = comptime!(cores.plan);
    let (lane, team) = (UNIT_POS_X as usize, UNIT_POS_Y as usize);
    let (unit, plane) = (UNIT_POS as usize % PLANE, UNIT_POS as usize / PLANE);
    let (vector, pitch, score_pitch) =
        comptime!((cores.vector, cores.pitch(), cores.score_pitch()));
    let vectors = comptime!(cores.width() / cores.vector);
    let per_lane = comptime!(plan.keys / LANES);

    let keys = k.shape(2);
    let rows = q.shape(2) * plan.group;
    let blocks = rows.div_ceil(plan.rows);
    if CUBE_POS >= blocks * k.shape(0) * k.shape(1) {
        terminate!();
    }
    let block = CUBE_POS % blocks;
    let kv_head = CUBE_POS / blocks % k.shape(1);
    let batch = CUBE_POS / blocks / k.shape(1);
    let first_row = block * plan.rows;
    let last_row = min(first_row + plan.rows, rows) - 1;
    let k_start = (batch * k.stride(0) + kv_head * k.stride(1)) / vector;
    let v_start = (batch * v.stride(0) + kv_head * v.stride(1)) / vector;

    let mut queries =
        SharedMemory::<Vector<T, N>>::new_aligned(comptime!(plan.rows * pitch), ALIGNMENT);
    let mut tile =
        SharedMemory::<Vector<T, N>>::new_aligned(comptime!(plan.keys * pitch), ALIGNMENT);
    let mut scores =
        SharedMemory::<f32>::new_aligned(comptime!(plan.rows * score_pitch), ALIGNMENT);
    let mut weights = SharedMemory::<T>::new_aligned(comptime!(plan.rows * score_pitch), ALIGNMENT);
    // The factor of each row, and at the end its sum.
    let mut factors = SharedMemory::<f32>::new(comptime!(plan.rows));
    // Nonzero if a team's rows must be rescaled.
    let mut rescales = SharedMemory::<u32>::new(comptime!(plan.teams()));
    let mut looped = SharedMemory::<f32>::new(comptime!(cores.mixed()));

    let mut i = UNIT_POS as usize;
    while i < comptime!(plan.rows * vectors) {
        let (row, column) = (min(first_row + i / vectors, last_row), i % vectors);
        let head = kv_head * plan.group + row % plan.group;
        let start = batch * q.stride(0) + head * q.stride(1) + row / plan.group * q.stride(2);
        queries[i / vectors * pitch + column] = q[start / vector + column];
        i += comptime!(plan.units());
    }

    // This plane's rows of the result so far, sixteen columns each.
    let mut mixed = Sequence::<cmma::Matrix<f32>>::new();
    if comptime!(cores.emulated) {
        let mut i = UNIT_POS as usize;
        while i < comptime!(cores.mixed()) {
            looped[i] = 0.0f32;
            i += comptime!(plan.units());
        }
    } else {
        #[unroll]
        for _ in 0..comptime!(cores.sides()) {
            mixed.push(sums_of_zero());
        }
    }
    let mut measure = Vector::<f32, TeamRows>::new(hidden_score());
    let mut sum = Vector::<f32, TeamRows>::new(0.0f32);

    let end = keys_until(last_row / plan.group, reach, keys, plan.sight);
    let mut start = keys_from(first_row / plan.group, reach, plan.sight);
    while start < end {
        sync_cube();
        fill_tile::<T, N>(k, &mut tile, k_start, start, keys, cores);
        sync_cube();
        if comptime!(cores.emulated) {
            looped_scores::<T, N>(&queries, &tile, &mut scores, plane, unit, cores);
        } else {
            let mut products = Sequence::<cmma::Matrix<f32>>::new();
            #[unroll]
            for _ in 0..comptime!(plan.keys / SIDE) {
                products.push(sums_of_zero());
            }
            #[unroll]
            for side in 0..comptime!(cores.sides()) {
                let column = comptime!(side * SIDE / vector);
                let left = cmma::Matrix::<Vector<T, N>>::from_slice(
                    cmma::MatrixIdent::A,
                    SIDE,
                    SIDE,
                    SIDE,
                    cmma::MatrixLayout::RowMajor,
                    &queries.slice(plane * SIDE * pitch + column, comptime!(plan.rows * pitch)),
                    comptime!((pitch * vector) as u32),
                );
                #[unroll]
                for j in 0..comptime!(plan.keys / SIDE) {
                    let right = cmma::Matrix::<Vector<T, N>>::from_slice(
                        cmma::MatrixIdent::B,
                        SIDE,
                        SIDE,
                        SIDE,
                        cmma::MatrixLayout::ColMajor,
                        &tile.slice(
                            comptime!(j * SIDE * pitch + column),
                            comptime!(plan.keys * pitch),
                        ),
                        comptime!((pitch * vector) as u32),
                    );
                    let product = products.index(j);
                    cmma::execute::<Vector<T, N>, Vector<T, N>, f32, f32>(
                        &left, &right, product, product,
                    );
                }
            }
            #[unroll]
            for j in 0..comptime!(plan.keys / SIDE) {
                let from = plane * comptime!(SIDE * score_pitch) + comptime!(j * SIDE);
                cmma::store(
                    &mut scores.slice_mut(from, comptime!(plan.rows * score_pitch)),
                    products.index(j),
                    comptime!(score_pitch as u32),
                    cmma::MatrixLayout::RowMajor,
                );
            }
        }
        sync_cube();
        // The values replace the keys.
        fill_tile::<T, N>(v, &mut tile, v_start, start, keys, cores);

        let mut mine = Array::<Vector<f32, TeamRows>>::new(per_lane);
        let mut tallest = Vector::<f32, TeamRows>::new(hidden_score());
        #[unroll]
        for j in 0..per_lane {
            let key = start + lane + j * LANES;
            let mut real = key < keys;
            if comptime!(plan.padded) {
                real =
                    real && flags[batch * flags.stride(0) + min(key, keys - 1)] != K::from_int(0);
            }
            let mut score = Vector::<f32, TeamRows>::new(0.0f32);
            #[unroll]
            for r in 0..TEAM_ROWS {
                let row = row_of(team, r);
                let seen = real && sees((first_row + row) / plan.group, key, reach, plan.sight);
                let value = scores[row * score_pitch + lane + j * LANES] * scale;
                score[r] = select(seen, value, hidden_score());
            }
            mine[j] = score;
            tallest = max(tallest, score);
        }
        tallest = across_lanes::<TeamRows>(tallest, true, plan);
        let mut rescale = 0u32;
        #[unroll]
        for r in 0..TEAM_ROWS {
            let mut shrink = 1.0f32;
            if tallest[r] > measure[r] + HEADROOM {
                // A row that has seen no key has nothing to rescale.
                if measure[r] > hidden_score() {
                    rescale = 1u32;
                }
                shrink = (measure[r] - tallest[r]).exp();
                measure[r] = tallest[r];
            }
            sum[r] *= shrink;
            if lane == 0 {
                factors[row_of(team, r)] = shrink;
            }
        }
        if lane == 0 {
            rescales[team] = rescale;
        }
        #[unroll]
        for j in 0..per_lane {
            let score = mine[j];
            #[unroll]
            for r in 0..TEAM_ROWS {
                let weight = (score[r] - measure[r]).exp();
                let weight = select(score[r] == hidden_score(), 0.0f32, weight);
                sum[r] += weight;
                weights[row_of(team, r) * score_pitch + lane + j * LANES] = T::cast_from(weight);
            }
        }
        sync_cube();

        let mut anyone = 0u32;
        #[unroll]
        for i in 0..comptime!(plan.teams()) {
            anyone = anyone | rescales[i];
        }
        if anyone != 0 {
            #[unroll]
            for side in 0..comptime!(cores.sides()) {
                let from = plane * comptime!(SIDE * score_pitch);
                if comptime!(cores.emulated) {
                    looped_out(&looped, &mut scores, plane, unit, side, cores);
                } else {
                    cmma::store(
                        &mut scores.slice_mut(from, comptime!(plan.rows * score_pitch)),
                        mixed.index(side),
                        comptime!(score_pitch as u32),
                        cmma::MatrixLayout::RowMajor,
                    );
                }
                sync_cube();
                let row = plane * SIDE + unit / 2;
                let factor = factors[row];
                #[unroll]
                for i in 0..comptime!(SIDE / 2) {
                    scores[row * score_pitch + unit % 2 * comptime!(SIDE / 2) + i] *= factor;
                }
                sync_cube();
                if comptime!(cores.emulated) {
                    looped_in(&mut looped, &scores, plane, unit, side, cores);
                } else {
                    cmma::load_with_layout(
                        mixed.index(side),
                        &scores.slice(from, comptime!(plan.rows * score_pitch)),
                        comptime!(score_pitch as u32),
                        cmma::MatrixLayout::RowMajor,
                    );
                }
                sync_cube();
            }
        }

        if comptime!(cores.emulated) {
            looped_mix::<T, N>(&weights, &tile, &mut looped, plane, unit, cores);
        } else {
            #[unroll]
            for j in 0..comptime!(plan.keys / SIDE) {
                let from = plane * comptime!(SIDE * score_pitch) + comptime!(j * SIDE);
                let left = cmma::Matrix::<T>::from_slice(
                    cmma::MatrixIdent::A,
                    SIDE,
                    SIDE,
                    SIDE,
                    cmma::MatrixLayout::RowMajor,
                    &weights.slice(from, comptime!(plan.rows * score_pitch)),
                    comptime!(score_pitch as u32),
                );
                #[unroll]
                for side in 0..comptime!(cores.sides()) {
                    let right = cmma::Matrix::<Vector<T, N>>::from_slice(
                        cmma::MatrixIdent::B,
                        SIDE,
                        SIDE,
                        SIDE,
                        cmma::MatrixLayout::RowMajor,
                        &tile.slice(
                            comptime!(j * SIDE * pitch + side * SIDE / vector),
                            comptime!(plan.keys * pitch),
                        ),
                        comptime!((pitch * vector) as u32),
                    );
                    let mix = mixed.index(side);
                    cmma::execute::<T, Vector<T, N>, f32, f32>(&left, &right, mix, mix);
                }
            }
        }
        start += comptime!(plan.keys);
    }

    sum = across_lanes::<TeamRows>(sum, false, plan);
    if lane == 0 {
        #[unroll]
        for r in 0..TEAM_ROWS {
            factors[row_of(team, r)] = sum[r];
        }
    }
    #[unroll]
    for side in 0..comptime!(cores.sides()) {
        sync_cube();
        if comptime!(cores.emulated) {
            looped_out(&looped, &mut scores, plane, unit, side, cores);
        } else {
            let from = plane * comptime!(SIDE * score_pitch);
            cmma::store(
                &mut scores.slice_mut(from, comptime!(plan.rows * score_pitch)),
                mixed.index(side),
                comptime!(score_pitch as u32),
                cmma::MatrixLayout::RowMajor,
            );
        }
        sync_cube();
        let of_cube = plane * SIDE + unit / 2;
        let row = first_row + of_cube;
        if row <= last_row {
            let to = place::<T, N>(q, batch, kv_head, row, plan.group);
            let sum = factors[of_cube];
            #[unroll]
            for i in 0..comptime!(SIDE / 2 / vector) {
                let within = unit % 2 * comptime!(SIDE / 2) + comptime!(i * vector);
                let column = comptime!(side * SIDE / vector) + within / vector;
                let mut value = Vector::<f32, N>::new(0.0f32);
                #[unroll]
                for c in 0..vector {
                    value[c] = scores[of_cube * score_pitch + within + c] / sum;
                }
                if sum == 0.0f32 {
                    value = mean_value::<T, N>(v, v_start + column, keys);
                }
                output[to * vectors + column] = Vector::cast_from(value);
            }
        }
    }
}

/// Returns a matrix of zeros to sum products in.
#[cube]
fn sums_of_zero() -> cmma::Matrix<f32> {
    cmma::Matrix::<f32>::from_value(
        cmma::MatrixIdent::Accumulator,
        SIDE,
        SIDE,
        SIDE,
        cmma::MatrixLayout::Undefined,
        0.0f32,
    )
}

/// Copies keys or values `start..` to the tile, with zeros after the last.
#[cube]
fn fill_tile<T: Float, N: Size>(
    from: &Tensor<Vector<T, N>>,
    tile: &mut SharedMemory<Vector<T, N>>,
    head: usize,
    start: usize,
    keys: usize,
    #[comptime] cores: Cores,
) {
    let vectors = comptime!(cores.width() / cores.vector);
    let stride = from.stride(2) / cores.vector;
    let mut i = UNIT_POS as usize;
    while i < comptime!(cores.plan.keys * vectors) {
        let (key, column) = (i / vectors, i % vectors);
        let mut value = Vector::<T, N>::new(T::from_int(0));
        if start + key < keys {
            value = from[head + (start + key) * stride + column];
        }
        tile[key * comptime!(cores.pitch()) + column] = value;
        i += comptime!(cores.plan.units());
    }
}
