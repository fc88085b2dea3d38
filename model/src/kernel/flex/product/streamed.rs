//! Few rows against weights in the order of memory.
//!
//! Weights are read once and widened in registers, which is exact; `x` stays f32: [`plain`], [`eight`].

mod eight;
mod plain;

use burn_flex::FlexTensor;
use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::{super::from_values, WORTH_SHARING};

/// Outputs that a core takes at a time.
pub(in super::super) const CHUNK: usize = 32;

/// `x W^T`.
///
/// # Shapes
/// - `x`: `[rows, width]`, `weights`: `[out, width]`, output: `[rows, out]`
pub(super) fn product<W: Weight>(
    x: &[f32],
    weights: &[W],
    [rows, width, out]: [usize; 3],
) -> FlexTensor {
    let arch = Arch::new();
    let lines = Lines::of::<W>(width, rows);
    let mut arranged = vec![0.0; lines.width * rows];
    W::arrange(arch, x, width, &mut arranged);
    // `[out, rows]`, so that every core writes one piece.
    let mut sums = vec![0.0; out * rows];
    let fill = |(weights, sums): (&[W], &mut [f32])| {
        arch.dispatch(Piece { weights, x: &arranged, lines, sums });
    };
    if out * width < WORTH_SHARING {
        fill((weights, &mut sums));
    } else {
        let pieces = weights.par_chunks(CHUNK * lines.words).zip(sums.par_chunks_mut(CHUNK * rows));
        pieces.for_each(fill);
    }
    if rows == 1 {
        return from_values(sums, [rows, out]);
    }
    let mut turned = vec![0.0; sums.len()];
    turn(&sums, rows, &mut turned);
    from_values(turned, [rows, out])
}

/// `[out, rows]` to `[rows, out]`.
pub(in super::super) fn turn(sums: &[f32], rows: usize, turned: &mut [f32]) {
    if rows == 1 {
        return turned.copy_from_slice(sums);
    }
    for (row, turned) in turned.chunks_exact_mut(sums.len() / rows).enumerate() {
        let sums = sums[row..].iter().step_by(rows);
        turned.iter_mut().zip(sums).for_each(|(value, sum)| *value = *sum);
    }
}

/// A word of memory with weights.
pub(in super::super) trait Weight: Copy + Sync {
    /// A matrix of the type, if it lies as it is read: in order, rows in whole words.
    fn of(weight: &FlexTensor) -> Option<&[Self]>;

    /// Words of a row of `width` numbers.
    fn words(width: usize) -> usize;

    /// Numbers of a row of `x` as [`Self::tile`] takes it.
    fn width(width: usize) -> usize;

    /// Puts rows of `x` in the order, and fills them up with zeros to the length, in which [`Self::tile`] takes
    /// them.
    fn arrange(arch: Arch, x: &[f32], width: usize, to: &mut [f32]);

    /// `O` rows of the weights against the first `R` rows of `x`: `sums[o, r]`, `lines.rows` apart.
    ///
    /// Each sum runs over the width in the same order whatever `O` and `R` are.
    fn tile<S: Simd, const O: usize, const R: usize>(
        simd: S,
        weights: &[Self],
        x: &[f32],
        lines: Lines,
        sums: &mut [f32],
    );
}

/// How long rows are.
#[derive(Clone, Copy)]
pub(in super::super) struct Lines {
    /// Words of a row of the weights.
    pub(in super::super) words: usize,
    /// Numbers of a row of `x`, as it was arranged.
    pub(in super::super) width: usize,
    /// Rows of `x`.
    pub(in super::super) rows: usize,
}

impl Lines {
    /// Those of rows of `width` numbers.
    pub(in super::super) fn of<W: Weight>(width: usize, rows: usize) -> Self {
        Self { words: W::words(width), width: W::width(width), rows }
    }
}

/// Some rows of the weights: `sums[o, r] = weights[o] . x[r]`.
pub(in super::super) struct Piece<'a, W> {
    pub(in super::super) weights: &'a [W],
    /// As [`Weight::arrange`] puts them.
    pub(in super::super) x: &'a [f32],
    pub(in super::super) lines: Lines,
    pub(in super::super) sums: &'a mut [f32],
}

/// Rows of the weights that are kept in the first cache while rows of `x` pass.
const TOGETHER: usize = 4;

impl<W: Weight> WithSimd for Piece<'_, W> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { weights, x, lines, sums } = self;
        let Lines { words, width, rows } = lines;
        let blocks = weights.chunks(TOGETHER * words).zip(sums.chunks_mut(TOGETHER * rows));
        for (weights, sums) in blocks {
            // The first two rows of `x` take the weights as they lie: memory sends several rows at a
            // time far slower. The others find them in the cache.
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
