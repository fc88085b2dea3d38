//! Products of tiles, two by three sums in registers at a time.
#![expect(unsafe_code, reason = "`Tiles` is the proof that the processor has the instructions")]

use std::arch::asm;

use crate::kernel::flex::{
    amx::{FULL, LINE},
    product::{
        blocked::{LANES, Vector},
        tiles::Tiles,
    },
};

/// Tiles of the left matrix that are multiplied at a time: 32 of its rows.
pub(super) const PAIR: usize = 2;

/// Tiles of the right matrix: 48 of its columns.
pub(super) const COLUMNS: usize = 3;

/// The left matrix, bf16, tile by tile: `[row / 16][number / 32][row][number]`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Left<'a> {
    /// From its first tile on.
    pub(super) tiles: &'a [Vector],
    /// Lines between its rows of tiles.
    pub(super) stride: usize,
}

/// Computes the product of `left` with `right`.
///
/// # Shapes
/// - `left`: `[rows, numbers]`; a line of a tile holds 32 numbers of a row
/// - `right`: `[number / 32][column / 16][pair of numbers][column]`: words of two numbers, 48 columns
/// - `sums`: `[row / 16][column / 16][row][column]` in f32; they are replaced
pub(super) fn multiply(_: Tiles, left: Left<'_>, right: &[Vector], sums: &mut [Vector]) {
    let blocks = right.len() / (COLUMNS * LANES);
    let pairs = sums.len() / (PAIR * COLUMNS * LANES);
    let is_whole = blocks > 0
        && pairs > 0
        && right.len() == blocks * COLUMNS * LANES
        && sums.len() == pairs * PAIR * COLUMNS * LANES;
    let lines = (PAIR * pairs).saturating_sub(1) * left.stride + blocks * LANES;
    assert!(is_whole && left.tiles.len() >= lines);
    let stride = left.stride * LINE;
    // SAFETY: the assertion above checked that all lines that are read and written are in the slices.
    unsafe {
        asm!(
            "ldtilecfg [{at}]",
            "3:",
            "mov {at}, {left}",
            "mov {block}, {right}",
            "tilezero tmm0",
            "tilezero tmm1",
            "tilezero tmm2",
            "tilezero tmm3",
            "tilezero tmm4",
            "tilezero tmm5",
            "2:",
            "tileloadd tmm6, [{at} + {line:r}]",
            "tileloadd tmm7, [{block} + {line:r}]",
            "add {at}, {stride}",
            "tdpbf16ps tmm0, tmm6, tmm7",
            "tileloadd tmm7, [{block} + {line:r} + 1024]",
            "tdpbf16ps tmm1, tmm6, tmm7",
            "tileloadd tmm7, [{block} + {line:r} + 2048]",
            "tdpbf16ps tmm2, tmm6, tmm7",
            "tileloadd tmm6, [{at} + {line:r}]",
            "tdpbf16ps tmm5, tmm6, tmm7",
            "tileloadd tmm7, [{block} + {line:r}]",
            "tdpbf16ps tmm3, tmm6, tmm7",
            "tileloadd tmm7, [{block} + {line:r} + 1024]",
            "tdpbf16ps tmm4, tmm6, tmm7",
            "sub {at}, {stride}",
            "add {at}, 1024",
            "add {block}, 3072",
            "cmp {block}, {end}",
            "jne 2b",
            "tilestored [{sums} + {line:r}], tmm0",
            "tilestored [{sums} + {line:r} + 1024], tmm1",
            "tilestored [{sums} + {line:r} + 2048], tmm2",
            "tilestored [{sums} + {line:r} + 3072], tmm3",
            "tilestored [{sums} + {line:r} + 4096], tmm4",
            "tilestored [{sums} + {line:r} + 5120], tmm5",
            "lea {left}, [{left} + 2 * {stride}]",
            "add {sums}, 6144",
            "dec {pairs}",
            "jnz 3b",
            "tilerelease",
            // The shapes, then an address.
            at = inout(reg) &raw const FULL => _,
            block = out(reg) _,
            line = in(reg) LINE,
            stride = in(reg) stride,
            left = inout(reg) left.tiles.as_ptr() => _,
            right = in(reg) right.as_ptr(),
            end = in(reg) right.as_ptr_range().end,
            sums = inout(reg) sums.as_mut_ptr() => _,
            pairs = inout(reg) pairs => _,
            options(nostack),
        );
    }
}
