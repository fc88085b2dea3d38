//! Tiles with one row of `x` per lane: a word of a weight row is multiplied with the words of
//! sixteen rows.
//!
//! A word of bf16 is two neighbours of a sum. `vdpbf16ps` multiplies them and adds them to an f32.
//! It flushes denormal numbers to zero, and rounds the sum of each pair once more than a fused
//! chain would. Both effects are far below the rounding of `x`. A word of f32 is one number.
//!
//! Weights are read as stored, and nothing is summed across lanes. Complete sums are transposed
//! once.
//!
//! Source: Intel, "Intrinsics Guide", AVX512_BF16 and AVX512F.

use std::arch::x86_64::*;

use super::{
    super::transpose::{LANES, transpose},
    COLUMNS, memory,
    pack::Vector,
};
use crate::kernel::flex::level::{self, CpuLevel};

/// The destination of sums.
pub(in crate::kernel::flex) struct Part<'a, 'b> {
    /// The output rows that exist.
    pub(super) rows: &'a mut [&'b mut [f32]],
    /// The first column.
    pub(super) start: usize,
    /// True if the sums replace the output; false if they are added.
    pub(super) is_first: bool,
}

impl Part<'_, '_> {
    /// Writes or adds the sums of a row, as many as fit.
    ///
    /// (Inlined into the tile, so that it is compiled with the tile's instructions.)
    #[inline(always)]
    fn keep(&mut self, row: usize, sums: [f32; COLUMNS]) {
        let Some(to) = self.rows.get_mut(row) else { return };
        let to = &mut to[self.start..];
        match to.first_chunk_mut() {
            Some(to) if self.is_first => *to = sums,
            Some(to) => add(to, &sums),
            None if self.is_first => to.copy_from_slice(&sums[..to.len()]),
            None => add(to, &sums),
        }
    }
}

#[inline(always)]
fn add(to: &mut [f32], sums: &[f32; COLUMNS]) {
    to.iter_mut().zip(sums).for_each(|(to, sum)| *to += sum);
}

/// Rows of the weights, as words.
pub(in crate::kernel::flex) struct Panel<'a> {
    /// All of one length.
    words: [&'a [[u8; 4]]; COLUMNS],
    /// The rest of a row that does not fill a word.
    rest: Option<[u32; COLUMNS]>,
}

impl<'a> Panel<'a> {
    /// Creates a panel from the bytes of rows of one length.
    pub(in crate::kernel::flex) fn of(rows: [&'a [u8]; COLUMNS]) -> Self {
        let count = rows[0].len() / 4;
        let rest = rows.map(|row| match row[count * 4..] {
            [low, high] => u32::from(u16::from_ne_bytes([low, high])),
            _ => 0,
        });
        Self {
            words: rows.map(|row| &row.as_chunks().0[..count]),
            rest: (rows[0].len() > count * 4).then_some(rest),
        }
    }
}

/// Proof that the CPU has an instruction for words of one type.
pub(in crate::kernel::flex) trait Dot: Copy + Sync {
    /// Type of the weights.
    type Number: pulp::bytemuck::Pod + Sync;

    /// Numbers per word.
    const NUMBERS: usize;

    /// Packs sixteen words of up to sixteen rows of `x`, word by word; padded with zeros.
    fn pack(self, rows: &[&[f32]]) -> [Vector; LANES];

    /// Computes `to[v LANES + r][c] = sum over i of x[i][v][r] weights[c][i]`, for as many words as
    /// the rows of weights have.
    fn run<const V: usize>(self, x: &[[Vector; V]], weights: &Panel, to: Part);
}

/// [`Dot`] of bf16 weights; `x` is rounded to bf16.
#[derive(Debug, Clone, Copy)]
pub(in crate::kernel::flex) struct OfBf16(());

/// [`Dot`] of f32 weights.
#[derive(Debug, Clone, Copy)]
pub(in crate::kernel::flex) struct OfF32(());

impl OfBf16 {
    /// Returns the proof if this CPU has the instruction.
    pub(in crate::kernel::flex) fn new() -> Option<Self> {
        level::has(CpuLevel::Avx512Bf16).then_some(Self(()))
    }
}

impl OfF32 {
    /// Returns the proof if this CPU has the instruction.
    pub(in crate::kernel::flex) fn new() -> Option<Self> {
        level::has(CpuLevel::Avx512).then_some(Self(()))
    }
}

#[expect(unsafe_code, reason = "`Self` is the proof that the processor has these instructions")]
impl Dot for OfBf16 {
    type Number = u16;
    const NUMBERS: usize = 2;

    fn pack(self, rows: &[&[f32]]) -> [Vector; LANES] {
        // SAFETY: see above.
        unsafe { of_bf16::pack(rows) }
    }

    fn run<const V: usize>(self, x: &[[Vector; V]], weights: &Panel, to: Part) {
        // SAFETY: see above.
        unsafe { of_bf16::run(x, weights, to) }
    }
}

#[expect(unsafe_code, reason = "`Self` is the proof that the processor has these instructions")]
impl Dot for OfF32 {
    type Number = f32;
    const NUMBERS: usize = 1;

    fn pack(self, rows: &[&[f32]]) -> [Vector; LANES] {
        // SAFETY: see above.
        unsafe { of_f32::pack(rows) }
    }

    fn run<const V: usize>(self, x: &[[Vector; V]], weights: &Panel, to: Part) {
        // SAFETY: see above.
        unsafe { of_f32::run(x, weights, to) }
    }
}

/// Returns a row padded with zeros. (A copy of unknown length would be a function call.)
#[inline(always)]
pub(in crate::kernel::flex) fn filled<const N: usize>(row: &[f32]) -> [f32; N] {
    match row.first_chunk() {
        Some(full) => *full,
        None => {
            let mut full = [0.0; N];
            full[..row.len()].copy_from_slice(row);
            full
        }
    }
}

/// The tile for one instruction. Trait functions cannot have target features, so each type has its
/// own copy.
macro_rules! tile {
    ($features:literal, |$sum:ident, $x:ident, $weights:ident| $multiplied:expr, |$row:ident| $rounded:expr) => {
        use super::{super::memory::*, *};

        #[target_feature(enable = $features)]
        pub(super) fn pack(rows: &[&[f32]]) -> [Vector; LANES] {
            let mut block = [_mm512_setzero_si512(); LANES];
            for (to, $row) in block.iter_mut().zip(rows) {
                *to = $rounded;
            }
            transpose(&mut block);
            let mut vectors = [Vector::ZERO; LANES];
            vectors.iter_mut().zip(block).for_each(|(to, vector)| *to = kept(vector));
            vectors
        }

        #[target_feature(enable = $features)]
        pub(super) fn run<const V: usize>(x: &[[Vector; V]], weights: &Panel, to: Part) {
            put(&sums(x, weights), to);
        }

        /// Separate from [`put`], because both together need more registers than there are.
        #[target_feature(enable = $features)]
        #[inline(never)]
        #[expect(
            unsafe_code,
            reason = "asking for every row whether it ends takes as long as the loads"
        )]
        pub(in crate::kernel::flex) fn sums<const V: usize>(
            x: &[[Vector; V]],
            weights: &Panel,
        ) -> [[__m512; V]; COLUMNS] {
            let Panel { words, rest } = weights;
            let count = words[0].len();
            // ANCHOR: dot
            let mut sums = [[_mm512_setzero_ps(); V]; COLUMNS];
            for (index, x) in x[..count].iter().enumerate() {
                for column in 0..COLUMNS {
                    // SAFETY: every row has `count` of them, see `Panel::of`.
                    let word = unsafe { *words[column].get_unchecked(index) };
                    let $weights = _mm512_set1_epi32(i32::from_ne_bytes(word));
                    for vector in 0..V {
                        let ($sum, $x) = (sums[column][vector], load(&x[vector]));
                        sums[column][vector] = $multiplied;
                    }
                }
            }
            // ANCHOR_END: dot
            if let Some(rest) = rest {
                for column in 0..COLUMNS {
                    let $weights = _mm512_set1_epi32(rest[column] as i32);
                    for vector in 0..V {
                        let ($sum, $x) = (sums[column][vector], load(&x[count][vector]));
                        sums[column][vector] = $multiplied;
                    }
                }
            }
            sums
        }
    };
}

/// Transposes sums and writes them to their destination.
#[target_feature(enable = "avx512f")]
#[inline(never)]
fn put<const V: usize>(sums: &[[__m512; V]; COLUMNS], mut to: Part) {
    for vectors in 0..V.div_ceil(2) {
        let [first, second] = [2 * vectors, (2 * vectors + 1).min(V - 1)];
        let mut block = [_mm512_setzero_si512(); LANES];
        for column in 0..COLUMNS {
            block[column] = _mm512_castps_si512(sums[column][first]);
            block[column + COLUMNS] = _mm512_castps_si512(sums[column][second]);
        }
        transpose(&mut block);
        for (row, both) in block.into_iter().enumerate() {
            let [sums, others] = memory::halves(both);
            to.keep(first * LANES + row, sums);
            if second > first {
                to.keep(second * LANES + row, others);
            }
        }
    }
}

pub(in crate::kernel::flex) mod of_bf16 {
    tile!(
        "avx512f,avx512bf16",
        |sum, x, weights| _mm512_dpbf16_ps(sum, numbers(x), numbers(weights)),
        |row| words(row)
    );

    /// Rounds numbers and packs two per word.
    #[target_feature(enable = "avx512f,avx512bf16")]
    fn words(row: &[f32]) -> __m512i {
        let full: [f32; 2 * LANES] = filled(row);
        let [low, high] = [0, 1].map(|half| full.as_chunks().0[half]);
        bits(_mm512_cvtne2ps_pbh(vector(&high), vector(&low)))
    }
}

mod of_f32 {
    tile!(
        "avx512f",
        |sum, x, weights| {
            _mm512_fmadd_ps(_mm512_castsi512_ps(x), _mm512_castsi512_ps(weights), sum)
        },
        |row| words(row)
    );

    #[target_feature(enable = "avx512f")]
    fn words(row: &[f32]) -> __m512i {
        _mm512_castps_si512(vector(&filled(row)))
    }
}
