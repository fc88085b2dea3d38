//! Panels of int8, multiplied as int16 in pairs by `vpmaddwd`.
//!
//! `vpmaddubsw` would take bytes, but two products of weights with the unsigned rest do not fit its
//! int16. `x` is rounded like the weights: 32 neighbours of a row share a scale. The sum of such a
//! block is an exact integer; it is added to an f32 with both scales.
//!
//! A word holds numbers `i` and `i + 16` of a block, in `x` and in the weights alike.
//!
//! Source: Intel, "Intrinsics Guide", AVX2; ggml `ggml_vec_dot_q8_0_q8_0`, which rounds both in the
//! same way.

use std::{arch::x86_64::*, ops::Range};

use pulp::bytemuck::cast_slice;

use super::{Arithmetic, ROWS, SIDE, Sums};
use crate::kernel::flex::{
    eight::{self, BLOCK, BLOCKS, Q8Rows, ZERO},
    level::{self, CpuLevel},
};

/// Words of a block.
const WORDS: usize = BLOCK / 2;

/// Lanes of 32 bits.
const LANES: usize = 8;

/// Vectors of a group.
const VECTORS: usize = SIDE / LANES;

/// Rows of weights, and the proof that the CPU has the instructions.
pub(in super::super) struct Pairs<'a> {
    weights: Q8Rows<'a>,
}

impl<'a> Pairs<'a> {
    /// Takes the weights if this CPU has the instructions.
    pub(in super::super) fn of(weights: Q8Rows<'a>) -> Option<Self> {
        level::has(CpuLevel::Avx2).then_some(Self { weights })
    }
}

/// Each word of all rows in turn, and the scales of the rows.
#[derive(Clone)]
#[repr(align(64))]
pub(in super::super) struct Group {
    words: [[i32; SIDE]; WORDS],
    scales: [f32; SIDE],
}

/// Row by row, and the scales of the rows.
#[derive(Clone)]
#[repr(align(64))]
pub(in super::super) struct Panel {
    words: [[i32; WORDS]; ROWS],
    scales: [f32; ROWS],
}

#[expect(unsafe_code, reason = "`Pairs` is the proof that the processor has these instructions")]
impl Arithmetic for Pairs<'_> {
    type Group = Group;
    type Panel = Panel;
    const CHUNK: usize = 16;

    fn empty() -> (Group, Panel) {
        let group = Group { words: [[0; SIDE]; WORDS], scales: [0.0; SIDE] };
        (group, Panel { words: [[0; WORDS]; ROWS], scales: [0.0; ROWS] })
    }

    fn pack(&self, x: &[f32], width: usize, to: &mut [Group]) {
        let rounded = eight::rounded_rows(x, width);
        for (row, groups) in rounded.chunks(eight::groups_of(width)).enumerate() {
            for (index, to) in to.iter_mut().enumerate() {
                let (words, scale) = paired(&groups[index / BLOCKS], index % BLOCKS);
                to.scales[row] = scale;
                for (to, word) in to.words.iter_mut().zip(words) {
                    to[row] = word;
                }
            }
        }
    }

    fn convert(&self, row: usize, blocks: Range<usize>, to_row: usize, to: &mut [Panel]) {
        // SAFETY: see above.
        unsafe { convert(self.weights.row(row), blocks, to_row, to) }
    }

    fn memory(&self, row: usize, blocks: Range<usize>) -> &[u8] {
        let groups = blocks.start / BLOCKS..blocks.end.div_ceil(BLOCKS);
        cast_slice(self.weights.row(row)[groups].as_flattened())
    }

    fn add(&self, x: &[Group], weights: &[Panel], rows: usize, sums: &mut Sums) {
        // SAFETY: see above.
        unsafe {
            match rows {
                ..=LANES => add::<1>(x, weights, sums),
                _ => add::<VECTORS>(x, weights, sums),
            }
        }
    }
}

#[target_feature(enable = "avx2,fma")]
fn convert(row: &[eight::Group], blocks: Range<usize>, to_row: usize, to: &mut [Panel]) {
    for (index, to) in blocks.zip(to) {
        let (words, scale) = paired(&row[index / BLOCKS], index % BLOCKS);
        to.words[to_row] = words;
        to.scales[to_row] = scale;
    }
}

/// Returns a block as words of two int16, and its scale.
#[inline(always)]
fn paired(group: &eight::Group, block: usize) -> ([i32; WORDS], f32) {
    let (words, scales) = eight::parts(group);
    let mut paired = [0; WORDS];
    for i in 0..WORDS {
        let [low, high] = [words[i], words[i + WORDS]];
        let low = (low >> (8 * block) & 0xff).wrapping_sub(ZERO) & 0xffff;
        let high = (high >> (8 * block) & 0xff).wrapping_sub(ZERO) << 16;
        paired[i] = (low | high) as i32;
    }
    (paired, scales[block])
}

#[target_feature(enable = "avx2,fma")]
fn add<const V: usize>(x: &[Group], weights: &[Panel], to: &mut Sums) {
    // ANCHOR: pairs
    let mut sums = [[_mm256_setzero_ps(); V]; ROWS];
    for (x, weights) in x.iter().zip(weights) {
        let mut whole = [[_mm256_setzero_si256(); V]; ROWS];
        for word in 0..WORDS {
            let x = x.words[word].as_chunks().0;
            for (whole, weights) in whole.iter_mut().zip(&weights.words) {
                let weight = _mm256_set1_epi32(weights[word]);
                for vector in 0..V {
                    let products = _mm256_madd_epi16(load(&x[vector]), weight);
                    whole[vector] = _mm256_add_epi32(whole[vector], products);
                }
            }
        }
        let scales = x.scales.as_chunks().0;
        for row in 0..ROWS {
            let weight = _mm256_set1_ps(weights.scales[row]);
            for vector in 0..V {
                let scale = _mm256_mul_ps(weight, floats(&scales[vector]));
                let number = _mm256_cvtepi32_ps(whole[row][vector]);
                sums[row][vector] = _mm256_fmadd_ps(number, scale, sums[row][vector]);
            }
        }
    }
    // ANCHOR_END: pairs
    for (to, sums) in to.iter_mut().zip(sums) {
        for (to, sum) in to.as_chunks_mut().0.iter_mut().zip(sums) {
            keep(_mm256_add_ps(floats(to), sum), to);
        }
    }
}

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
