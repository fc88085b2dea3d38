//! Sums in the tile registers.
#![expect(unsafe_code, reason = "`Tiles` is the proof that the processor has the instructions")]

use std::arch::{asm, x86_64::*};

use super::{
    super::{
        super::amx::{FULL, LINE},
        blocked::memory::{floats, vector},
        transpose::{LANES, transpose},
    },
    COLUMNS, Tiles, Vector,
};

/// Sums of a panel of weights with two times sixteen rows of `x`:
/// `[half of the rows of x][half of the panel][row of weights][row of x]`.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Sums([[[[f32; LANES]; LANES]; 2]; 2]);

impl Sums {
    pub(super) const ZERO: Self = Self([[[[0.0; LANES]; LANES]; 2]; 2]);
}

/// Memory that will be read soon: a line of each of some rows for each block that is multiplied. It need not
/// exist.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ahead {
    /// The first line of the first row.
    pub(super) from: *const u8,
    /// Bytes of a row for each block.
    pub(super) step: usize,
    /// Bytes between two rows.
    pub(super) stride: usize,
    /// The number of rows, at least 1.
    pub(super) rows: usize,
}

/// Adds the products of a panel with two times sixteen rows of `x` to their sums, or replaces them if
/// `is_first`. Asks for memory meanwhile: all at once the CPU would wait for it.
pub(super) fn add(
    _: Tiles,
    panel: &[Vector],
    x: [&[Vector]; 2],
    sums: &mut Sums,
    (is_first, ahead): (bool, Ahead),
) {
    let blocks = panel.len() / COLUMNS;
    let is_whole = blocks > 0 && panel.len() == blocks * COLUMNS && ahead.rows > 0;
    assert!(is_whole && x.iter().all(|x| x.len() == blocks * LANES));
    // SAFETY: the assertion above checked that all lines that are read and written are in the slices; to ask
    // for memory has no other effect.
    unsafe {
        asm!(
            "ldtilecfg [{rest}]",
            "test {next:e}, {next:e}",
            "jnz 3f",
            "tileloadd tmm0, [{to} + {line:r}]",
            "tileloadd tmm1, [{to} + {line:r} + 1024]",
            "tileloadd tmm2, [{to} + {line:r} + 2048]",
            "tileloadd tmm3, [{to} + {line:r} + 3072]",
            "jmp 2f",
            "3:",
            "tilezero tmm0",
            "tilezero tmm1",
            "tilezero tmm2",
            "tilezero tmm3",
            "2:",
            "tileloadd tmm4, [{weights} + {line:r}]",
            "tileloadd tmm6, [{x} + {line:r}]",
            "tileloadd tmm5, [{weights} + {line:r} + 1024]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tileloadd tmm7, [{other} + {line:r}]",
            "mov {rest}, {rows}",
            "mov {next}, {ahead}",
            "4:",
            "prefetcht1 [{next}]",
            "add {next}, {stride}",
            "dec {rest}",
            "jnz 4b",
            "tdpbf16ps tmm1, tmm5, tmm6",
            "tdpbf16ps tmm2, tmm4, tmm7",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "add {ahead}, {step}",
            "add {weights}, 2048",
            "add {x}, 1024",
            "add {other}, 1024",
            "dec {blocks}",
            "jnz 2b",
            "tilestored [{to} + {line:r}], tmm0",
            "tilestored [{to} + {line:r} + 1024], tmm1",
            "tilestored [{to} + {line:r} + 2048], tmm2",
            "tilestored [{to} + {line:r} + 3072], tmm3",
            "tilerelease",
            // The shapes, then a counter.
            rest = inout(reg) &raw const FULL => _,
            // The question for the first stretch, then an address.
            next = inout(reg) usize::from(is_first) => _,
            line = in(reg) LINE,
            to = in(reg) &raw mut *sums,
            weights = inout(reg) panel.as_ptr() => _,
            x = inout(reg) x[0].as_ptr() => _,
            other = inout(reg) x[1].as_ptr() => _,
            blocks = inout(reg) blocks => _,
            ahead = inout(reg) ahead.from => _,
            step = in(reg) ahead.step,
            stride = in(reg) ahead.stride,
            rows = in(reg) ahead.rows,
            options(nostack),
        );
    }
}

/// Writes complete sums to the rows that exist, from column `start` on.
pub(super) fn put(_: Tiles, sums: &Sums, rows: &mut [&mut [f32]], start: usize) {
    for (half, rows) in sums.0.iter().zip(rows.chunks_mut(LANES)) {
        // SAFETY: a CPU with AMX has AVX-512.
        unsafe { transposed(half, rows, start) }
    }
}

#[target_feature(enable = "avx512f")]
fn transposed(tiles: &[[[f32; LANES]; LANES]; 2], rows: &mut [&mut [f32]], start: usize) {
    for (half, tile) in tiles.iter().enumerate() {
        let mut block = [_mm512_setzero_si512(); LANES];
        for (to, line) in block.iter_mut().zip(tile) {
            *to = _mm512_castps_si512(vector(line));
        }
        transpose(&mut block);
        for (row, sums) in rows.iter_mut().zip(block) {
            let Some(to) = row.get_mut(start + half * LANES..) else { continue };
            let sums = floats(_mm512_castsi512_ps(sums));
            match to.first_chunk_mut() {
                Some(to) => *to = sums,
                None => to.copy_from_slice(&sums[..to.len()]),
            }
        }
    }
}
