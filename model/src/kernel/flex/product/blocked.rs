//! The product of many rows in bf16: panels of weights that stay in the first cache, against tiles of rows
//! whose sums stay in registers.
//!
//! ```text
//! x, in parts of rows -> tiles of some rows, packed      \
//! weights, as they lie -> panels of some rows, packed    -> sums in registers -> out
//! ```
//!
//! Weights are packed anew in every product, a panel at a time, which costs a read of the weights;
//! they are kept in memory once, as the checkpoint has them, and need no second form.
//!
//! Source: Goto & van de Geijn 2008, "Anatomy of High-Performance Matrix Multiplication".

mod dot;

use burn::tensor::bf16;
use burn_flex::FlexTensor;
use rayon::prelude::*;

use super::super::{eight::Eight, from_values};
use dot::COLUMNS;
pub(super) use dot::Dot;

/// Rows that are packed at a time: with one stretch of their numbers they stay in a core's second
/// cache.
const PART: usize = 768;

/// Words of a stretch of the sums: a panel of it stays near a core.
const STRETCH: usize = 512;

/// Pieces of work for each core, so that none waits long for the last.
const SHARES: usize = 6;

/// Weights that panels are made of, in their own order.
#[derive(Clone, Copy)]
pub(super) enum Weights<'a> {
    Bf16(&'a [bf16]),
    /// Rounded to bf16 once they are widened.
    Eight(Eight<'a>),
}

/// `x W^T`.
///
/// # Shapes
/// - `x`: `[rows, width]`, `weights`: `[out, width]`, output: `[rows, out]`
pub(super) fn product(
    dot: Dot,
    x: &[f32],
    weights: Weights,
    [rows, width, out]: [usize; 3],
) -> FlexTensor {
    let mut values = vec![0.0; rows * out];
    // Parts of one size.
    let part = rows.div_ceil(rows.div_ceil(PART));
    for (x, values) in x.chunks(part * width).zip(values.chunks_mut(part * out)) {
        of_part(dot, x, weights, width, out, values);
    }
    from_values(values, [rows, out])
}

fn of_part(dot: Dot, x: &[f32], weights: Weights, width: usize, out: usize, values: &mut [f32]) {
    let rows = x.len() / width;
    let at_once = dot::rows_at_once(rows);
    let words = width.div_ceil(2);
    let mut packed = vec![0; rows.div_ceil(at_once) * at_once * words];
    let tiles = packed.par_chunks_mut(at_once * words).zip(x.par_chunks(at_once * width));
    tiles.for_each(|(packed, x)| dot.pack_rows(x, width, at_once, packed));

    // Whole panels for each piece of work.
    let panels = out.div_ceil(COLUMNS);
    let together = panels.div_ceil(rayon::current_num_threads() * SHARES) * COLUMNS;
    let scratch = || (vec![0; STRETCH * COLUMNS], vec![0.0; at_once * COLUMNS]);
    let pieces = cut(values, out, together).into_par_iter().enumerate();
    pieces.for_each_init(scratch, |(panel, sums), (piece, mut to)| {
        let first = piece * together;
        let last = (first + together).min(out);
        let stretches = |start: usize| (0..words).step_by(STRETCH).map(move |word| (start, word));
        let steps = (first..last).step_by(COLUMNS).flat_map(stretches);
        let chosen = |start: usize| start..(start + COLUMNS).min(last);
        for (start, word) in steps {
            let count = STRETCH.min(words - word);
            let panel = &mut panel[..count * COLUMNS];
            dot.pack_weights(weights, width, chosen(start), 2 * word, panel);
            let tiles = packed.chunks(at_once * words).zip(to.chunks_mut(at_once));
            for (x, to) in tiles {
                let x = &x[word * at_once..(word + count) * at_once];
                dot.run(x, panel, at_once, sums);
                for (to, sums) in to.iter_mut().zip(sums.chunks(COLUMNS)) {
                    let to = &mut to[start - first..][..chosen(start).len()];
                    if word == 0 {
                        to.copy_from_slice(&sums[..to.len()]);
                    } else {
                        to.iter_mut().zip(sums).for_each(|(to, sum)| *to += sum);
                    }
                }
            }
        }
    });
}

/// Cuts every row of `values` into pieces of `size`: for each piece, its part of every row.
fn cut(values: &mut [f32], out: usize, size: usize) -> Vec<Vec<&mut [f32]>> {
    let mut pieces: Vec<Vec<_>> = (0..out.div_ceil(size)).map(|_| Vec::new()).collect();
    for row in values.chunks_mut(out) {
        for (piece, part) in pieces.iter_mut().zip(row.chunks_mut(size)) {
            piece.push(part);
        }
    }
    pieces
}
