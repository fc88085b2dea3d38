//! The product of many rows by Intel AMX, with weights in bf16.
//!
//! ```text
//! x, rounded to bf16 -> words of sixteen rows, side by side        \
//! weights, as stored -> panels of 32 rows, sixteen words at a time   -> sums in tiles -> out
//! ```
//!
//! A tile is sixteen lines of 64 bytes, each in a register of its own: 16 rows of weights times 16 rows
//! of `x`. Two by two tiles are summed at a time, so each tile that is loaded serves two products.
//!
//! A panel is copied, because its rows lie pages apart in the checkpoint, where they would share few places of
//! the cache.
//!
//! Source: Intel, "Optimization Reference Manual", chapter 20.

mod multiply;
mod panel;

use burn_flex::FlexTensor;
use rayon::prelude::*;

use super::{
    super::{
        from_values,
        level::{self, CpuLevel},
    },
    blocked::{Dot as _, OfBf16, Vector},
    transpose::LANES,
    work_items::{WorkItem, work_items},
};
use multiply::{Ahead, Sums, add, put};
pub(super) use panel::Bf16;
use panel::Stretch;

/// Rows of the weights in a panel: two tiles.
const COLUMNS: usize = 2 * LANES;

/// Numbers of a line of a tile.
const BLOCK: usize = 2 * LANES;

/// Blocks of a stretch of the sums: its panel stays in a core's L2 cache.
const STRETCH: usize = 64;

/// Pairs of vectors of `x` in a part, 32 rows each: most of it stays in a core's L2 cache.
const PART: usize = 16;

/// Proof that the CPU has AMX and that the system permits it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tiles {
    /// The proof that `x` can be rounded.
    bf16: OfBf16,
}

impl Tiles {
    /// Returns the proof if this CPU has the instructions.
    pub(super) fn new() -> Option<Self> {
        level::has(CpuLevel::Amx).then(OfBf16::new).flatten().map(|bf16| Self { bf16 })
    }
}

/// Computes `x W^T`.
///
/// # Shapes
/// - `x`: `[rows, width]`, `weights`: `[out, width]`, output: `[rows, out]`
pub(super) fn product(
    tiles: Tiles,
    x: &[f32],
    weights: &Bf16<'_>,
    [rows, width, out]: [usize; 3],
) -> FlexTensor {
    let all = width.div_ceil(BLOCK);
    let packed = packed(tiles, x, [rows, width]);
    let pairs: Vec<[&[Vector]; 2]> =
        packed.chunks(2 * all * LANES).map(|pair| pair.split_at(all * LANES).into()).collect();
    // Parts and stretches of equal size.
    let part = pairs.len().div_ceil(pairs.len().div_ceil(PART));
    let stretch = all.div_ceil(all.div_ceil(STRETCH));
    let mut values = vec![0.0; rows * out];
    let room = || (vec![Vector::ZERO; stretch * COLUMNS], vec![Sums::ZERO; part]);
    let items = work_items(&mut values, out, COLUMNS, part * 2 * LANES).into_par_iter();
    items.for_each_init(room, |(panel, sums), WorkItem { row, column: first, mut to }| {
        let (pairs, columns) = (&pairs[row / (2 * LANES)..], to[0].len());
        for (pairs, to) in pairs.chunks(part).zip(to.chunks_mut(part * 2 * LANES)) {
            for start in (0..columns).step_by(COLUMNS) {
                let count = COLUMNS.min(columns - start);
                for block in (0..all).step_by(stretch) {
                    let blocks = block..(block + stretch).min(all);
                    let chosen = Stretch { first: first + start, count, blocks };
                    of_stretch(tiles, weights, (&chosen, all), pairs, (&mut *panel, &mut *sums));
                }
                for (sums, to) in sums.iter().zip(to.chunks_mut(2 * LANES)) {
                    put(tiles, sums, to, start);
                }
            }
        }
    });
    from_values(values, [rows, out])
}

/// Adds the products of a stretch, of `all` blocks a row, with all `pairs` to their sums; those of the
/// first stretch replace the sums.
fn of_stretch(
    tiles: Tiles,
    weights: &Bf16<'_>,
    (stretch, all): (&Stretch, usize),
    pairs: &[[&[Vector]; 2]],
    (panel, sums): (&mut [Vector], &mut [Sums]),
) {
    let Stretch { blocks, .. } = stretch;
    let panel = &mut panel[..blocks.len() * COLUMNS];
    stretch.fill(weights, panel);
    let words = blocks.start * LANES..blocks.end * LANES;
    // Each pair asks for some rows of the next stretch.
    let (next, rows) = (stretch.next(all), COLUMNS.div_ceil(pairs.len()));
    for (index, ([x, other], sums)) in pairs.iter().zip(sums).enumerate() {
        let x = [&x[words.clone()], &other[words.clone()]];
        let row = next.first + (index * rows).min(COLUMNS - rows);
        let (from, stride) = weights.place(row, next.blocks.start);
        add(tiles, panel, x, sums, (blocks.start == 0, Ahead { from, stride, rows }));
    }
}

/// Packs the words of sixteen rows side by side, one group of rows after the other, an even number of
/// groups. Rows and words that are missing are zeros.
fn packed(tiles: Tiles, x: &[f32], [rows, width]: [usize; 2]) -> Vec<Vector> {
    let blocks = width.div_ceil(BLOCK);
    let groups = rows.div_ceil(2 * LANES) * 2;
    let mut packed = vec![Vector::ZERO; groups * blocks * LANES];
    let groups = packed.par_chunks_mut(blocks * LANES).zip(x.par_chunks(LANES * width));
    groups.for_each(|(to, x)| {
        for (block, to) in to.as_chunks_mut().0.iter_mut().enumerate() {
            let numbers = block * BLOCK..((block + 1) * BLOCK).min(width);
            let mut parts = [&[][..]; LANES];
            let rows = x.chunks(width).zip(&mut parts);
            let count = rows.map(|(x, part)| *part = &x[numbers.clone()]).count();
            *to = tiles.bf16.pack(&parts[..count]);
        }
    });
    packed
}
