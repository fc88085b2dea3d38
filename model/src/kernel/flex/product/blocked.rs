//! The product of many rows in bf16: tiles of both rows as they lie, whose sums stay in registers.
//!
//! ```text
//! x, rounded to bf16      -> tiles of some rows, side by side   \
//! weights, as they lie    -> panels of some rows                 -> sums in registers -> out
//! ```
//!
//! A panel of weights stays in a core's first cache while a part of `x`, which stays in the second,
//! goes by. Weights are read where the checkpoint's file is mapped and are never put in another order.
//!
//! Source: Goto & van de Geijn 2008, "Anatomy of High-Performance Matrix Multiplication".

mod dot;

use burn::tensor::bf16;
use burn_flex::FlexTensor;
use rayon::prelude::*;

use super::{super::from_values, pieces::pieces};
pub(super) use dot::Dot;
use dot::{COLUMNS, NUMBERS, Panel, ROWS, Steps};

/// Tiles of `x` in a part: with one stretch of their numbers they stay in a core's second cache.
const PART: usize = 40;

/// Steps of a stretch of the sums: a panel of it stays in a core's first cache.
const STRETCH: usize = 64;

/// Bytes of a line of the caches.
const LINE: usize = 64;

/// `x W^T`.
///
/// # Shapes
/// - `x`: `[rows, width]`, `weights`: `[out, width]`, output: `[rows, out]`
pub(super) fn product(
    dot: Dot,
    x: &[f32],
    weights: &[bf16],
    [rows, width, out]: [usize; 3],
) -> FlexTensor {
    let (tiles, steps) = (rows.div_ceil(ROWS), width.div_ceil(NUMBERS));
    // Vectors of `x` begin with a line of the cache.
    let mut packed = vec![bf16::ZERO; (tiles * steps * ROWS + 1) * NUMBERS];
    let first = packed.as_ptr().align_offset(LINE);
    let packed: &mut [Steps] = packed[first.min(NUMBERS)..].as_chunks_mut().0.as_chunks_mut().0;
    packed.par_chunks_mut(steps).zip(x.par_chunks(ROWS * width)).for_each(|(packed, x)| {
        for (row, x) in x.chunks(width).enumerate() {
            dot.round(x, row, packed);
        }
    });

    let mut values = vec![0.0; rows * out];
    pieces(&mut values, out, COLUMNS).into_par_iter().for_each(|(first, mut to)| {
        // Parts of one size.
        let part = tiles.div_ceil(tiles.div_ceil(PART));
        for (x, to) in packed.chunks(part * steps).zip(to.chunks_mut(part * ROWS)) {
            of_piece(dot, x, &weights[first * width..], width, to);
        }
    });
    from_values(values, [rows, out])
}

/// Of every row of `to`, the sums with the first rows of `weights`, as many as it takes.
fn of_piece(dot: Dot, x: &[Steps], weights: &[bf16], width: usize, to: &mut [&mut [f32]]) {
    let steps = width.div_ceil(NUMBERS);
    let stretch = steps.div_ceil(steps.div_ceil(STRETCH));
    let columns = to[0].len();
    // One stretch of `x` after the other, as all of it may be too much for the second cache.
    for step in (0..steps).step_by(stretch) {
        let numbers = step * NUMBERS..((step + stretch) * NUMBERS).min(width);
        for start in (0..columns).step_by(COLUMNS) {
            // The last row again where there are no more.
            let panel = Panel::of(std::array::from_fn(|column| {
                let row = (start + column).min(columns - 1);
                &weights[row * width..][numbers.clone()]
            }));
            for (x, to) in x.chunks(steps).zip(to.chunks_mut(ROWS)) {
                let sums = dot.run(&x[step..], &panel);
                for (to, sums) in to.iter_mut().zip(&sums) {
                    keep(sums, &mut to[start..], step == 0);
                }
            }
        }
    }
}

/// Writes as many sums as there is room for, or adds them to what is there.
#[inline]
fn keep(sums: &[f32; COLUMNS], to: &mut [f32], is_first: bool) {
    let room = to.len().min(COLUMNS);
    if !is_first {
        to.iter_mut().zip(sums).for_each(|(to, sum)| *to += sum);
    } else if let Some(to) = to.first_chunk_mut() {
        *to = *sums;
    } else {
        to.copy_from_slice(&sums[..room]);
    }
}
