//! Int8 rows on x86: `x` in int16, and both multiplied in pairs by `vpmaddwd`.
//!
//! In f32, a vector of bytes takes a shuffle, two more instructions and a multiplication before it can be
//! used. Here one shuffle makes two int16 of each pair of bytes, for any number of rows of `x`.
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
//! Vectors of 8 and 16 lanes have two and four times as many words. Each makes the same exact sums of a block, but adds
//! them in another order.
//!
//! Source: Intel, "Intrinsics Guide", AVX2 and AVX512BW.

use std::{arch::x86_64::*, array};

use pulp::bytemuck::{cast, cast_ref};

use super::super::{
    super::super::eight::{BLOCK, BLOCKS, GROUP, Group, ZERO, parts},
    Lines, prefetch,
};
use super::rounded::{Rounded, rounded};

/// Words of the weights that one instruction shuffles apart from others.
const WORDS: usize = 4;

/// The largest number of a block, in steps of its scale.
const MOST: f32 = 32767.0;

/// Places of starts and scales in the memory of a group of `x`, which has [`GROUP`] f32. The int16 come
/// first.
const START: usize = GROUP / 2;
const SCALES: usize = START + 16;

/// Rounds a group of `x` for vectors of `lanes`.
#[inline(always)]
pub(super) fn pack(lanes: usize, x: &[f32; GROUP], to: &mut [f32; GROUP]) {
    match lanes {
        16 => pack_for::<16>(x, to),
        _ => pack_for::<8>(x, to),
    }
}

#[inline(always)]
fn pack_for<const LANES: usize>(x: &[f32; GROUP], to: &mut [f32; GROUP]) {
    let Rounded { numbers, scales } = rounded(x, MOST);
    let pairs: [[u32; BLOCK / 2]; BLOCKS] = cast(numbers);
    let (numbers, rest) = to.split_at_mut(START);
    let mut start = [0i32; LANES];
    for (vector, numbers) in numbers.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
        let first = vector / 2 * LANES / 2 + vector % 2;
        for lane in 0..LANES {
            let pair = pairs[lane % BLOCKS][first + lane / WORDS * 2];
            numbers[lane] = f32::from_bits(pair);
            start[lane] -= (pair as i32 >> 16) + i32::from(pair as i16);
        }
    }
    for lane in 0..LANES {
        rest[lane] = f32::from_bits((start[lane] * ZERO as i32) as u32);
    }
    rest[SCALES - START..][..BLOCKS].copy_from_slice(&scales);
}

/// The tile for one vector length. Trait functions cannot have target features, so each has its own copy.
macro_rules! tile {
    ($features:literal, $lanes:literal, $zero:ident, $shuffle:ident, $madd:ident, $add:ident,
     $convert:ident, $mul:ident, $fma:ident) => {
        use super::*;

        const LANES: usize = $lanes;

        /// Multiplies `O` rows of the weights with `R` rows of rounded `x`: see [`super::super::Weight::tile`].
        #[target_feature(enable = $features)]
        pub(in super::super) fn tile<const O: usize, const R: usize>(
            weights: &[Group],
            x: &[f32],
            Lines { words, width, rows }: Lines,
            sums: &mut [f32],
        ) {
            let inputs: [&[[f32; GROUP]]; R] =
                array::from_fn(|row| x[row * width..][..width].as_chunks().0);
            let shuffles = [load(&shuffle::<LANES>(0)), load(&shuffle::<LANES>(1))];
            for o in 0..O {
                let mut all = [$zero(); R];
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
                            let weights = $shuffle(bytes, shuffles[half]);
                            for r in 0..R {
                                let x = &inputs[r][index][(2 * vector + half) * LANES..];
                                whole[r] = $add(whole[r], $madd(weights, load(x)));
                            }
                        }
                    }
                    // ANCHOR_END: pairs
                    let scales = four(scales);
                    for r in 0..R {
                        let of_x = &inputs[r][index][SCALES..][..BLOCKS];
                        let scales = $mul(scales, four(of_x.try_into().expect("four")));
                        all[r] = $fma($convert(whole[r]), scales, all[r]);
                    }
                }
                for r in 0..R {
                    sums[o * rows + r] = sum(all[r]);
                }
            }
        }
    };
}

/// The shuffle for the first or the second vector: bytes of two words of each four, as int16.
fn shuffle<const LANES: usize>(half: usize) -> [f32; LANES] {
    /// A byte that becomes zero.
    const EMPTY: u32 = 0x80;
    array::from_fn(|lane| {
        // Two words of one block, within its sixteen bytes.
        let first = (2 * half * BLOCKS + lane % BLOCKS) as u32;
        let second = first + BLOCKS as u32;
        f32::from_bits(first | EMPTY << 8 | second << 16 | EMPTY << 24)
    })
}

pub(super) mod of_8 {
    //! Vectors of AVX2.

    tile!(
        "avx2,fma",
        8,
        _mm256_setzero_ps,
        _mm256_shuffle_epi8,
        _mm256_madd_epi16,
        _mm256_add_epi32,
        _mm256_cvtepi32_ps,
        _mm256_mul_ps,
        _mm256_fmadd_ps
    );

    /// Adds all lanes.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn sum(vector: __m256) -> f32 {
        let mut lanes = [0.0; LANES];
        keep(vector, &mut lanes);
        let [a, b, c, d, e, f, g, h] = lanes;
        ((a + e) + (b + f)) + ((c + g) + (d + h))
    }

    mod memory {
        //! Loads and stores, for which the compiler's intrinsics use pointers.
        #![expect(unsafe_code, reason = "pointers into memory whose length is checked")]

        use super::*;

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
}

pub(super) mod of_16 {
    //! Vectors of AVX-512.

    tile!(
        "avx512f,avx512bw",
        16,
        _mm512_setzero_ps,
        _mm512_shuffle_epi8,
        _mm512_madd_epi16,
        _mm512_add_epi32,
        _mm512_cvtepi32_ps,
        _mm512_mul_ps,
        _mm512_fmadd_ps
    );

    /// Adds all lanes.
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn sum(vector: __m512) -> f32 {
        _mm512_reduce_add_ps(vector)
    }

    mod memory {
        //! Loads, for which the compiler's intrinsics use pointers.
        #![expect(unsafe_code, reason = "pointers into memory whose length is checked")]

        use super::*;

        /// Loads the first sixteen words.
        #[target_feature(enable = "avx512f")]
        #[inline]
        pub(super) fn load(from: &[f32]) -> __m512i {
            let from = &from[..LANES];
            // SAFETY: the slice has as many bytes as are read.
            unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
        }

        /// Loads four numbers four times.
        #[target_feature(enable = "avx512f")]
        #[inline]
        pub(super) fn four(from: &[f32; BLOCKS]) -> __m512 {
            // SAFETY: the array has as many bytes as are read.
            _mm512_broadcast_f32x4(unsafe { _mm_loadu_ps(from.as_ptr()) })
        }
    }
    use memory::{four, load};
}
