//! Words without scales: one f32, or two neighbouring bf16. A shift converts every even bf16 to
//! f32, a mask every odd one.

use burn::tensor::{DType, TensorMetadata, bf16};
use burn_flex::FlexTensor;
use half::slice::HalfFloatSliceExt;
use pulp::{Arch, Simd, WithSimd, bytemuck};

use super::{
    super::{super::matrix::Matrix, values},
    Lines, Weight, prefetch,
};

/// A word of one or two weights, without scales.
trait Plain: Copy + Sync {
    /// Weights per word.
    const NUMBERS: usize;

    /// The memory of two vectors of numbers.
    type Pair<S: Simd>: Copy;

    /// Splits a row into pairs of vectors and the rest.
    fn pairs<S: Simd>(row: &[Self]) -> (&[Self::Pair<S>], &[Self]);

    /// Converts to two vectors of f32.
    fn widened<S: Simd>(simd: S, pair: Self::Pair<S>) -> [S::f32s; 2];

    /// Returns the dot product of the rests of a row and of `x`.
    fn dot(rest: &[Self], x: &[f32]) -> f32;

    /// See [`Weight::of`].
    fn of(weight: &FlexTensor) -> Option<&[Self]>;

    /// See [`Weight::arrange`].
    fn arrange(arch: Arch, x: &[f32], width: usize, to: &mut [f32]);
}

impl<P: Plain> Weight for P {
    fn of(weight: &Matrix) -> Option<&[Self]> {
        match weight {
            Matrix::Plain(weight) => <P as Plain>::of(weight),
            Matrix::Q8(_) => None,
        }
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
        match S::F32_LANES {
            4 => tile::<S, P, O, R, 2>(simd, weights, x, lines, sums),
            _ => tile::<S, P, O, R, 1>(simd, weights, x, lines, sums),
        }
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

/// Two neighbouring bf16, the first in the low half.
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

    /// Rows that begin in the middle of a word are not supported.
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

    /// Puts the even numbers of two vectors first, then the odd ones.
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

/// The bits of a word's second number, which are also its bits as f32.
const HIGH: u32 = 0xffff_0000;

struct Lanes;

impl WithSimd for Lanes {
    type Output = usize;

    fn with_simd<S: Simd>(self, _: S) -> usize {
        S::F32_LANES
    }
}

/// [`Weight::tile`] of words without scales, with `C` pairs of sums for each weight row and row of `x`:
/// an instruction waits for its own sum, and in that time short vectors do little.
#[inline(always)]
fn tile<S: Simd, W: Plain, const O: usize, const R: usize, const C: usize>(
    simd: S,
    weights: &[W],
    x: &[f32],
    Lines { words, width, rows }: Lines,
    sums: &mut [f32],
) {
    let weights: [_; O] = std::array::from_fn(|row| {
        let (pairs, rest) = W::pairs::<S>(&weights[row * words..][..words]);
        // The length is written as in the loop, so that the compiler drops the bounds checks.
        (pairs[..width / (2 * S::F32_LANES)].as_chunks::<C>(), rest)
    });
    let inputs: [_; R] = std::array::from_fn(|row| {
        let (pairs, rest) = f32::pairs::<S>(&x[row * width..][..width]);
        (pairs[..width / (2 * S::F32_LANES)].as_chunks::<C>(), rest)
    });
    // ANCHOR: tile
    let mut partial = [[[[simd.splat_f32s(0.0); 2]; R]; O]; C];
    for i in 0..width / (2 * S::F32_LANES) / C {
        for (chain, partial) in partial.iter_mut().enumerate() {
            for (partial, weights) in partial.iter_mut().zip(&weights) {
                let weights = &weights.0.0[i][chain];
                if O == 1 {
                    prefetch::after(weights);
                }
                let weights = W::widened(simd, *weights);
                for (partial, input) in partial.iter_mut().zip(&inputs) {
                    let input = &input.0.0[i][chain];
                    partial[0] = simd.mul_add_f32s(weights[0], input[0], partial[0]);
                    partial[1] = simd.mul_add_f32s(weights[1], input[1], partial[1]);
                }
            }
        }
    }
    // ANCHOR_END: tile
    for (o, weights) in weights.iter().enumerate() {
        for (r, input) in inputs.iter().enumerate() {
            let mut both = partial[0][o][r];
            for (weights, input) in weights.0.1.iter().zip(input.0.1) {
                let weights = W::widened(simd, *weights);
                both[0] = simd.mul_add_f32s(weights[0], input[0], both[0]);
                both[1] = simd.mul_add_f32s(weights[1], input[1], both[1]);
            }
            for partial in &partial[1..] {
                both[0] = simd.add_f32s(both[0], partial[o][r][0]);
                both[1] = simd.add_f32s(both[1], partial[o][r][1]);
            }
            let all = simd.add_f32s(both[0], both[1]);
            sums[o * rows + r] = simd.reduce_sum_f32s(all) + W::dot(weights.1, input.1);
        }
    }
}
