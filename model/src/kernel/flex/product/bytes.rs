//! The product of many rows with int8 weights, by the byte dot product instruction.
//!
//! ```text
//! x, rounded to int8     -> tiles of some rows                      \
//! weights, as stored     -> panels of some rows, words transposed    -> sums in registers -> out
//! ```
//!
//! `x` is rounded like the weights: 32 neighbours of a row share a scale, and the largest of them is
//! 127 times it. The sum of such a block is an exact integer; it is added to an f32 with both scales.
//!
//! Every product packs the weights again, one panel at a time; a panel then serves all rows of `x`.
//! Meanwhile the next panel is prefetched, because the CPU cannot predict its many rows.
//!
//! Source: ggml `ggml_vec_dot_q8_0_q8_0`, which rounds both in the same way.

mod dot;

use std::iter;

use burn_flex::FlexTensor;

use super::{
    super::{
        cleared,
        eight::{self, Q8Rows},
        prefetch,
    },
    work_items::{Division, WorkItem},
};
pub(super) use dot::Dot;
use dot::{COLUMNS, PanelBlock, Part, ROWS, TileBlock};

/// Groups of a stretch: its panel and its tile of `x` stay in a core's L1 cache, 22 KB.
const STRETCH: usize = 4;

/// Tiles of rows of a work item that is not the last, at least, so that transposing the weights pays.
const PART: usize = 32;

/// Computes `x W^T`.
///
/// # Shapes
/// - `x`: `[rows, width]`, `weights`: `[out, width]`, output: `[rows, out]`
pub(super) fn product(
    dot: Dot,
    x: &[f32],
    weights: Q8Rows,
    [rows, width, out]: [usize; 3],
) -> FlexTensor {
    let groups = eight::groups_of(width);
    let blocks = groups * eight::BLOCKS;
    let tiles = iter::repeat_n(blocks, rows.div_ceil(ROWS));
    let packed = cleared::in_parts(TileBlock::ZERO, tiles, |tile, packed| {
        for (row, x) in x[tile * ROWS * width..].chunks(width).take(ROWS).enumerate() {
            dot.round(x, row, packed);
        }
    });
    let panel = || vec![PanelBlock::ZERO; stretch_of(groups) * eight::BLOCKS];
    let division = Division::of_columns([rows, out], COLUMNS, PART * ROWS);
    division.computed(panel, |panel, WorkItem { row, column, mut to }| {
        let packed = &packed[row / ROWS * blocks..][..to.len().div_ceil(ROWS) * blocks];
        of_item(dot, packed, weights, [groups, column, out], panel, &mut to);
    })
}

/// Returns the size of stretches, which are equal.
fn stretch_of(groups: usize) -> usize {
    groups.div_ceil(groups.div_ceil(STRETCH))
}

/// Computes the sums of every row of `to` with the rows `first..` of the weights, as many as it
/// takes.
fn of_item(
    dot: Dot,
    x: &[TileBlock],
    weights: Q8Rows,
    [groups, first, out]: [usize; 3],
    panel: &mut [PanelBlock],
    to: &mut [&mut [f32]],
) {
    let (stretch, blocks) = (stretch_of(groups), groups * eight::BLOCKS);
    let last = first + to[0].len();
    let chosen = |(start, group): (usize, usize), last: usize| {
        let groups = group..(group + stretch).min(groups);
        (start..(start + COLUMNS).min(last)).map(move |row| &weights.row(row)[groups.clone()])
    };
    // Rows to prefetch with each tile, so that all are done with the last tile.
    let each = COLUMNS.div_ceil(x.len() / blocks);
    let stretches = |start: usize| (0..groups).step_by(stretch).map(move |group| (start, group));
    let mut order = (first..last).step_by(COLUMNS).flat_map(stretches).peekable();
    while let Some((start, group)) = order.next() {
        let panel = &mut panel[..stretch.min(groups - group) * eight::BLOCKS];
        dot.transpose(chosen((start, group), last), panel);
        // After the last panel, prefetches the likely start of this core's next work item.
        let next = order.peek().copied().unwrap_or((last, 0));
        let mut ahead = chosen(next, out);
        for (x, to) in x.chunks(blocks).zip(to.chunks_mut(ROWS)) {
            ahead.by_ref().take(each).for_each(prefetch::row);
            let columns = start - first..(start + COLUMNS).min(last) - first;
            let x = &x[group * eight::BLOCKS..];
            dot.run(x, panel, Part { rows: to, columns, is_first: group == 0 });
        }
    }
}
