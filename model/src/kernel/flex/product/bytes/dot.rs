//! Tiles of bytes by `vpdpbusd`: a word is four neighbours of a sum, and sums are integers.
//!
//! The instruction multiplies unsigned bytes with signed bytes. Weights are unsigned (q + 128), `x`
//! is signed. So each sum starts with minus the contribution of the 128.
//!
//! Source: Intel, "Intrinsics Guide", AVX512_VNNI.

use std::{arch::x86_64::*, ops::Range};

use super::super::{
    super::eight::{self, BLOCK, BLOCKS, Group},
    transpose::{self, LANES},
};
use crate::kernel::flex::level::{self, CpuLevel};

/// Rows of `x` in a tile.
pub(super) const ROWS: usize = 6;
/// Vectors per row of a panel.
const VECTORS: usize = 2;
/// Rows of the weights in a panel: the integer and f32 sums of a tile fit in registers.
pub(super) const COLUMNS: usize = VECTORS * LANES;
/// Words per block of one row.
const WORDS: usize = BLOCK / 4;

/// A tile of the output.
pub(super) struct Part<'a, 'b> {
    /// Rows of the output, at most [`ROWS`].
    pub(super) rows: &'a mut [&'b mut [f32]],
    /// Columns of the output, at most [`COLUMNS`].
    pub(super) columns: Range<usize>,
    /// True if the sums replace the values, and are not added to them.
    pub(super) is_first: bool,
}

/// One block of each row of a tile of `x`.
#[derive(Debug, Clone, Copy)]
pub(super) struct TileBlock {
    words: [[i32; ROWS]; WORDS],
    scales: [f32; ROWS],
    /// Initial values of the sums.
    first: [i32; ROWS],
}

impl TileBlock {
    pub(super) const ZERO: Self =
        Self { words: [[0; ROWS]; WORDS], scales: [0.0; ROWS], first: [0; ROWS] };
}

/// One block of each row of a panel of weights.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub(super) struct PanelBlock {
    words: [[[u32; LANES]; VECTORS]; WORDS],
    scales: [[f32; LANES]; VECTORS],
}

impl PanelBlock {
    pub(super) const ZERO: Self =
        Self { words: [[[0; LANES]; VECTORS]; WORDS], scales: [[0.0; LANES]; VECTORS] };
}

/// Proof that the CPU has the instruction.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Dot(());

impl Dot {
    /// Returns the proof if this CPU has the instruction.
    pub(in super::super) fn new() -> Option<Self> {
        level::has(CpuLevel::Avx512Vnni).then_some(Self(()))
    }
}

#[expect(unsafe_code, reason = "`Dot` is the proof that the processor has these instructions")]
impl Dot {
    /// Rounds a row of `x` into row `row` of a tile, padded with zeros.
    pub(super) fn round(self, x: &[f32], row: usize, to: &mut [TileBlock]) {
        // SAFETY: see above.
        unsafe { round(x, row, to) }
    }

    /// Packs rows of weights side by side, at most [`COLUMNS`] of one length.
    pub(super) fn transpose<'a>(
        self,
        rows: impl Iterator<Item = &'a [Group]>,
        to: &mut [PanelBlock],
    ) {
        let mut all = [&[][..]; COLUMNS];
        all.iter_mut().zip(rows).for_each(|(all, row)| *all = row);
        // SAFETY: see above.
        unsafe { transpose(&all, to) }
    }

    /// Computes `to[r][c] = sum over i of x[i][r] weights[i][c]`, for all blocks of `weights`.
    pub(super) fn run(self, x: &[TileBlock], weights: &[PanelBlock], to: Part<'_, '_>) {
        // SAFETY: see above.
        unsafe { run(x, weights, to) }
    }
}

#[target_feature(enable = "avx512f,avx512bw")]
fn round(x: &[f32], row: usize, to: &mut [TileBlock]) {
    for (to, numbers) in to.iter_mut().zip(x.chunks(BLOCK)) {
        let mut full = [0.0; BLOCK];
        full[..numbers.len()].copy_from_slice(numbers);
        let halves = full.as_chunks().0;
        let halves = [vector(&halves[0]), vector(&halves[1])];
        // Without the sign, floats are ordered like their bits.
        let [a, b] = halves.map(|half| _mm512_castps_si512(_mm512_abs_ps(half)));
        let most = f32::from_bits(_mm512_reduce_max_epu32(_mm512_max_epu32(a, b)));
        // As for weights, NaN stays NaN.
        let scale = if most.is_finite() { most / 127.0 } else { f32::NAN };
        to.scales[row] = scale;
        let step = _mm512_set1_ps(if scale > 0.0 { scale } else { 1.0 });
        let [a, b] = halves.map(|half| _mm512_cvtps_epi32(_mm512_div_ps(half, step)));
        // NaN becomes the least integer; its scale is NaN.
        let sum = _mm512_reduce_add_epi32(_mm512_add_epi32(a, b));
        to.first[row] = sum.wrapping_mul(-(eight::ZERO as i32));
        let quarters = [a, b].map(|half| four_words(_mm512_cvtsepi32_epi8(half)));
        for (to, word) in to.words.iter_mut().zip(quarters.as_flattened()) {
            to[row] = *word;
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw")]
fn transpose(rows: &[&[Group]; COLUMNS], to: &mut [PanelBlock]) {
    for (group, to) in to.chunks_mut(BLOCKS).enumerate() {
        for (vector, rows) in rows.chunks(LANES).enumerate() {
            for half in 0..2 {
                let mut words = [_mm512_setzero_si512(); LANES];
                for (words, row) in words.iter_mut().zip(rows) {
                    if let Some(group) = row.get(group) {
                        let (group, _) = eight::parts(group);
                        *words = neighbours(load(&group.as_chunks().0[half]));
                    }
                }
                transpose::transpose(&mut words);
                for (index, words) in words.into_iter().enumerate() {
                    let (block, word) = (index % BLOCKS, index / BLOCKS);
                    store(words, &mut to[block].words[half * WORDS / 2 + word][vector]);
                }
            }
            let mut scales = [_mm512_setzero_si512(); LANES];
            for (scales, row) in scales.iter_mut().zip(rows) {
                if let Some(group) = row.get(group) {
                    *scales = few(eight::parts(group).1);
                }
            }
            transpose::transpose(&mut scales);
            for (to, scales) in to.iter_mut().zip(scales) {
                keep(_mm512_castsi512_ps(scales), &mut to.scales[vector]);
            }
        }
    }
}

/// Regroups four words with one number of four blocks each into four words with four numbers of one
/// block each.
#[target_feature(enable = "avx512f,avx512bw")]
fn neighbours(words: __m512i) -> __m512i {
    let order = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    _mm512_shuffle_epi8(words, _mm512_broadcast_i32x4(order))
}

#[target_feature(enable = "avx512f,avx512vnni")]
fn run(x: &[TileBlock], weights: &[PanelBlock], to: Part<'_, '_>) {
    // ANCHOR: bytes
    let mut sums = [[_mm512_setzero_ps(); VECTORS]; ROWS];
    for (x, weights) in x.iter().zip(weights) {
        // A loop: `map` would not be compiled for these instructions.
        let mut whole = [[_mm512_setzero_si512(); VECTORS]; ROWS];
        for (whole, first) in whole.iter_mut().zip(x.first) {
            *whole = [_mm512_set1_epi32(first); VECTORS];
        }
        for (x, weights) in x.words.iter().zip(&weights.words) {
            let weights = [load(&weights[0]), load(&weights[1])];
            for row in 0..ROWS {
                let x = _mm512_set1_epi32(x[row]);
                for vector in 0..VECTORS {
                    whole[row][vector] =
                        _mm512_dpbusd_epi32(whole[row][vector], weights[vector], x);
                }
            }
        }
        let scales = [vector(&weights.scales[0]), vector(&weights.scales[1])];
        for row in 0..ROWS {
            for vector in 0..VECTORS {
                let scale = _mm512_mul_ps(scales[vector], _mm512_set1_ps(x.scales[row]));
                let number = _mm512_cvtepi32_ps(whole[row][vector]);
                sums[row][vector] = _mm512_fmadd_ps(number, scale, sums[row][vector]);
            }
        }
    }
    // ANCHOR_END: bytes
    let Part { rows, columns, is_first } = to;
    for (to, sums) in rows.iter_mut().zip(sums) {
        let to = &mut to[columns.clone()];
        if let Ok(to) = <&mut [[f32; LANES]; VECTORS]>::try_from(to.as_chunks_mut().0) {
            for (to, sum) in to.iter_mut().zip(sums) {
                keep(if is_first { sum } else { _mm512_add_ps(vector(to), sum) }, to);
            }
        } else {
            let mut all = [[0.0; LANES]; VECTORS];
            for (all, sum) in all.iter_mut().zip(sums) {
                keep(sum, all);
            }
            for (to, sum) in to.iter_mut().zip(all.as_flattened()) {
                *to = if is_first { *sum } else { *to + sum };
            }
        }
    }
}

mod memory {
    //! Loads and stores, for which the compiler's intrinsics use pointers.
    #![expect(unsafe_code, reason = "pointers into arrays whose lengths the types say")]

    use std::{arch::x86_64::*, mem::transmute};

    use super::{BLOCKS, LANES};

    #[target_feature(enable = "avx512f")]
    pub(super) fn load(from: &[u32; LANES]) -> __m512i {
        // SAFETY: the array has as many bytes as are read.
        unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
    }

    /// Loads the first lanes; the others are zero.
    #[target_feature(enable = "avx512f")]
    pub(super) fn few(from: &[f32; BLOCKS]) -> __m512i {
        // SAFETY: the array has as many bytes as are read.
        _mm512_zextsi128_si512(unsafe { _mm_loadu_si128(from.as_ptr().cast()) })
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn vector(from: &[f32; LANES]) -> __m512 {
        // SAFETY: the array has as many bytes as are read.
        unsafe { _mm512_loadu_ps(from.as_ptr()) }
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn store(vector: __m512i, to: &mut [u32; LANES]) {
        // SAFETY: the array has as many bytes as are written.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), vector) }
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn keep(vector: __m512, to: &mut [f32; LANES]) {
        // SAFETY: the array has as many bytes as are written.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), vector) }
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn four_words(bytes: __m128i) -> [i32; 4] {
        // SAFETY: both types are 16 bytes, and any bit pattern is valid.
        unsafe { transmute::<__m128i, [i32; 4]>(bytes) }
    }
}
use memory::{few, four_words, keep, load, store, vector};
