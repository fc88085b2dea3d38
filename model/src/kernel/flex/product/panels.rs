//! The product of many rows at levels `avx2` and `avx2-vnni`, with vectors of 8 lanes.
//!
//! ```text
//! x, packed               -> groups of sixteen rows, side by side       \
//! weights, converted      -> panels of six rows, in a core's L2 cache    -> sums in registers -> out
//! ```
//!
//! A vector holds one word of several rows of `x`, and one word of the weights is multiplied with all
//! of them. So weights are only converted and never put in another order. The sums of a row do not
//! depend on the number of rows.
//!
//! While a step is multiplied, the weights of the next one are sent for: its rows are too short for the
//! CPU to do so.
//!
//! [`floats`] multiplies f32, and bf16 as f32, which is exact. [`integers`] multiplies int8.
//!
//! Source: Goto & van de Geijn 2008, "Anatomy of High-Performance Matrix Multiplication".

#[cfg(target_arch = "x86_64")]
pub(super) mod floats;
#[cfg(target_arch = "x86_64")]
pub(super) mod integers;
#[cfg(target_arch = "aarch64")]
pub(super) mod neon;

use std::{iter, ops::Range};

use burn_flex::FlexTensor;

use super::{
    super::cleared,
    work_items::{Division, WorkItem},
};
use crate::kernel::flex::{eight::BLOCK, prefetch};

/// Rows of `x` in a group.
const SIDE: usize = 16;

/// Rows of the weights in a panel. Its sums with a group of `x`, and what is multiplied, fit in 16
/// registers of 8 lanes.
const ROWS: usize = 6;

/// Panels that are converted at a time.
const PANELS: usize = 8;

/// Rows of the weights that are converted at a time.
const COLUMNS: usize = PANELS * ROWS;

/// Groups that are multiplied with all weights of a work item, one after the other: a chunk of them and
/// their sums stay in a core's L2 cache.
const PART: usize = 8;

/// The sums of a panel with a group.
type Sums = [[f32; SIDE]; ROWS];

/// Multiplication of blocks of [`BLOCK`] numbers.
pub(super) trait Arithmetic: Sync {
    /// A block of a group of `x`.
    type Group: Clone + Send + Sync;

    /// A block of a panel of weights.
    type Panel: Clone + Send;

    /// Blocks of a chunk of the sums: a group of so many stays in a core's L1 cache.
    const CHUNK: usize;

    /// Returns empty blocks.
    fn empty() -> (Self::Group, Self::Panel);

    /// Packs up to [`SIDE`] rows of `x`, `[rows, width]`, padded with zeros.
    fn pack(&self, x: &[f32], width: usize, to: &mut [Self::Group]);

    /// Converts blocks of a row of the weights to row `to_row` of a panel, padded with zeros.
    fn convert(&self, row: usize, blocks: Range<usize>, to_row: usize, to: &mut [Self::Panel]);

    /// Returns the memory of blocks of a row of the weights.
    fn memory(&self, row: usize, blocks: Range<usize>) -> &[u8];

    /// Adds the products of blocks to `sums`: at least the first `rows` of the group.
    fn add(&self, x: &[Self::Group], weights: &[Self::Panel], rows: usize, sums: &mut Sums);
}

/// Computes `x W^T`.
///
/// # Shapes
/// - `x`: `[rows, width]`, weights of `arithmetic`: `[out, width]`, output: `[rows, out]`
pub(super) fn product<A: Arithmetic>(
    arithmetic: &A,
    x: &[f32],
    [rows, width, out]: [usize; 3],
) -> FlexTensor {
    let depth = width.div_ceil(BLOCK);
    let groups = iter::repeat_n(depth, rows.div_ceil(SIDE));
    let packed = cleared::in_parts(A::empty().0, groups, |group, to| {
        let x = &x[group * SIDE * width..];
        arithmetic.pack(&x[..x.len().min(SIDE * width)], width, to);
    });
    let panels = || vec![A::empty().1; PANELS * A::CHUNK];
    let division = Division::of_columns([rows, out], COLUMNS, PART * SIDE);
    division.computed(panels, |panels, WorkItem { row, column, mut to }| {
        of_item(arithmetic, &packed[row / SIDE * depth..], [column, depth, out], &mut to, panels);
    })
}

/// Computes the sums of every row of `to` with the rows `first..` of the weights, as many as it
/// takes. `panels` has room for the panels of one step.
fn of_item<A: Arithmetic>(
    arithmetic: &A,
    packed: &[A::Group],
    [first, depth, out]: [usize; 3],
    to: &mut [&mut [f32]],
    panels: &mut [A::Panel],
) {
    let columns = to[0].len();
    let mut sums: Vec<Sums> = vec![[[0.0; SIDE]; ROWS]; columns.div_ceil(ROWS) * PART];
    let steps = |chunk: usize| (0..columns).step_by(COLUMNS).map(move |start| (chunk, start));
    for (part, to) in to.chunks_mut(PART * SIDE).enumerate() {
        let packed = &packed[part * PART * depth..];
        sums.fill([[0.0; SIDE]; ROWS]);
        let mut order = (0..depth).step_by(A::CHUNK).flat_map(steps).peekable();
        while let Some((chunk, start)) = order.next() {
            let blocks = |chunk: usize| chunk..(chunk + A::CHUNK).min(depth);
            let here = blocks(chunk).len();
            let count = COLUMNS.min(columns - start);
            for column in 0..count {
                let panel = &mut panels[column / ROWS * A::CHUNK..][..here];
                arithmetic.convert(first + start + column, blocks(chunk), column % ROWS, panel);
            }
            // Prefetches the weights of the next step: at the end, of this core's likely next item.
            let (chunk_after, start_after) = order.peek().copied().unwrap_or((0, columns));
            let rows_after = (first + start_after..out).take(COLUMNS);
            let tiles = to.len().div_ceil(SIDE) * count.div_ceil(ROWS);
            let mut sent = 0;
            for (group, rows) in to.chunks(SIDE).enumerate() {
                let x = &packed[group * depth + chunk..][..here];
                // Rows of the last panel beyond the last column keep earlier weights.
                for panel in 0..count.div_ceil(ROWS) {
                    let tile = group * count.div_ceil(ROWS) + panel + 1;
                    let end = COLUMNS * tile / tiles;
                    for row in rows_after.clone().take(end).skip(sent) {
                        prefetch::into_l2(arithmetic.memory(row, blocks(chunk_after)));
                    }
                    sent = end;
                    let weights = &panels[panel * A::CHUNK..][..here];
                    let sums = &mut sums[(start / ROWS + panel) * PART + group];
                    arithmetic.add(x, weights, rows.len(), sums);
                }
            }
        }
        for (group, rows) in to.chunks_mut(SIDE).enumerate() {
            // Row by row: the same columns of several rows may be at places that a core's L1 cache cannot hold together.
            for (row, to) in rows.iter_mut().enumerate() {
                for (to, sums) in to.chunks_mut(ROWS).zip(sums[group..].iter().step_by(PART)) {
                    for column in 0..to.len() {
                        to[column] = sums[column][row];
                    }
                }
            }
        }
    }
}
