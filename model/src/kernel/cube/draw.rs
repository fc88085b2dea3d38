//! The draw of an id from each row of logits: one cube per row.
//!
//! Logits are compared as integers of the same order. The `k`-th largest one is found bit by bit: a bit stays set if at
//! least `k` logits are not below. Then the units look for the largest quotient.
//!
//! Limits: f32; ids below 2^24, because counts are sums in f32.

use burn::tensor::DType;
use burn_cubecl::{
    CubeRuntime, kernel::into_contiguous, ops::numeric::empty_device_contiguous_dtype,
    tensor::CubeTensor,
};
use cubecl::prelude::*;

use super::rows::{row_sum, spread};

/// Units of a cube: the most that [`row_sum`] adds.
const UNITS: usize = 256;

/// # Shapes
/// - `logits`, `exponentials`: `[rows, ids]`, output: `[rows, 1]`
pub(super) fn draw<R: CubeRuntime>(
    logits: CubeTensor<R>,
    exponentials: CubeTensor<R>,
    temperature: f32,
    top_k: usize,
) -> CubeTensor<R> {
    let (logits, exponentials) = (into_contiguous(logits), into_contiguous(exponentials));
    let [rows, ids] = logits.meta.shape().dims();
    let client = logits.client.clone();
    let (device, shape) = (logits.device.clone(), [rows, 1].into());
    let output = empty_device_contiguous_dtype(client.clone(), device, shape, DType::I32);
    if rows == 0 {
        return output;
    }
    let kept = if top_k == 0 { ids } else { top_k.min(ids) };
    draw_kernel::launch::<R>(
        &client,
        spread(rows),
        CubeDim::new_1d(UNITS as u32),
        logits.into_tensor_arg(),
        exponentials.into_tensor_arg(),
        output.clone().into_tensor_arg(),
        temperature,
        kept as f32,
    );
    output
}

#[cube(launch)]
fn draw_kernel(
    logits: &Tensor<f32>,
    exponentials: &Tensor<f32>,
    output: &mut Tensor<i32>,
    temperature: f32,
    kept: f32,
) {
    if CUBE_POS >= output.len() {
        terminate!();
    }
    let ids = logits.len() / output.len();
    let start = CUBE_POS * ids;
    let unit = UNIT_POS_X as usize;

    let mut most = f32::MIN.runtime();
    let mut likeliest = 0u32;
    let mut unusable = 0.0f32;
    let mut i = unit;
    while i < ids {
        let logit = logits[start + i];
        let bits = u32::reinterpret(logit);
        // NaN and plus infinity.
        if (bits & 0x7fff_ffffu32) >= 0x7f80_0000u32 && bits != 0xff80_0000u32 {
            unusable += 1.0f32;
        }
        if logit > most {
            most = logit;
            likeliest = u32::cast_from(i);
        }
        i += UNITS;
    }
    let all_unusable = row_sum(unusable, comptime!(UNITS as u32), false);
    let likeliest_of_all = first_of_largest(most, likeliest) as usize;
    let largest = logits[start + likeliest_of_all] / temperature;

    // The largest integer that at least `kept` logits reach.
    let mut least = 0u32;
    let mut bit = 0x8000_0000u32;
    while bit > 0u32 {
        let candidate = least | bit;
        let mut count = 0.0f32;
        let mut i = unit;
        while i < ids {
            if ordered(logits[start + i]) >= candidate {
                count += 1.0f32;
            }
            i += UNITS;
        }
        let reached = row_sum(count, comptime!(UNITS as u32), false);
        if reached >= kept {
            least = candidate;
        }
        bit /= 2u32;
    }

    let mut best = 0.0f32;
    let mut id = 0u32;
    let mut i = unit;
    while i < ids {
        let logit = logits[start + i];
        if ordered(logit) >= least {
            let chance = (logit / temperature - largest).exp() / exponentials[start + i];
            if chance > best {
                best = chance;
                id = u32::cast_from(i);
            }
        }
        i += UNITS;
    }
    let winner = first_of_largest(best, id);
    if UNIT_POS_X == 0 {
        let finite = (u32::reinterpret(largest) & 0x7fff_ffffu32) < 0x7f80_0000u32;
        let is_usable = finite && all_unusable == 0.0f32;
        let next = select(is_usable, winner + 1u32, 0u32);
        output[CUBE_POS] = i32::cast_from(next) - 1i32;
    }
}

/// Maps a logit to an integer of the same order; both zeros are equal.
#[cube]
fn ordered(logit: f32) -> u32 {
    let bits = u32::reinterpret(logit);
    let unsigned = select(bits == 0x8000_0000u32, 0u32, bits);
    select(unsigned < 0x8000_0000u32, unsigned | 0x8000_0000u32, 0xffff_ffffu32 - unsigned)
}

/// Returns the id of the largest value over the units of a cube, the smallest id on a tie. Every unit must call it.
#[cube]
fn first_of_largest(value: f32, id: u32) -> u32 {
    let mut values = SharedMemory::<f32>::new(comptime!(UNITS));
    let mut ids = SharedMemory::<u32>::new(comptime!(UNITS));
    let unit = UNIT_POS_X as usize;
    values[unit] = value;
    ids[unit] = id;
    #[unroll]
    for i in 0..comptime!(UNITS.ilog2()) {
        sync_cube();
        let reach = comptime!(UNITS >> (i + 1));
        if unit < reach {
            let other = values[unit + reach];
            let other_id = ids[unit + reach];
            let own = values[unit];
            if other > own || (other == own && other_id < ids[unit]) {
                values[unit] = other;
                ids[unit] = other_id;
            }
        }
    }
    sync_cube();
    let first = ids[0];
    // The next comparison may only start after all units have read this one.
    sync_cube();
    first
}
