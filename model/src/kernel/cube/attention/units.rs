//! Attention on plain units, for any device and any float type.
//!
//! A cube has some rows of one key head. Eight lanes share four of its rows; a vector holds these
//! four rows, so a score, weight or sum of four rows is one vector. Shared memory holds, in f32,
//! the transposed queries, a tile of keys, then the same tile of values, and the tile's weights.
//!
//! Limits: those of [`super`].
//!
//! Gain over the plain operations on Mesa lavapipe on two cores, 375 positions, 16 heads of 128
//! over 8 in f32: a window of 128 on each side is 1.6 times as fast, the whole song 0.8 times, and
//! 200 conditions 0.6 times. There a matrix product is compute-bound and shared memory is plain
//! memory. The kernel avoids scores of 576 MB per layer (at 240 s), which would be written and read
//! several times. That matters on a GPU, but was not measured on one.

use burn_cubecl::{CubeRuntime, tensor::CubeTensor};
use cubecl::prelude::*;

use super::super::rows::{shuffles, spread};
use super::sight::{Reach, Sight, keys_from, keys_until, sees};
use super::teams::{KernelParams, across_lanes, row_of};
use super::{Call, LANES, TEAM_ROWS, VECTOR, hidden_score, mean_value, place};

/// Rows of a cube and keys of a tile, best first; [`fits`] checks the last.
const SIZES: [(usize, usize); 5] = [(64, 32), (32, 32), (32, 16), (16, 16), (16, 8)];

/// Writes the attention of `call` to `output`, `[B, Lq, heads, D]`.
pub(super) fn launch<R: CubeRuntime>(call: &Call<R>, output: &CubeTensor<R>) {
    let plan = plan(call);
    let flags = call.flags();
    let cubes = call.items() * call.rows().div_ceil(plan.rows);
    attention_units_kernel::launch::<R>(
        &output.client,
        spread(cubes),
        CubeDim::new_2d(LANES as u32, plan.teams() as u32),
        VECTOR,
        call.q.clone().into_tensor_arg(),
        call.k.clone().into_tensor_arg(),
        call.v.clone().into_tensor_arg(),
        flags.clone().into_tensor_arg(),
        output.clone().into_tensor_arg(),
        call.sight.1.launch(),
        call.scale(),
        plan,
        [output.dtype.into(), flags.dtype.into()],
    );
}

/// True if the device has memory for the smallest cube.
pub(super) fn fits<R: CubeRuntime>(q: &CubeTensor<R>) -> bool {
    let (rows, keys) = SIZES[SIZES.len() - 1];
    let plan = KernelParams {
        vectors: q.meta.shape()[3] / VECTOR,
        group: 1,
        sight: Sight::Full,
        padded: false,
        rows,
        keys,
        shuffle: shuffles(&q.client, LANES),
    };
    bytes(&plan) <= q.client.properties().hardware.max_shared_memory_size
}

/// Returns the largest cube that the device has memory for and the call has rows for.
fn plan<R: CubeRuntime>(call: &Call<R>) -> KernelParams {
    let hardware = &call.q.client.properties().hardware;
    let with = |(rows, keys): (usize, usize)| KernelParams {
        vectors: call.width() / VECTOR,
        group: call.group(),
        sight: call.sight.0,
        padded: call.keys.is_some(),
        rows,
        keys,
        shuffle: shuffles(&call.q.client, LANES),
    };
    let fits = |plan: &KernelParams| {
        bytes(plan) <= hardware.max_shared_memory_size
            && plan.units() <= hardware.max_units_per_cube as usize
            && (plan.rows == 16 || plan.rows / 2 < call.rows())
    };
    let smallest = with(SIZES[SIZES.len() - 1]);
    SIZES.into_iter().map(with).find(fits).unwrap_or(smallest)
}

/// Returns the bytes of shared memory of a cube.
fn bytes(plan: &KernelParams) -> usize {
    let queries = plan.vectors * VECTOR * plan.teams();
    let tile = plan.keys * plan.pitch();
    let weights = plan.keys * plan.teams();
    // Exchange buffers of the lanes, for the largest score and for the sum.
    let exchange = if plan.shuffle { 0 } else { 2 * plan.units() };
    (queries + tile + weights + exchange) * VECTOR * size_of::<f32>()
}

#[cube(launch)]
fn attention_units_kernel<T: Float, K: Numeric, N: Size>(
    q: &Tensor<Vector<T, N>>,
    k: &Tensor<Vector<T, N>>,
    v: &Tensor<Vector<T, N>>,
    flags: &Tensor<K>,
    output: &mut Tensor<Vector<T, N>>,
    reach: &Reach,
    scale: f32,
    #[comptime] plan: KernelParams,
    #[define(T, K)] _types: [StorageType; 2],
) {
    let (lane, team) = (UNIT_POS_X as usize, UNIT_POS_Y as usize);
    let (vectors, teams) = comptime!((plan.vectors, plan.teams()));
    let (share, pitch) = comptime!((plan.share(), plan.pitch()));
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
    let k_start = (batch * k.stride(0) + kv_head * k.stride(1)) / VECTOR;
    let v_start = (batch * v.stride(0) + kv_head * v.stride(1)) / VECTOR;
    let flags_start = batch * flags.stride(0);

    // Four rows of a team as a vector over rows, one per column.
    let mut queries = SharedMemory::<Vector<f32, N>>::new(comptime!(vectors * VECTOR * teams));
    let mut tile = SharedMemory::<Vector<f32, N>>::new(comptime!(plan.keys * pitch));
    let mut weights = SharedMemory::<Vector<f32, N>>::new(comptime!(plan.keys * teams));

    let mut i = UNIT_POS as usize;
    while i < comptime!(vectors * teams) {
        let (column, of_team) = (i % vectors, i / vectors);
        let mut read = Array::<Vector<f32, N>>::new(TEAM_ROWS);
        #[unroll]
        for r in 0..TEAM_ROWS {
            let row = min(first_row + row_of(of_team, r), last_row);
            let head = kv_head * plan.group + row % plan.group;
            let start = batch * q.stride(0) + head * q.stride(1) + row / plan.group * q.stride(2);
            read[r] = Vector::<f32, N>::cast_from(q[start / VECTOR + column])
                * Vector::<f32, N>::new(scale);
        }
        #[unroll]
        for c in 0..VECTOR {
            let mut transposed = Vector::<f32, N>::new(0.0f32);
            #[unroll]
            for r in 0..TEAM_ROWS {
                let values = read[r];
                transposed[r] = values[c];
            }
            queries[(column * VECTOR + c) * teams + of_team] = transposed;
        }
        i += comptime!(plan.units());
    }

    let mut largest = Vector::<f32, N>::new(hidden_score());
    let mut sum = Vector::<f32, N>::new(0.0f32);
    let mut mixed = Array::<Vector<f32, N>>::new(comptime!(share * VECTOR));
    #[unroll]
    for i in 0..comptime!(share * VECTOR) {
        mixed[i] = Vector::<f32, N>::new(0.0f32);
    }

    let end = keys_until(last_row / plan.group, reach, keys, plan.sight);
    let mut start = keys_from(first_row / plan.group, reach, plan.sight);
    while start < end {
        fill_tile::<T, N>(k, &mut tile, k_start, start, keys, plan);
        sync_cube();

        let mut scores = Array::<Vector<f32, N>>::new(per_lane);
        #[unroll]
        for j in 0..per_lane {
            scores[j] = Vector::<f32, N>::new(0.0f32);
        }
        for column in 0..vectors {
            let query = column * comptime!(VECTOR * teams) + team;
            #[unroll]
            for j in 0..per_lane {
                let key = tile[(lane + j * LANES) * pitch + column];
                #[unroll]
                for c in 0..VECTOR {
                    scores[j] += queries[query + c * teams] * Vector::<f32, N>::new(key[c]);
                }
            }
        }
        // The values replace the keys.
        sync_cube();
        fill_tile::<T, N>(v, &mut tile, v_start, start, keys, plan);

        let mut tallest = largest;
        #[unroll]
        for j in 0..per_lane {
            let key = start + lane + j * LANES;
            let mut real = key < keys;
            if comptime!(plan.padded) {
                real = real && flags[flags_start + min(key, keys - 1)] != K::from_int(0);
            }
            let mut score = scores[j];
            #[unroll]
            for r in 0..TEAM_ROWS {
                let query = (first_row + row_of(team, r)) / plan.group;
                let seen = real && sees(query, key, reach, plan.sight);
                score[r] = select(seen, score[r], hidden_score());
            }
            scores[j] = score;
            tallest = max(tallest, score);
        }
        tallest = across_lanes::<N>(tallest, true, plan);
        let shrink = (largest - tallest).exp();
        largest = tallest;
        sum *= shrink;
        #[unroll]
        for j in 0..per_lane {
            let score = scores[j];
            let mut weight = (score - largest).exp();
            #[unroll]
            for r in 0..TEAM_ROWS {
                weight[r] = select(score[r] == hidden_score(), 0.0f32, weight[r]);
            }
            sum += weight;
            weights[(lane + j * LANES) * teams + team] = weight;
        }
        #[unroll]
        for i in 0..comptime!(share * VECTOR) {
            mixed[i] *= shrink;
        }
        sync_cube();

        for key in 0..comptime!(plan.keys) {
            let weight = weights[key * teams + team];
            #[unroll]
            for j in 0..share {
                let value = tile[key * pitch + lane + j * LANES];
                #[unroll]
                for c in 0..VECTOR {
                    mixed[j * VECTOR + c] += weight * Vector::<f32, N>::new(value[c]);
                }
            }
        }
        sync_cube();
        start += comptime!(plan.keys);
    }
    sum = across_lanes::<N>(sum, false, plan);

    #[unroll]
    for r in 0..TEAM_ROWS {
        let row = first_row + row_of(team, r);
        if row <= last_row {
            let to = place::<T, N>(q, batch, kv_head, row, plan.group);
            #[unroll]
            for j in 0..share {
                let column = lane + j * LANES;
                if column < vectors {
                    let mut value = Vector::<f32, N>::new(0.0f32);
                    #[unroll]
                    for c in 0..VECTOR {
                        let rows = mixed[j * VECTOR + c];
                        value[c] = rows[r] / sum[r];
                    }
                    if sum[r] == 0.0f32 {
                        value = mean_value::<T, N>(v, v_start + column, keys);
                    }
                    output[to * vectors + column] = Vector::cast_from(value);
                }
            }
        }
    }
}

/// Copies keys or values `start..` to the tile as f32, with zeros after the last.
#[cube]
fn fill_tile<T: Float, N: Size>(
    from: &Tensor<Vector<T, N>>,
    tile: &mut SharedMemory<Vector<f32, N>>,
    head: usize,
    start: usize,
    keys: usize,
    #[comptime] plan: KernelParams,
) {
    let vectors = comptime!(plan.vectors);
    let stride = from.stride(2) / VECTOR;
    let mut i = UNIT_POS as usize;
    while i < comptime!(plan.keys * vectors) {
        let (key, column) = (i / vectors, i % vectors);
        let mut value = Vector::<f32, N>::new(0.0f32);
        if start + key < keys {
            value = Vector::<f32, N>::cast_from(from[head + (start + key) * stride + column]);
        }
        tile[key * comptime!(plan.pitch()) + column] = value;
        i += comptime!(plan.units());
    }
}
