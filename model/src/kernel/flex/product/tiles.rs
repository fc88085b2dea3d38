//! The product of many rows by Intel AMX, with weights in bf16 or int8.
//!
//! ```text
//! x, rounded to bf16 -> words of sixteen rows, side by side        \
//! weights, as bf16   -> panels of 32 rows, sixteen words at a time   -> sums in tiles -> out
//! ```
//!
//! A tile is sixteen lines of 64 bytes, each in a register of its own: 16 rows of weights times 16 rows
//! of `x`. Two by two tiles are summed at a time, so each tile that is loaded serves two products.
//!
//! A panel is copied, because its rows lie pages apart in the checkpoint, where they would share few places of
//! the cache.
//!
//! int8 has no product of tiles here: its sums of 32 numbers would have to be scaled one by one. Rounded to bf16, each
//! weight is off by at most a factor of 2^-8, and `x` keeps more digits than in int8.
//!
//! Source: Intel, "Optimization Reference Manual", chapter 20.

mod multiply;
mod panel;

use std::iter;

use burn_flex::FlexTensor;

use super::{
    super::{
        cleared,
        level::{self, CpuLevel},
    },
    blocked::{Dot as _, OfBf16, Vector},
    transpose::LANES,
    work_items::{Division, WorkItem},
};
use multiply::{Ahead, Sums, add, put};
pub(super) use panel::Bf16;
use panel::{EVEN, Stretch, Weights};

/// Rows of the weights in a panel: two tiles.
const COLUMNS: usize = 2 * LANES;

/// Numbers of a line of a tile.
const BLOCK: usize = 2 * LANES;

/// Maximum number of pairs of vectors of `x` in a part, 32 rows each.
const PART: usize = 16;

/// Maximum number of blocks of a stretch of the sums: its panel stays in a core's L2 cache, 128 KiB.
const STRETCH: usize = 64;

/// Panels that a stretch of `x` is multiplied with before the next one: their sums stay there too.
const PANELS: usize = 16;

/// Maximum number of blocks of a stretch, times the pairs of a part: so much of `x` stays in a core's
/// L2 cache, 768 KiB, and all panels of a work item are multiplied with it.
const BLOCKS: usize = 384;

/// Proof that the CPU has AMX and that the system permits it.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Tiles {
    /// The proof that `x` can be rounded.
    bf16: OfBf16,
}

impl Tiles {
    /// Returns the proof if this CPU has the instructions.
    pub(in super::super) fn new() -> Option<Self> {
        level::has(CpuLevel::Amx).then(OfBf16::new).flatten().map(|bf16| Self { bf16 })
    }

    /// Packs sixteen words of up to sixteen rows, rounded to bf16, word by word; padded with zeros.
    pub(in super::super) fn pack(self, rows: &[&[f32]]) -> [Vector; LANES] {
        self.bf16.pack(rows)
    }
}

/// Computes `x W^T`.
///
/// # Shapes
/// - `x`: `[rows, width]`, `weights`: `[out, width]`, output: `[rows, out]`
pub(super) fn product(
    tiles: Tiles,
    x: &[f32],
    weights: &impl Weights,
    [rows, width, out]: [usize; 3],
) -> FlexTensor {
    let all = width.div_ceil(BLOCK);
    let packed = packed(tiles, x, [rows, width]);
    let pairs: Vec<[&[Vector]; 2]> =
        packed.chunks(2 * all * LANES).map(|pair| pair.split_at(all * LANES).into()).collect();
    // Parts and stretches of about equal size.
    let part = pairs.len().div_ceil(pairs.len().div_ceil(PART));
    let most = (BLOCKS / part).min(STRETCH) / EVEN * EVEN;
    let stretch = all.div_ceil(all.div_ceil(most)).next_multiple_of(EVEN);
    let division = Division::of_columns([rows, out], COLUMNS, part * 2 * LANES);
    let room = || (vec![Vector::ZERO; stretch * COLUMNS], vec![Sums::ZERO; PANELS * part]);
    division.computed(room, |(panel, sums), WorkItem { row, column: first, mut to }| {
        let (pairs, columns) = (&pairs[row / (2 * LANES)..], to[0].len());
        for start in (0..columns).step_by(PANELS * COLUMNS) {
            let end = (start + PANELS * COLUMNS).min(columns);
            let mut parts = to.chunks_mut(part * 2 * LANES).zip(pairs.chunks(part)).peekable();
            while let Some((to, pairs)) = parts.next() {
                // The first row of the weights after these.
                let after = first + if parts.peek().is_some() { start } else { end };
                for block in (0..all).step_by(stretch) {
                    let blocks = block..(block + stretch).min(all);
                    for (column, sums) in (start..end).step_by(COLUMNS).zip(sums.chunks_mut(part)) {
                        let count = COLUMNS.min(end - column);
                        let chosen =
                            Stretch { first: first + column, count, blocks: blocks.clone() };
                        let next = chosen.next(first + start..first + end, after, all);
                        of_stretch(tiles, weights, [&chosen, &next], pairs, (&mut *panel, sums));
                    }
                }
                // Row by row: the rows of the output lie pages apart.
                for (pair, to) in to.chunks_mut(2 * LANES).enumerate() {
                    let sums = sums[pair..].iter().step_by(part);
                    for (column, sums) in (start..end).step_by(COLUMNS).zip(sums) {
                        put(tiles, sums, to, column);
                    }
                }
            }
        }
    })
}

/// Adds the products of a stretch with all `pairs` to their sums; those of the first blocks replace the
/// sums. Asks for the weights of the next stretch.
fn of_stretch(
    tiles: Tiles,
    weights: &impl Weights,
    [stretch, next]: [&Stretch; 2],
    pairs: &[[&[Vector]; 2]],
    (panel, sums): (&mut [Vector], &mut [Sums]),
) {
    let Stretch { blocks, .. } = stretch;
    let panel = &mut panel[..blocks.len() * COLUMNS];
    stretch.fill(tiles, weights, panel);
    let words = blocks.start * LANES..blocks.end * LANES;
    // Each pair asks for some rows of the next stretch.
    let rows = COLUMNS.div_ceil(pairs.len());
    for (index, ([x, other], sums)) in pairs.iter().zip(sums).enumerate() {
        let x = [&x[words.clone()], &other[words.clone()]];
        let row = next.first + (index * rows).min(COLUMNS - rows);
        let (from, stride) = weights.place(row, next.blocks.start);
        let ahead = Ahead { from, step: weights.bytes(), stride, rows };
        add(tiles, panel, x, sums, (blocks.start == 0, ahead));
    }
}

/// Packs the words of sixteen rows side by side, one group of rows after the other, an even number of
/// groups. Rows and words that are missing are zeros.
fn packed(tiles: Tiles, x: &[f32], [rows, width]: [usize; 2]) -> Vec<Vector> {
    let blocks = width.div_ceil(BLOCK);
    let groups = iter::repeat_n(blocks * LANES, rows.div_ceil(2 * LANES) * 2);
    cleared::in_parts(Vector::ZERO, groups, |group, to| {
        let x = x.chunks(LANES * width).nth(group).unwrap_or_default();
        for (block, to) in to.as_chunks_mut().0.iter_mut().enumerate() {
            let numbers = block * BLOCK..((block + 1) * BLOCK).min(width);
            let mut parts = [&[][..]; LANES];
            let rows = x.chunks(width).zip(&mut parts);
            let count = rows.map(|(x, part)| *part = &x[numbers.clone()]).count();
            *to = tiles.pack(&parts[..count]);
        }
    })
}
