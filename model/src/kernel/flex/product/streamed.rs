//! Products of few rows, with weights read in memory order.
//!
//! Weights are read once and converted to f32 in registers, which is exact; `x` stays f32:
//! [`plain`], [`eight`]. With int8 weights some levels multiply integers. The CPU alone does not fetch
//! weights early enough: [`prefetch`].

mod eight;
mod plain;

use burn_flex::FlexTensor;
use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::{
    super::{from_values, matrix::Matrix, prefetch},
    WORTH_SHARING,
};
use crate::kernel::flex::level;

/// Maximum outputs per work item.
pub(in super::super) const CHUNK: usize = 32;

/// Minimum outputs per work item.
const LEAST: usize = 8;

/// Returns the outputs per work item, of `out` in all: fewer if there are more cores than work items. It divides
/// [`CHUNK`].
pub(in super::super) fn chunk(out: usize) -> usize {
    let is_short =
        |chunk: usize| chunk > LEAST && out.div_ceil(chunk) < rayon::current_num_threads();
    let mut chunk = CHUNK;
    while is_short(chunk) {
        chunk /= 2;
    }
    chunk
}

/// Computes `x W^T`.
///
/// # Shapes
/// - `x`: `[rows, width]`, `weights`: `[out, width]`, output: `[rows, out]`
pub(super) fn product<W: Weight>(
    x: &[f32],
    weights: &[W],
    [rows, width, out]: [usize; 3],
) -> FlexTensor {
    let arch = level::arch();
    let lines = Lines::of::<W>(width, rows);
    let mut arranged = Vec::new();
    W::arrange(arch, x, width, at_line_mut(&mut arranged, lines.width * rows));
    let arranged = at_line(&arranged);
    // `[out, rows]`, so that every core writes one contiguous piece.
    let mut sums = vec![0.0; out * rows];
    let fill = |(weights, sums): (&[W], &mut [f32])| {
        arch.dispatch(WorkItem { weights, x: arranged, lines, sums });
    };
    if out * width < WORTH_SHARING {
        fill((weights, &mut sums));
    } else {
        let chunk = chunk(out);
        let items = weights.par_chunks(chunk * lines.words).zip(sums.par_chunks_mut(chunk * rows));
        items.for_each(fill);
    }
    if rows == 1 {
        return from_values(sums, [rows, out]);
    }
    let mut transposed = vec![0.0; sums.len()];
    transpose(&sums, rows, &mut transposed);
    from_values(transposed, [rows, out])
}

/// Bytes of a line of the cache.
const LINE: usize = 64;

/// Returns `count` numbers from the first that begins a line of the cache. Vectors at other places may cross lines, and
/// take two reads each.
pub(in super::super) fn at_line_mut(buffer: &mut Vec<f32>, count: usize) -> &mut [f32] {
    let most = count + LINE / size_of::<f32>();
    if buffer.len() < most {
        buffer.resize(most, 0.0);
    }
    let start = buffer.as_ptr().align_offset(LINE);
    &mut buffer[start..][..count]
}

/// Returns the numbers from the first that begins a line of the cache.
pub(in super::super) fn at_line(buffer: &[f32]) -> &[f32] {
    &buffer[buffer.as_ptr().align_offset(LINE)..]
}

/// Transposes `[out, rows]` to `[rows, out]`.
pub(in super::super) fn transpose(sums: &[f32], rows: usize, transposed: &mut [f32]) {
    if rows == 1 {
        return transposed.copy_from_slice(sums);
    }
    for (row, transposed) in transposed.chunks_exact_mut(sums.len() / rows).enumerate() {
        let sums = sums[row..].iter().step_by(rows);
        transposed.iter_mut().zip(sums).for_each(|(value, sum)| *value = *sum);
    }
}

/// A word of memory that holds weights.
pub(in super::super) trait Weight: Copy + Sync {
    /// Returns the weights if they are contiguous, of this type, with rows of whole words.
    fn of(weight: &Matrix) -> Option<&[Self]>;

    /// Returns the number of words of a row of `width` numbers.
    fn words(width: usize) -> usize;

    /// Returns the length of a packed row of `x`, as [`Self::tile`] reads it.
    fn width(width: usize) -> usize;

    /// Packs rows of `x` in the order that [`Self::tile`] reads, padded with zeros.
    fn arrange(arch: Arch, x: &[f32], width: usize, to: &mut [f32]);

    /// Multiplies `O` rows of the weights with the first `R` rows of `x`: `sums[o, r]`,
    /// `lines.rows` apart.
    ///
    /// The summation order does not depend on `O` and `R`.
    fn tile<S: Simd, const O: usize, const R: usize>(
        simd: S,
        weights: &[Self],
        x: &[f32],
        lines: Lines,
        sums: &mut [f32],
    );
}

/// Lengths of rows.
#[derive(Clone, Copy)]
pub(in super::super) struct Lines {
    /// Words per row of the weights.
    pub(in super::super) words: usize,
    /// Numbers per packed row of `x`.
    pub(in super::super) width: usize,
    /// Rows of `x`.
    pub(in super::super) rows: usize,
}

impl Lines {
    /// Returns the lengths for rows of `width` numbers.
    pub(in super::super) fn of<W: Weight>(width: usize, rows: usize) -> Self {
        Self { words: W::words(width), width: W::width(width), rows }
    }
}

/// Rows of the weights to multiply: `sums[o, r] = weights[o] . x[r]`.
pub(in super::super) struct WorkItem<'a, W> {
    pub(in super::super) weights: &'a [W],
    /// Packed by [`Weight::arrange`].
    pub(in super::super) x: &'a [f32],
    pub(in super::super) lines: Lines,
    pub(in super::super) sums: &'a mut [f32],
}

/// Rows of the weights that stay in the L1 cache while the rows of `x` are processed.
const TOGETHER: usize = 4;

impl<W: Weight> WithSimd for WorkItem<'_, W> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { weights, x, lines, sums } = self;
        let Lines { words, width, rows } = lines;
        let blocks = weights.chunks(TOGETHER * words).zip(sums.chunks_mut(TOGETHER * rows));
        for (weights, sums) in blocks {
            // The first two rows of `x` stream the weights row by row, because reading several rows
            // from memory at a time is much slower. The other rows of `x` find them in the cache.
            for (weights, sums) in weights.chunks(words).zip(sums.chunks_mut(rows)) {
                match rows {
                    1 => W::tile::<S, 1, 1>(simd, weights, x, lines, sums),
                    _ => W::tile::<S, 1, 2>(simd, weights, x, lines, sums),
                }
            }
            let mut done = 2;
            while done < rows {
                let x = &x[done * width..];
                done += match (weights.len() / words, rows - done) {
                    (TOGETHER, 1) => {
                        W::tile::<S, TOGETHER, 1>(simd, weights, x, lines, &mut sums[done..]);
                        1
                    }
                    // With 16 registers there are too few for the sums of all; and vectors of 4 need twice
                    // as many sums, so that none is waited for.
                    (TOGETHER, _) if S::REGISTER_COUNT < 32 || S::F32_LANES == 4 => {
                        for half in [0, TOGETHER / 2] {
                            let sums = &mut sums[half * rows + done..];
                            let weights = &weights[half * words..];
                            W::tile::<S, { TOGETHER / 2 }, 2>(simd, weights, x, lines, sums);
                        }
                        2
                    }
                    (TOGETHER, _) => {
                        W::tile::<S, TOGETHER, 2>(simd, weights, x, lines, &mut sums[done..]);
                        2
                    }
                    _ => {
                        for (o, weights) in weights.chunks(words).enumerate() {
                            let sums = &mut sums[o * rows + done..];
                            W::tile::<S, 1, 1>(simd, weights, x, lines, sums);
                        }
                        1
                    }
                };
            }
        }
    }
}
