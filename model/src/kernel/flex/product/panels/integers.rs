//! Panels of int8, multiplied as words of small integers.
//!
//! `x` is rounded like the weights: 32 neighbours of a row share a scale. The sum of such a block is an
//! exact integer; it is added to an f32 with both scales. A word holds a few numbers of a block, in `x`
//! and in the weights alike: two in [`pairs`], four in [`quads`]. The sums are the same to the bit.
//!
//! Source: ggml `ggml_vec_dot_q8_0_q8_0`, which rounds both in the same way.

pub(in super::super) mod pairs;
pub(in super::super) mod quads;

use std::ops::Range;

use pulp::bytemuck::cast_slice;

use super::{Arithmetic, ROWS, SIDE, Sums};
use crate::kernel::flex::eight::{self, BLOCKS, Q8Rows, WHOLE};

/// Lanes of 32 bits.
const LANES: usize = 8;

/// Vectors of a group.
const VECTORS: usize = SIDE / LANES;

/// Proof that the CPU has AVX2, and what multiplies words, `WORDS` for a block.
pub(in super::super) trait Words<const WORDS: usize>: Copy + Sync {
    /// Returns the words of each block of the weights.
    fn of_weights(group: &eight::Group) -> [[i32; WORDS]; BLOCKS];

    /// Returns the words of each block of `x`.
    fn of_x(group: &eight::Group) -> [[i32; WORDS]; BLOCKS];

    /// Returns the number that a sum with a block of `x` begins with.
    fn start(x: &[i32; WORDS]) -> i32;

    /// Adds the products of blocks to the first `V` vectors of `sums`.
    fn add<const V: usize>(self, x: &[Group<WORDS>], weights: &[Panel<WORDS>], sums: &mut Sums);
}

/// Rows of weights that `K` multiplies.
pub(in super::super) struct Integers<'a, const WORDS: usize, K> {
    weights: Q8Rows<'a>,
    words: K,
}

impl<'a, const WORDS: usize, K: Words<WORDS>> Integers<'a, WORDS, K> {
    pub(in super::super) fn of(weights: Q8Rows<'a>, words: K) -> Self {
        Self { weights, words }
    }
}

/// Each word of all rows in turn, and the scales of the rows.
#[derive(Clone)]
#[repr(align(64))]
pub(in super::super) struct Group<const WORDS: usize> {
    words: [[i32; SIDE]; WORDS],
    scales: [f32; SIDE],
    /// Initial values of the sums, with the bits of [`WHOLE`] added: so the bits of a sum are those of an f32 too, and
    /// a subtraction gives the sum. A conversion would compete with the multiplications for ports of Intel's CPUs.
    starts: [i32; SIDE],
}

/// Row by row, and the scales of the rows.
#[derive(Clone)]
#[repr(align(64))]
pub(in super::super) struct Panel<const WORDS: usize> {
    words: [[i32; WORDS]; ROWS],
    scales: [f32; ROWS],
}

#[expect(unsafe_code, reason = "`Words` is the proof that the processor has these instructions")]
impl<const WORDS: usize, K: Words<WORDS>> Arithmetic for Integers<'_, WORDS, K> {
    type Group = Group<WORDS>;
    type Panel = Panel<WORDS>;
    const CHUNK: usize = 16;

    fn empty() -> (Group<WORDS>, Panel<WORDS>) {
        let words = [[0; SIDE]; WORDS];
        let group = Group { words, scales: [0.0; SIDE], starts: [WHOLE.to_bits() as i32; SIDE] };
        (group, Panel { words: [[0; WORDS]; ROWS], scales: [0.0; ROWS] })
    }

    fn pack(&self, x: &[f32], width: usize, to: &mut [Group<WORDS>]) {
        let rounded = eight::rounded_rows(x, width);
        for (row, groups) in rounded.chunks(eight::groups_of(width)).enumerate() {
            // SAFETY: see above.
            unsafe { pack::<WORDS, K>(groups, row, to) }
        }
    }

    fn convert(&self, row: usize, blocks: Range<usize>, to_row: usize, to: &mut [Panel<WORDS>]) {
        let groups = &self.weights.row(row)[blocks.start / BLOCKS..];
        // SAFETY: see above.
        unsafe { convert::<WORDS, K>(groups, to_row, to) }
    }

    fn memory(&self, row: usize, blocks: Range<usize>) -> &[u8] {
        let groups = blocks.start / BLOCKS..blocks.end.div_ceil(BLOCKS);
        cast_slice(self.weights.row(row)[groups].as_flattened())
    }

    fn add(&self, x: &[Group<WORDS>], weights: &[Panel<WORDS>], rows: usize, sums: &mut Sums) {
        match rows {
            ..=LANES => self.words.add::<1>(x, weights, sums),
            _ => self.words.add::<VECTORS>(x, weights, sums),
        }
    }
}

#[target_feature(enable = "avx2")]
fn pack<const WORDS: usize, K: Words<WORDS>>(
    groups: &[eight::Group],
    row: usize,
    to: &mut [Group<WORDS>],
) {
    for (group, to) in groups.iter().zip(to.chunks_mut(BLOCKS)) {
        let (words, (_, scales)) = (K::of_x(group), eight::parts(group));
        for (block, to) in to.iter_mut().enumerate() {
            to.scales[row] = scales[block];
            to.starts[row] = K::start(&words[block]) + WHOLE.to_bits() as i32;
            for (to, word) in to.words.iter_mut().zip(words[block]) {
                to[row] = word;
            }
        }
    }
}

/// Converts groups from the first on; a chunk begins with one.
#[target_feature(enable = "avx2")]
fn convert<const WORDS: usize, K: Words<WORDS>>(
    groups: &[eight::Group],
    to_row: usize,
    to: &mut [Panel<WORDS>],
) {
    for (group, to) in groups.iter().zip(to.chunks_mut(BLOCKS)) {
        let (words, (_, scales)) = (K::of_weights(group), eight::parts(group));
        for (block, to) in to.iter_mut().enumerate() {
            to.words[to_row] = words[block];
            to.scales[to_row] = scales[block];
        }
    }
}

/// The tile for one kind of words. Trait functions cannot have target features, so each kind has its
/// own copy.
macro_rules! tile {
    ($features:literal, |$sum:ident, $weight:ident, $x:ident| $multiplied:expr) => {
        #[target_feature(enable = $features)]
        fn add<const V: usize>(x: &[Group<WORDS>], weights: &[Panel<WORDS>], to: &mut Sums) {
            // ANCHOR: integers
            let mut sums = [[_mm256_setzero_ps(); V]; ROWS];
            let offset = _mm256_set1_ps(WHOLE);
            for (x, weights) in x.iter().zip(weights) {
                let starts = x.starts.as_chunks().0;
                let mut whole = [[_mm256_setzero_si256(); V]; ROWS];
                for whole in &mut whole {
                    for vector in 0..V {
                        whole[vector] = load(&starts[vector]);
                    }
                }
                for word in 0..WORDS {
                    let x = x.words[word].as_chunks().0;
                    for (whole, weights) in whole.iter_mut().zip(&weights.words) {
                        let $weight = _mm256_set1_epi32(weights[word]);
                        for vector in 0..V {
                            let ($sum, $x) = (whole[vector], load(&x[vector]));
                            whole[vector] = $multiplied;
                        }
                    }
                }
                let scales = x.scales.as_chunks().0;
                for row in 0..ROWS {
                    let weight = _mm256_set1_ps(weights.scales[row]);
                    for vector in 0..V {
                        let scale = _mm256_mul_ps(weight, floats(&scales[vector]));
                        let number = _mm256_sub_ps(_mm256_castsi256_ps(whole[row][vector]), offset);
                        sums[row][vector] = _mm256_fmadd_ps(number, scale, sums[row][vector]);
                    }
                }
            }
            // ANCHOR_END: integers
            for (to, sums) in to.iter_mut().zip(sums) {
                for (to, sum) in to.as_chunks_mut().0.iter_mut().zip(sums) {
                    keep(_mm256_add_ps(floats(to), sum), to);
                }
            }
        }
    };
}
use tile;

mod memory {
    //! Loads and stores, for which the compiler's intrinsics use pointers.
    #![expect(unsafe_code, reason = "pointers into arrays whose lengths the types say")]

    use std::arch::x86_64::*;

    use super::LANES;

    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn load(from: &[i32; LANES]) -> __m256i {
        // SAFETY: the array has as many bytes as are read.
        unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn floats(from: &[f32; LANES]) -> __m256 {
        // SAFETY: the array has as many bytes as are read.
        unsafe { _mm256_loadu_ps(from.as_ptr()) }
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn keep(vector: __m256, to: &mut [f32; LANES]) {
        // SAFETY: the array has as many bytes as are written.
        unsafe { _mm256_storeu_ps(to.as_mut_ptr(), vector) }
    }
}
use memory::{floats, keep, load};
