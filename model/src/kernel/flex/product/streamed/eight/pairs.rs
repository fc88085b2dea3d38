//! Int8 rows at level `avx2`: `x` in int16, and both multiplied in pairs by `vpmaddwd`.
//!
//! In f32, eight bytes take a shuffle, two more instructions and a multiplication before they can be
//! used. Here one shuffle makes 16 int16 of 16 bytes, for any number of rows of `x`.
//!
//! 32 neighbours of a row of `x` share a scale, and the largest of them is 32767 times it: an error 258
//! times as small as the weights' error. The sum of such a block is an exact integer. A byte is its
//! weight and 128 more; `start` takes 128 times the sum of `x` away before.
//!
//! ```text
//! bytes of four words  b0 b1 b2 b3  b0 b1 b2 b3  b0 b1 b2 b3  b0 b1 b2 b3
//! first vector         b0 b0 b1 b1 b2 b2 b3 b3   of words 0 and 1, as int16
//! second vector        the same of words 2 and 3
//! sums                 b0 b1 b2 b3               as int32
//! ```
//!
//! Source: Intel, "Intrinsics Guide", AVX2.

use std::{arch::x86_64::*, array};

use pulp::bytemuck::{cast, cast_ref};

use super::super::{
    super::super::eight::{BLOCK, BLOCKS, GROUP, Group, ZERO, parts},
    Lines, prefetch,
};
use super::rounded::{Rounded, rounded};

/// Lanes of 32 bits.
const LANES: usize = 8;

/// Words of the weights in each half of a vector.
const HALF: usize = 4;

/// The largest number of a block, in steps of its scale.
const MOST: f32 = 32767.0;

/// Places of starts and scales in the memory of a group of `x`, which has [`GROUP`] f32. The int16 come
/// first.
const START: usize = GROUP / 2;
const SCALES: usize = START + LANES;

/// Rounds a group of `x`.
#[inline(always)]
pub(super) fn pack(x: &[f32; GROUP], to: &mut [f32; GROUP]) {
    let Rounded { numbers, scales } = rounded(x, MOST);
    let pairs: [[u32; BLOCK / 2]; BLOCKS] = cast(numbers);
    let (numbers, rest) = to.split_at_mut(START);
    let mut start = [0i32; LANES];
    for (vector, numbers) in numbers.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
        let first = vector / 2 * HALF + vector % 2;
        for lane in 0..LANES {
            let pair = pairs[lane % BLOCKS][first + lane / HALF * 2];
            numbers[lane] = f32::from_bits(pair);
            start[lane] -= (pair as i32 >> 16) + i32::from(pair as i16);
        }
    }
    for lane in 0..LANES {
        rest[lane] = f32::from_bits((start[lane] * ZERO as i32) as u32);
    }
    rest[SCALES - START..][..BLOCKS].copy_from_slice(&scales);
}

/// Multiplies `O` rows of the weights with `R` rows of rounded `x`: see [`super::Weight::tile`].
#[target_feature(enable = "avx2,fma")]
pub(super) fn tile<const O: usize, const R: usize>(
    weights: &[Group],
    x: &[f32],
    Lines { words, width, rows }: Lines,
    sums: &mut [f32],
) {
    let inputs: [&[[f32; GROUP]]; R] =
        array::from_fn(|row| x[row * width..][..width].as_chunks().0);
    let shuffles = [shuffle(0), shuffle(1)];
    for o in 0..O {
        let mut all = [_mm256_setzero_ps(); R];
        for (index, group) in weights[o * words..][..words].iter().enumerate() {
            if O == 1 {
                prefetch::after(group);
            }
            let (bytes, scales) = parts(group);
            // ANCHOR: pairs
            let mut whole: [_; R] = array::from_fn(|r| load(&inputs[r][index][START..]));
            for (vector, bytes) in bytes.as_chunks::<LANES>().0.iter().enumerate() {
                let bytes = load(cast_ref::<_, [f32; LANES]>(bytes));
                for half in 0..2 {
                    let weights = _mm256_shuffle_epi8(bytes, shuffles[half]);
                    for r in 0..R {
                        let x = &inputs[r][index][(2 * vector + half) * LANES..];
                        let products = _mm256_madd_epi16(weights, load(x));
                        whole[r] = _mm256_add_epi32(whole[r], products);
                    }
                }
            }
            // ANCHOR_END: pairs
            let scales = four(scales);
            for r in 0..R {
                let of_x = &inputs[r][index][SCALES..][..BLOCKS];
                let scales = _mm256_mul_ps(scales, four(of_x.try_into().expect("four")));
                all[r] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(whole[r]), scales, all[r]);
            }
        }
        for r in 0..R {
            let mut lanes = [0.0; LANES];
            keep(all[r], &mut lanes);
            let [a, b, c, d, e, f, g, h] = lanes;
            sums[o * rows + r] = ((a + e) + (b + f)) + ((c + g) + (d + h));
        }
    }
}

/// The shuffle for the first or the second vector: bytes of two words of each four, as int16.
#[target_feature(enable = "avx2")]
#[inline]
fn shuffle(half: usize) -> __m256i {
    /// A byte that becomes zero.
    const EMPTY: u32 = 0x80;
    let mut from = [0u32; LANES];
    for (lane, from) in from.iter_mut().enumerate() {
        // Two words of one block, within its half of the vector.
        let first = (2 * half * BLOCKS + lane % BLOCKS) as u32;
        let second = first + BLOCKS as u32;
        *from = first | EMPTY << 8 | second << 16 | EMPTY << 24;
    }
    load(cast_ref::<_, [f32; LANES]>(&from))
}

mod memory {
    //! Loads and stores, for which the compiler's intrinsics use pointers.
    #![expect(unsafe_code, reason = "pointers into memory whose length is checked")]

    use std::arch::x86_64::*;

    use super::{BLOCKS, LANES};

    /// Loads the first eight words.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn load(from: &[f32]) -> __m256i {
        let from = &from[..LANES];
        // SAFETY: the slice has as many bytes as are read.
        unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
    }

    /// Loads four numbers twice.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn four(from: &[f32; BLOCKS]) -> __m256 {
        // SAFETY: the array has as many bytes as are read.
        unsafe { _mm256_broadcast_ps(&_mm_loadu_ps(from.as_ptr())) }
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn keep(vector: __m256, to: &mut [f32; LANES]) {
        // SAFETY: the array has as many bytes as are written.
        unsafe { _mm256_storeu_ps(to.as_mut_ptr(), vector) }
    }
}
use memory::{four, keep, load};
