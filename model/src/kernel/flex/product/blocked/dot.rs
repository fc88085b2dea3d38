//! Tiles of bf16 by `vdpbf16ps`: a word is two neighbours of a sum, and sums are f32.
//!
//! `x` is rounded to bf16 as it is packed; the instruction flushes denormal numbers to zero and
//! rounds each pair's sum once more than a fused chain would: both far below the rounding of `x`.
//!
//! Source: Intel, "Intrinsics Guide", AVX512_BF16.

use std::{arch::x86_64::*, ops::Range};

use super::{
    super::super::eight::{self, Group},
    Weights,
};

/// Vectors of a panel.
const VECTORS: usize = 2;
/// Words of a vector.
const LANES: usize = 16;
/// Rows of the weights in a panel.
pub(super) const COLUMNS: usize = VECTORS * LANES;

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

/// How many of `rows` rows are taken at once: as many as leave the least of the last tile empty.
pub(super) fn rows_at_once(rows: usize) -> usize {
    // With two vectors of sums for each, the weights and a word of `x`, all in registers.
    [14, 12, 10, 8].into_iter().min_by_key(|size| rows.next_multiple_of(*size)).unwrap_or(8)
}

#[expect(unsafe_code, reason = "`Dot` is the proof that the processor has these instructions")]
impl Dot {
    /// Packs rows of `x`, `width` numbers each, rounded to bf16: `[words, at_once]`, zeros where there
    /// is no number.
    pub(super) fn pack_rows(self, x: &[f32], width: usize, at_once: usize, packed: &mut [u32]) {
        // SAFETY: see above.
        unsafe { pack_rows(x, width, at_once, packed) }
    }

    /// Packs `rows` of the weights, at most [`COLUMNS`]: of each the numbers from `first`, the first
    /// of a stretch, on, as far as `packed` reaches, `[words, COLUMNS]`, zeros where there are none.
    pub(super) fn pack_weights(
        self,
        weights: Weights,
        width: usize,
        rows: Range<usize>,
        first: usize,
        packed: &mut [u32],
    ) {
        // SAFETY: see above.
        unsafe { pack_weights(weights, width, rows, first, packed) }
    }

    /// `sums[r, c] = sum over words of x[.., r] weights[.., c]`, `[at_once, COLUMNS]`.
    pub(super) fn run(self, x: &[u32], weights: &[u32], at_once: usize, sums: &mut [f32]) {
        // SAFETY: see above.
        unsafe {
            match at_once {
                14 => run::<14>(x, weights, sums),
                12 => run::<12>(x, weights, sums),
                10 => run::<10>(x, weights, sums),
                _ => run::<8>(x, weights, sums),
            }
        }
    }
}

/// Rounds each row, then puts pairs of all rows beside each other.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
fn pack_rows(x: &[f32], width: usize, at_once: usize, packed: &mut [u32]) {
    for (index, row) in x.chunks(width).enumerate() {
        let mut to = packed.chunks_exact_mut(at_once);
        for numbers in row.chunks(COLUMNS) {
            let mut full = [0.0; COLUMNS];
            full[..numbers.len()].copy_from_slice(numbers);
            let pairs = words(_mm512_cvtne2ps_pbh(
                vector(full[LANES..].try_into().expect("a vector")),
                vector(full[..LANES].try_into().expect("a vector")),
            ));
            let count = numbers.len().div_ceil(2);
            to.by_ref().zip(&pairs[..count]).for_each(|(to, pair)| to[index] = *pair);
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
fn pack_weights(
    weights: Weights,
    width: usize,
    rows: Range<usize>,
    first: usize,
    packed: &mut [u32],
) {
    let count = packed.len() / COLUMNS;
    for (group, start) in (rows.start..rows.end).step_by(LANES).enumerate() {
        let rows = start..(start + LANES).min(rows.end);
        for begin in (0..count).step_by(LANES) {
            let mut block = [_mm512_setzero_si512(); LANES];
            for (block, row) in block.iter_mut().zip(rows.clone()) {
                let number = first + 2 * begin;
                *block = match weights {
                    Weights::Bf16(weights) => {
                        pairs(&weights[row * width..(row + 1) * width][number..])
                    }
                    Weights::Eight(weights) => block_of(weights.row(row), number),
                };
            }
            turn(&mut block);
            let to = packed[begin * COLUMNS..].chunks_exact_mut(COLUMNS);
            for (to, block) in to.zip(block) {
                let to = &mut to[group * LANES..][..LANES];
                store(block, to.try_into().expect("a vector"));
            }
        }
    }
    // A panel that is not full: what was there before may be no number.
    for group in rows.len().div_ceil(LANES)..VECTORS {
        for to in packed.chunks_exact_mut(COLUMNS) {
            to[group * LANES..][..LANES].fill(0);
        }
    }
}

/// The block of a row that begins with `number`, in bf16. A byte becomes the last one of an f32 between
/// 2^23 and 2^24, whose steps are 1.
#[target_feature(enable = "avx512f,avx512bf16")]
fn block_of(row: &[Group], number: usize) -> __m512i {
    let (words, scales) = eight::parts(&row[number / eight::GROUP]);
    let block = number % eight::GROUP / eight::BLOCK;
    let shift = _mm_cvtsi32_si128(8 * block as i32);
    let half = |words: &[u32]| {
        let words = load(words.try_into().expect("a vector"));
        let byte = _mm512_and_si512(_mm512_srl_epi32(words, shift), _mm512_set1_epi32(0xff));
        let bits = _mm512_or_si512(byte, _mm512_set1_epi32(0x4b00_0000));
        let number = _mm512_sub_ps(_mm512_castsi512_ps(bits), _mm512_set1_ps(8_388_736.0));
        _mm512_mul_ps(number, _mm512_set1_ps(scales[block]))
    };
    words_of(_mm512_cvtne2ps_pbh(half(&words[LANES..]), half(&words[..LANES])))
}

/// Columns become rows.
#[target_feature(enable = "avx512f")]
fn turn(block: &mut [__m512i; LANES]) {
    swap::<1>(block);
    swap::<2>(block);
    swap::<4>(block);
    swap::<8>(block);
}

/// Squares of `SIZE` change places across the diagonal, in every square of twice their size.
#[target_feature(enable = "avx512f")]
#[inline]
fn swap<const SIZE: usize>(block: &mut [__m512i; LANES]) {
    let [low, high] = const { [lanes_of(SIZE, 0), lanes_of(SIZE, SIZE)] };
    let [low, high] = [load(&low), load(&high)];
    for pair in 0..LANES / 2 {
        let row = pair / SIZE * 2 * SIZE + pair % SIZE;
        let (a, b) = (block[row], block[row + SIZE]);
        block[row] = _mm512_permutex2var_epi32(a, low, b);
        block[row + SIZE] = _mm512_permutex2var_epi32(a, high, b);
    }
}

/// Which lanes of two rows, the second's counted from 16, make the upper row after a swap (`shift` 0)
/// or the lower one (`shift` = `size`).
const fn lanes_of(size: usize, shift: usize) -> [u32; LANES] {
    let mut lanes = [0; LANES];
    let mut lane = 0;
    while lane < LANES {
        let from = if lane & size == 0 { lane + shift } else { (lane + shift - size) | LANES };
        lanes[lane] = from as u32;
        lane += 1;
    }
    lanes
}

/// `R` rows of `x` against a panel.
#[target_feature(enable = "avx512f,avx512bf16")]
fn run<const R: usize>(x: &[u32], weights: &[u32], sums: &mut [f32]) {
    // ANCHOR: dot
    let mut partial = [[_mm512_setzero_ps(); VECTORS]; R];
    let weights = weights.chunks_exact(COLUMNS);
    for (x, weights) in x.chunks_exact(R).zip(weights) {
        let weights: [_; VECTORS] = std::array::from_fn(|vector| {
            load(weights[vector * LANES..][..LANES].try_into().expect("a vector"))
        });
        for (partial, &x) in partial.iter_mut().zip(x) {
            let x = numbers(_mm512_set1_epi32(x as i32));
            for (partial, weights) in partial.iter_mut().zip(weights) {
                *partial = _mm512_dpbf16_ps(*partial, x, numbers(weights));
            }
        }
    }
    // ANCHOR_END: dot
    for (sums, partial) in sums.chunks_exact_mut(COLUMNS).zip(partial) {
        for (sums, partial) in sums.chunks_exact_mut(LANES).zip(partial) {
            keep(partial, sums.try_into().expect("a vector"));
        }
    }
}

mod memory {
    //! Between memory and registers, which the compiler's intrinsics do by pointers.
    #![expect(unsafe_code, reason = "pointers into slices whose lengths the types say")]

    use std::{arch::x86_64::*, mem::transmute};

    use burn::tensor::bf16;

    use super::LANES;

    #[target_feature(enable = "avx512f")]
    pub(super) fn load(from: &[u32; LANES]) -> __m512i {
        // SAFETY: as many bytes as are read.
        unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn vector(from: &[f32; LANES]) -> __m512 {
        // SAFETY: as many bytes as are read.
        unsafe { _mm512_loadu_ps(from.as_ptr()) }
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn store(vector: __m512i, to: &mut [u32; LANES]) {
        // SAFETY: as many bytes as are written.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), vector) }
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn keep(vector: __m512, to: &mut [f32; LANES]) {
        // SAFETY: as many bytes as are written.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), vector) }
    }

    /// The first 32 numbers as 16 words; zeros where there are fewer.
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn pairs(from: &[bf16]) -> __m512i {
        let count = from.len().min(2 * LANES);
        let mask = u32::MAX.checked_shr((2 * LANES - count) as u32).unwrap_or(0);
        // SAFETY: only what the mask names is read, and so much there is.
        unsafe { _mm512_maskz_loadu_epi16(mask, from.as_ptr().cast()) }
    }

    /// Words as pairs of bf16.
    #[target_feature(enable = "avx512f")]
    pub(super) fn numbers(words: __m512i) -> __m512bh {
        // SAFETY: the same bits.
        unsafe { transmute::<__m512i, __m512bh>(words) }
    }

    /// Pairs of bf16 as a vector of words.
    #[target_feature(enable = "avx512f")]
    pub(super) fn words_of(numbers: __m512bh) -> __m512i {
        // SAFETY: the same bits.
        unsafe { transmute::<__m512bh, __m512i>(numbers) }
    }

    /// Pairs of bf16 as words.
    #[target_feature(enable = "avx512f")]
    pub(super) fn words(numbers: __m512bh) -> [u32; LANES] {
        // SAFETY: the same bits.
        unsafe { transmute::<__m512bh, [u32; LANES]>(numbers) }
    }
}
use memory::{keep, load, numbers, pairs, store, vector, words, words_of};
