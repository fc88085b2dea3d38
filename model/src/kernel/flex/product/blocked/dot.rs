//! Tiles of bf16 by `vdpbf16ps`: a word is two neighbours of a sum, and sums are f32.
//!
//! Both rows are read as they lie, 32 numbers of each at a time, so that a register holds 16 parts of one
//! sum, which are added up at the end. The instruction flushes denormal numbers to zero and rounds each
//! pair's sum once more than a fused chain would: both far below the rounding of `x`.
//!
//! Source: Intel, "Intrinsics Guide", AVX512_BF16.

use std::arch::x86_64::*;

use burn::tensor::bf16;

/// Rows of `x` in a tile.
pub(super) const ROWS: usize = 4;
/// Rows of the weights in a tile: with one vector of sums for each of both, and a vector of every row
/// of `x`, all are in registers.
pub(super) const COLUMNS: usize = 6;
/// Numbers of a vector.
pub(super) const NUMBERS: usize = 32;
/// F32 of a vector, and words.
const LANES: usize = 16;

/// Numbers of a row that are multiplied at a time.
pub(super) type Step = [bf16; NUMBERS];
/// Those of the rows of a tile.
pub(super) type Steps = [Step; ROWS];
/// The sums of a tile, a row of `x` in each.
pub(super) type Sums = [[f32; COLUMNS]; ROWS];

/// Rows of the weights, whole vectors and what is left.
pub(super) struct Panel<'a> {
    whole: [&'a [Step]; COLUMNS],
    rest: [&'a [bf16]; COLUMNS],
}

impl<'a> Panel<'a> {
    /// Of rows of one length.
    pub(super) fn of(rows: [&'a [bf16]; COLUMNS]) -> Self {
        let count = rows[0].len() / NUMBERS;
        Self {
            whole: rows.map(|row| &row.as_chunks().0[..count]),
            rest: rows.map(|row| &row[count * NUMBERS..]),
        }
    }
}

/// A processor that has the instruction.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Dot(());

impl Dot {
    /// If this processor has it.
    pub(in super::super) fn new() -> Option<Self> {
        let has = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512bf16");
        has.then_some(Self(()))
    }
}

#[expect(unsafe_code, reason = "`Dot` is the proof that the processor has these instructions")]
impl Dot {
    /// Rounds a row of `x` to bf16, as row `row` of a tile; zeros where there is no number.
    pub(super) fn round(self, x: &[f32], row: usize, to: &mut [Steps]) {
        // SAFETY: see above.
        unsafe { round(x, row, to) }
    }

    /// `sums[r][c] = sum over i of x[i][r] weights[c][i]`, for as many numbers as the rows of weights
    /// have.
    pub(super) fn run(self, x: &[Steps], weights: &Panel) -> Sums {
        // SAFETY: see above.
        unsafe { run(x, weights) }
    }
}

#[target_feature(enable = "avx512f,avx512bf16")]
fn round(x: &[f32], row: usize, to: &mut [Steps]) {
    for (to, numbers) in to.iter_mut().zip(x.chunks(NUMBERS)) {
        let mut full = [0.0; NUMBERS];
        full[..numbers.len()].copy_from_slice(numbers);
        let [low, high] = [0, 1].map(|half| full.as_chunks().0[half]);
        store(_mm512_cvtne2ps_pbh(vector(&high), vector(&low)), &mut to[row]);
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
#[expect(unsafe_code, reason = "asking for every row whether it ends takes as long as the loads")]
fn run(x: &[Steps], weights: &Panel) -> Sums {
    let Panel { whole, rest } = weights;
    let count = whole[0].len();
    // ANCHOR: dot
    let mut partial = [[_mm512_setzero_ps(); COLUMNS]; ROWS];
    for (step, x) in x[..count].iter().enumerate() {
        let x = [numbers(&x[0]), numbers(&x[1]), numbers(&x[2]), numbers(&x[3])];
        for column in 0..COLUMNS {
            // SAFETY: every row has `count` of them, see `Panel::of`.
            let weights = numbers(unsafe { whole[column].get_unchecked(step) });
            for row in 0..ROWS {
                partial[row][column] = _mm512_dpbf16_ps(partial[row][column], x[row], weights);
            }
        }
    }
    // ANCHOR_END: dot
    if !rest[0].is_empty() {
        for column in 0..COLUMNS {
            let weights = few(rest[column]);
            for row in 0..ROWS {
                let x = numbers(&x[count][row]);
                partial[row][column] = _mm512_dpbf16_ps(partial[row][column], x, weights);
            }
        }
    }
    let mut of = [[0.0; COLUMNS]; ROWS];
    let to = of.as_flattened_mut().as_chunks_mut::<8>().0;
    for (to, partial) in to.iter_mut().zip(partial.as_flattened().as_chunks::<8>().0) {
        *to = sums(partial);
    }
    of
}

/// The sum of each vector. Two at a time become one whose halves are theirs, and so on.
#[target_feature(enable = "avx512f")]
#[inline]
fn sums(of: &[__m512; 8]) -> [f32; 8] {
    let halves = |a, b| {
        _mm512_add_ps(_mm512_shuffle_f32x4::<0x44>(a, b), _mm512_shuffle_f32x4::<0xee>(a, b))
    };
    let quarters = |a, b| {
        _mm512_add_ps(_mm512_shuffle_f32x4::<0x88>(a, b), _mm512_shuffle_f32x4::<0xdd>(a, b))
    };
    // A quarter of each: four sums in order.
    let low = quarters(halves(of[0], of[1]), halves(of[2], of[3]));
    let high = quarters(halves(of[4], of[5]), halves(of[6], of[7]));
    // Within quarters: two parts of the sum of `low`, then two of `high`.
    let both =
        _mm512_add_ps(_mm512_shuffle_ps::<0x88>(low, high), _mm512_shuffle_ps::<0xdd>(low, high));
    let last = _mm512_add_ps(both, _mm512_shuffle_ps::<0xb1>(both, both));
    let lanes = kept(last);
    std::array::from_fn(|column| lanes[column % 4 * 4 + column / 4 * 2])
}

mod memory {
    //! Between memory and registers, which the compiler's intrinsics do by pointers.
    #![expect(unsafe_code, reason = "pointers into slices whose lengths the types say")]

    use std::{arch::x86_64::*, mem::transmute};

    use burn::tensor::bf16;

    use super::{LANES, Step};

    #[target_feature(enable = "avx512f")]
    pub(super) fn vector(from: &[f32; LANES]) -> __m512 {
        // SAFETY: as many bytes as are read.
        unsafe { _mm512_loadu_ps(from.as_ptr()) }
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn kept(vector: __m512) -> [f32; LANES] {
        // SAFETY: both are 64 bytes, of which any are allowed.
        unsafe { transmute::<__m512, [f32; LANES]>(vector) }
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn store(vector: __m512bh, to: &mut Step) {
        // SAFETY: as many bytes as are written, of which any are allowed.
        unsafe {
            _mm512_storeu_si512(to.as_mut_ptr().cast(), transmute::<__m512bh, __m512i>(vector))
        }
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn numbers(from: &Step) -> __m512bh {
        // SAFETY: as many bytes as are read, of which any are allowed.
        unsafe { transmute::<__m512i, __m512bh>(_mm512_loadu_si512(from.as_ptr().cast())) }
    }

    /// Fewer than a vector; zeros after them.
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn few(from: &[bf16]) -> __m512bh {
        let mask = (1 << from.len()) - 1;
        // SAFETY: only what the mask names is read, and so much there is; any bits are allowed.
        unsafe {
            transmute::<__m512i, __m512bh>(_mm512_maskz_loadu_epi16(mask, from.as_ptr().cast()))
        }
    }
}
use memory::{few, kept, numbers, store, vector};
