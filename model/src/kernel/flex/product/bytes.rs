//! The product of many rows with weights in eight bits, by the dot of bytes.
//!
//! ```text
//! x, in eight bits too    -> tiles of some rows                  \
//! weights, as they lie    -> panels of some rows, words turned    -> sums in registers -> out
//! ```
//!
//! Numbers of `x` are rounded as weights are: 32 neighbours of a row share a scale, by which the largest is
//! 127. The sum of such a block is of whole numbers, exact, and goes to an f32 with both scales.
//!
//! Weights are put in order anew in every product, a panel at a time, which then serves all rows of `x`;
//! the next one is sent for meanwhile, as its rows are too many for the processor to guess.
//!
//! Source: ggml `ggml_vec_dot_q8_0_q8_0`, which rounds both alike.

mod dot;

use burn_flex::FlexTensor;
use rayon::prelude::*;

use super::{
    super::{
        eight::{self, Eight},
        from_values,
    },
    pieces::pieces,
};
pub(super) use dot::Dot;
use dot::{COLUMNS, PanelBlock, ROWS, TileBlock};

/// Groups of a stretch of the sums: a panel of it stays in a core's second cache, a tile of `x` in the first.
const STRETCH: usize = 16;

/// `x W^T`.
///
/// # Shapes
/// - `x`: `[rows, width]`, `weights`: `[out, width]`, output: `[rows, out]`
pub(super) fn product(
    dot: Dot,
    x: &[f32],
    weights: Eight,
    [rows, width, out]: [usize; 3],
) -> FlexTensor {
    let groups = eight::groups_of(width);
    let blocks = groups * eight::BLOCKS;
    let mut packed = vec![TileBlock::ZERO; rows.div_ceil(ROWS) * blocks];
    packed.par_chunks_mut(blocks).zip(x.par_chunks(ROWS * width)).for_each(|(packed, x)| {
        for (row, x) in x.chunks(width).enumerate() {
            dot.round(x, row, packed);
        }
    });

    let mut values = vec![0.0; rows * out];
    let pieces = pieces(&mut values, out, COLUMNS).into_par_iter();
    let panel = || vec![PanelBlock::ZERO; stretch_of(groups) * eight::BLOCKS];
    pieces.for_each_init(panel, |panel, (first, mut to)| {
        of_piece(dot, &packed, weights, [groups, first, out], panel, &mut to);
    });
    from_values(values, [rows, out])
}

/// Stretches of one size.
fn stretch_of(groups: usize) -> usize {
    groups.div_ceil(groups.div_ceil(STRETCH))
}

/// Of every row of `to`, the sums with rows `first..` of the weights, as many as it takes.
fn of_piece(
    dot: Dot,
    x: &[TileBlock],
    weights: Eight,
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
    // Rows that are sent for with each tile, so that all have been with the last.
    let each = COLUMNS.div_ceil(x.len() / blocks);
    let stretches = |start: usize| (0..groups).step_by(stretch).map(move |group| (start, group));
    let mut order = (first..last).step_by(COLUMNS).flat_map(stretches).peekable();
    while let Some((start, group)) = order.next() {
        let panel = &mut panel[..stretch.min(groups - group) * eight::BLOCKS];
        dot.turn(chosen((start, group), last), panel);
        // After the last panel what is likely to be the first of this core's next piece.
        let next = order.peek().copied().unwrap_or((last, 0));
        let mut ahead = chosen(next, out);
        for (x, to) in x.chunks(blocks).zip(to.chunks_mut(ROWS)) {
            ahead.by_ref().take(each).for_each(|row| dot.send_for(row));
            let sums = dot.run(&x[group * eight::BLOCKS..], panel);
            for (to, sums) in to.iter_mut().zip(&sums) {
                let to = &mut to[start - first..(start + COLUMNS).min(last) - first];
                if group == 0 {
                    to.copy_from_slice(&sums[..to.len()]);
                } else {
                    to.iter_mut().zip(sums).for_each(|(to, sum)| *to += sum);
                }
            }
        }
    }
}
