//! Few rows against weights in the order of memory.
//!
//! Weights are read once and widened in registers, which is exact; `x` stays f32. bf16 by a shift for
//! every even number and a mask for every odd one; eight bits see [`eight`].

mod eight;

use burn::tensor::{DType, TensorMetadata, bf16};
use burn_flex::FlexTensor;
use half::slice::HalfFloatSliceExt;
use pulp::{Arch, Simd, WithSimd, bytemuck};
use rayon::prelude::*;

use super::{super::from_values, WORTH_SHARING, values};

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

/// A word that is one or two weights and nothing else.
trait Plain: Copy + Sync {
    /// Weights in a word.
    const NUMBERS: usize;

    /// Memory that holds two vectors of numbers.
    type Pair<S: Simd>: Copy;

    /// One row as pairs of vectors, and the rest.
    fn pairs<S: Simd>(row: &[Self]) -> (&[Self::Pair<S>], &[Self]);

    /// The two vectors.
    fn widened<S: Simd>(simd: S, pair: Self::Pair<S>) -> [S::f32s; 2];

    /// The product of the rest of a row with that of `x`.
    fn dot(rest: &[Self], x: &[f32]) -> f32;

    /// See [`Weight::of`].
    fn of(weight: &FlexTensor) -> Option<&[Self]>;

    /// See [`Weight::arrange`].
    fn arrange(arch: Arch, x: &[f32], width: usize, to: &mut [f32]);
}

impl<P: Plain> Weight for P {
    fn of(weight: &FlexTensor) -> Option<&[Self]> {
        <P as Plain>::of(weight)
    }

    fn words(width: usize) -> usize {
        width / P::NUMBERS
    }

    fn width(width: usize) -> usize {
        width
    }

    fn arrange(arch: Arch, x: &[f32], width: usize, to: &mut [f32]) {
        <P as Plain>::arrange(arch, x, width, to);
    }

    #[inline(always)]
    fn tile<S: Simd, const O: usize, const R: usize>(
        simd: S,
        weights: &[P],
        x: &[f32],
        lines: Lines,
        sums: &mut [f32],
    ) {
        tile::<S, P, O, R>(simd, weights, x, lines, sums);
    }
}

impl Plain for f32 {
    const NUMBERS: usize = 1;

    type Pair<S: Simd> = [S::f32s; 2];

    #[inline(always)]
    fn pairs<S: Simd>(row: &[Self]) -> (&[[S::f32s; 2]], &[Self]) {
        let (whole, rest) = row.split_at(row.len() - row.len() % (2 * S::F32_LANES));
        (S::as_simd_f32s(whole).0.as_chunks().0, rest)
    }

    #[inline(always)]
    fn widened<S: Simd>(_: S, pair: [S::f32s; 2]) -> [S::f32s; 2] {
        pair
    }

    #[inline(always)]
    fn dot(rest: &[Self], x: &[f32]) -> f32 {
        rest.iter().zip(x).map(|(weight, x)| weight * x).sum()
    }

    fn of(weight: &FlexTensor) -> Option<&[Self]> {
        let is_ours = weight.dtype() == DType::F32 && weight.is_contiguous();
        is_ours.then(|| values(weight, weight.shape().num_elements()))
    }

    fn arrange(_: Arch, x: &[f32], _: usize, to: &mut [f32]) {
        to.copy_from_slice(x);
    }
}

/// Two neighbours in bf16, the first in the low half.
impl Plain for u32 {
    const NUMBERS: usize = 2;

    type Pair<S: Simd> = S::u32s;

    #[inline(always)]
    fn pairs<S: Simd>(row: &[Self]) -> (&[S::u32s], &[Self]) {
        S::as_simd_u32s(row)
    }

    #[inline(always)]
    fn widened<S: Simd>(simd: S, words: S::u32s) -> [S::f32s; 2] {
        let low = simd.wrapping_dyn_shl_u32s(words, simd.splat_u32s(16));
        let high = simd.and_u32s(words, simd.splat_u32s(HIGH));
        [simd.transmute_f32s_u32s(low), simd.transmute_f32s_u32s(high)]
    }

    #[inline(always)]
    fn dot(rest: &[Self], x: &[f32]) -> f32 {
        let both = |word: Self| [word << 16, word & HIGH].map(f32::from_bits);
        rest.iter().flat_map(|&word| both(word)).zip(x).map(|(weight, x)| weight * x).sum()
    }

    /// Rows that begin in the middle of a word are not read so.
    fn of(weight: &FlexTensor) -> Option<&[Self]> {
        let is_ours = weight.dtype() == DType::BF16
            && weight.is_contiguous()
            && weight.shape()[1].is_multiple_of(2);
        if !is_ours {
            return None;
        }
        let numbers: &[bf16] = values(weight, weight.shape().num_elements());
        let bits: &[u16] = numbers.reinterpret_cast();
        bytemuck::try_cast_slice(bits).ok()
    }

    /// Of two vectors first the even numbers, then the odd ones.
    fn arrange(arch: Arch, x: &[f32], width: usize, to: &mut [f32]) {
        let lanes = arch.dispatch(Lanes);
        to.copy_from_slice(x);
        for (to, from) in to.chunks_mut(width).zip(x.chunks(width)) {
            let pairs = to.chunks_exact_mut(2 * lanes).zip(from.chunks_exact(2 * lanes));
            for (to, from) in pairs {
                let (even, odd) = to.split_at_mut(lanes);
                for ((even, odd), from) in even.iter_mut().zip(odd).zip(from.as_chunks::<2>().0) {
                    [*even, *odd] = *from;
                }
            }
        }
    }
}

/// The bits of a word's second number, which are those of the same number in f32.
const HIGH: u32 = 0xffff_0000;

struct Lanes;

impl WithSimd for Lanes {
    type Output = usize;

    fn with_simd<S: Simd>(self, _: S) -> usize {
        S::F32_LANES
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

/// [`Weight::tile`] of words that are nothing but weights.
#[inline(always)]
fn tile<S: Simd, W: Plain, const O: usize, const R: usize>(
    simd: S,
    weights: &[W],
    x: &[f32],
    Lines { words, width, rows }: Lines,
    sums: &mut [f32],
) {
    let weights: [_; O] = std::array::from_fn(|row| {
        let (pairs, rest) = W::pairs::<S>(&weights[row * words..][..words]);
        // The length in the words of the loop that reads it, so that it need not check.
        (&pairs[..width / (2 * S::F32_LANES)], rest)
    });
    let inputs: [_; R] = std::array::from_fn(|row| {
        let (pairs, rest) = f32::pairs::<S>(&x[row * width..][..width]);
        (&pairs[..width / (2 * S::F32_LANES)], rest)
    });
    // ANCHOR: tile
    let mut partial = [[[simd.splat_f32s(0.0); 2]; R]; O];
    for i in 0..width / (2 * S::F32_LANES) {
        for (partial, weights) in partial.iter_mut().zip(&weights) {
            let weights = W::widened(simd, weights.0[i]);
            for (partial, input) in partial.iter_mut().zip(&inputs) {
                let input = &input.0[i];
                partial[0] = simd.mul_add_f32s(weights[0], input[0], partial[0]);
                partial[1] = simd.mul_add_f32s(weights[1], input[1], partial[1]);
            }
        }
    }
    // ANCHOR_END: tile
    for (o, weights) in weights.iter().enumerate() {
        for (r, input) in inputs.iter().enumerate() {
            let both = simd.add_f32s(partial[o][r][0], partial[o][r][1]);
            sums[o * rows + r] = simd.reduce_sum_f32s(both) + W::dot(weights.1, input.1);
        }
    }
}
