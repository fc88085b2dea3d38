//! Cubes of teams: eight lanes share the rows of a team.

use cubecl::prelude::*;

use super::{LANES, TEAM_ROWS, sight::Sight};

/// Parameters of the kernel source besides its types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct KernelParams {
    /// Vectors per head.
    pub(super) vectors: usize,
    /// Query heads per key head.
    pub(super) group: usize,
    pub(super) sight: Sight,
    /// True if there are flags of real keys.
    pub(super) padded: bool,
    /// Rows per cube, a multiple of 16.
    pub(super) rows: usize,
    /// Keys per tile, a multiple of [`LANES`].
    pub(super) keys: usize,
    /// True if lanes can exchange values through [`plane_shuffle_xor`].
    pub(super) shuffle: bool,
}

impl KernelParams {
    pub(super) fn teams(&self) -> usize {
        self.rows / TEAM_ROWS
    }

    pub(super) fn units(&self) -> usize {
        self.teams() * LANES
    }

    /// Returns the number of vectors of a row of values per lane.
    pub(super) fn share(&self) -> usize {
        self.vectors.div_ceil(LANES)
    }

    /// Returns the distance of rows of a tile in vectors: odd, so that lanes that read rows use
    /// different banks of shared memory.
    pub(super) fn pitch(&self) -> usize {
        self.share() * LANES + 1
    }
}

/// Returns the index in the cube of row `i` of a team. Sixteen rows belong to four teams, which are
/// 32 units. Neighbouring teams have neighbouring rows, which are in different banks.
#[cube]
pub(super) fn row_of(team: usize, i: usize) -> usize {
    team / 4 * 16 + team % 4 + i * 4
}

/// Returns the largest value, or the sum, over the lanes of a team, row by row. Every unit of the
/// cube must call it.
#[cube]
pub(super) fn across_lanes<N: Size>(
    value: Vector<f32, N>,
    #[comptime] largest: bool,
    #[comptime] plan: KernelParams,
) -> Vector<f32, N> {
    let mut result = value;
    if comptime!(plan.shuffle) {
        #[unroll]
        for step in 0..comptime!(LANES.ilog2()) {
            let mut other = Vector::<f32, N>::new(0.0f32);
            #[unroll]
            for i in 0..TEAM_ROWS {
                other[i] = plane_shuffle_xor(result[i], comptime!(1u32 << step));
            }
            result = joined::<N>(result, other, largest);
        }
    } else {
        let mut shared = SharedMemory::<Vector<f32, N>>::new(comptime!(plan.units()));
        let place = UNIT_POS_Y as usize * LANES;
        shared[place + UNIT_POS_X as usize] = value;
        sync_cube();
        result = shared[place];
        #[unroll]
        for i in 1..LANES {
            result = joined::<N>(result, shared[place + i], largest);
        }
        // The next values may only be written after all units have read these.
        sync_cube();
    }
    result
}

#[cube]
fn joined<N: Size>(
    a: Vector<f32, N>,
    b: Vector<f32, N>,
    #[comptime] largest: bool,
) -> Vector<f32, N> {
    if comptime!(largest) { max(a, b) } else { a + b }
}
