//! Attention for keys and values in bf16, which are multiplied in pairs.
//!
//! ```text
//! queries, rounded -> words of two numbers, interleaved; words of a key, as stored    -> scores
//! weights, rounded -> words of two keys, interleaved;    words of two values' numbers -> mixed
//! ```
//!
//! Scores, weights and all sums are f32. The sum of the weights, by which the result is divided, is
//! taken before they are rounded.

use std::{arch::x86_64::*, iter};

use burn::tensor::bf16;
use half::slice::HalfFloatSliceExt;
use pulp::{
    Simd, WithSimd,
    bytemuck::{cast_slice, cast_slice_mut},
};

use super::{
    Problem,
    many::{Block, DotProducts},
};
use crate::kernel::flex::product::blocked::{
    COLUMNS, Dot, LANES, OfBf16, Panel, Vector, filled,
    memory::{bits, floats, kept, load, numbers, short, shorts, vector},
    of_bf16::sums,
};
use crate::kernel::flex::{cleared, level};

/// Keys, or columns of values, that are summed at once.
const TOGETHER: usize = COLUMNS;

/// Proof that the CPU multiplies pairs of bf16.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dots(OfBf16);

impl Dots {
    /// Returns the proof if the CPU has the instructions and they fit heads of this width.
    pub(super) fn new(width: usize) -> Option<Self> {
        let fits = width.is_multiple_of(TOGETHER) && level::arch().dispatch(Lanes) == LANES;
        let dot = OfBf16::new().filter(|_| fits)?;
        Some(Self(dot))
    }

    /// Rounds to the nearest, ties to even.
    #[expect(unsafe_code, reason = "`Self` is the proof that the processor has the instruction")]
    pub(super) fn round(self, from: &[f32], to: &mut [u16]) {
        // SAFETY: see above.
        unsafe { round(from, to) }
    }
}

#[target_feature(enable = "avx512f,avx512bf16")]
fn round(from: &[f32], to: &mut [u16]) {
    for (from, to) in from.chunks(LANES).zip(to.chunks_mut(LANES)) {
        let rounded = short(_mm512_cvtneps_pbh(vector(&filled(from))));
        to.copy_from_slice(&rounded[..to.len()]);
    }
}

/// The number of f32 lanes of a vector in the generic SIMD code.
struct Lanes;

impl WithSimd for Lanes {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> usize {
        S::F32_LANES
    }
}

/// Keys as stored, and values as words of two neighbouring positions.
pub(super) struct Pairs<'a> {
    dots: Dots,
    problem: Problem<'a, bf16>,
    /// `[B, kv_heads, keys / 2, D]`, padded with zero if the number of keys is odd.
    values: Vec<u32>,
}

impl<'a> Pairs<'a> {
    /// Packs the values of `items` batch items.
    pub(super) fn of(dots: Dots, problem: Problem<'a, bf16>, items: usize) -> Self {
        let Problem { v, kv_heads, keys, .. } = problem;
        let size = keys.div_ceil(2) * v.width;
        let heads = iter::repeat_n(size, items * kv_heads);
        let values = cleared::in_parts(0, heads, |index, to: &mut [u32]| {
            let head = v.head(index / kv_heads, index % kv_heads);
            for (pair, to) in to.chunks_exact_mut(v.width).enumerate() {
                let word = |low: &bf16, high: u16| u32::from(low.to_bits()) | u32::from(high) << 16;
                let low = head.row(2 * pair);
                if 2 * pair + 1 < keys {
                    let both = low.iter().zip(head.row(2 * pair + 1));
                    to.iter_mut().zip(both).for_each(|(to, (a, b))| *to = word(a, b.to_bits()));
                } else {
                    to.iter_mut().zip(low).for_each(|(to, low)| *to = word(low, 0));
                }
            }
        });
        Self { dots, problem, values }
    }
}

#[expect(unsafe_code, reason = "`Dots` is the proof that the processor has these instructions")]
impl<'a> DotProducts<'a> for Pairs<'a> {
    type Number = bf16;
    /// Words of two columns: `[D / 2, V]`.
    type Queries = Vec<Vector>;
    /// Words of two weights: `[keys / 2, V]`.
    type Scratch = Vec<Vector>;
    const BLOCK: usize = 64;

    fn problem(&self) -> &Problem<'a, bf16> {
        &self.problem
    }

    fn step(&self) -> usize {
        2
    }

    #[inline(always)]
    fn pack(&self, queries: &[&[f32]], lanes: usize, to: &mut Vec<Vector>) {
        let (vectors, width) = (lanes / LANES, self.problem.k.width);
        to.clear();
        to.resize(width / 2 * vectors, Vector::ZERO);
        for (index, queries) in queries.chunks(LANES).enumerate() {
            for start in (0..width).step_by(2 * LANES) {
                let mut parts = [&[][..]; LANES];
                for (part, query) in parts.iter_mut().zip(queries) {
                    *part = &query[start..(start + 2 * LANES).min(width)];
                }
                let words = self.dots.0.pack(&parts[..queries.len()]);
                let to = to[start / 2 * vectors + index..].iter_mut().step_by(vectors);
                to.zip(words).for_each(|(to, word)| *to = word);
            }
        }
    }

    fn load(&self, _: &Block, _: usize, _: &mut Vec<Vector>) {}

    #[inline(always)]
    fn scores<S: Simd, const V: usize>(
        &self,
        _: S,
        block: &Block,
        queries: &Vec<Vector>,
        _: &mut Vec<Vector>,
        scores: &mut [f32],
    ) {
        let &Problem { k, scale, .. } = &self.problem;
        let (keys, range) = (k.head(block.item, block.head), &block.keys);
        let scores = scores.as_chunks_mut::<LANES>().0.as_chunks_mut::<V>().0;
        for (first, scores) in range.clone().step_by(TOGETHER).zip(scores.chunks_mut(TOGETHER)) {
            // The last key is repeated for missing ones.
            let panel = Panel::of(std::array::from_fn(|index| {
                let row = keys.row((first + index).min(range.end - 1));
                cast_slice::<u16, u8>(row.reinterpret_cast())
            }));
            // SAFETY: see above.
            unsafe { scores_of(queries.as_chunks::<V>().0, &panel, scale, scores) };
        }
    }

    #[inline(always)]
    fn mix<S: Simd, const V: usize>(
        &self,
        _: S,
        block: &Block,
        weights: &[S::f32s],
        shrink: [S::f32s; V],
        pairs: &mut Vec<Vector>,
        mixed: &mut [S::f32s],
    ) {
        let &Problem { kv_heads, keys, ref v, .. } = &self.problem;
        let width = v.width;
        let weights: &[f32] = cast_slice(weights);
        let shrink: &[f32] = cast_slice(&shrink);
        let mixed: &mut [f32] = cast_slice_mut(mixed);
        let weights = weights.as_chunks::<LANES>().0.as_chunks::<V>().0;
        pairs.resize(weights.len().div_ceil(2) * V, Vector::ZERO);
        let pairs = pairs.as_chunks_mut::<V>().0;
        // SAFETY: see above.
        unsafe { pair(weights, pairs) };

        let head = block.item * kv_heads + block.head;
        let first = head * keys.div_ceil(2) + block.keys.start / 2;
        let values = &self.values[first * width..][..pairs.len() * width];
        let shrink = &shrink.as_chunks::<LANES>().0.as_chunks::<V>().0[0];
        let mixed = &mut mixed.as_chunks_mut::<LANES>().0.as_chunks_mut::<V>().0[..width];
        for (index, mixed) in mixed.as_chunks_mut::<TOGETHER>().0.iter_mut().enumerate() {
            // SAFETY: see above.
            unsafe { mix(pairs, &values[index * TOGETHER..], width, shrink, mixed) };
        }
    }
}

/// Computes the scores of at most [`TOGETHER`] keys.
#[target_feature(enable = "avx512f,avx512bf16")]
fn scores_of<const V: usize>(
    queries: &[[Vector; V]],
    keys: &Panel<'_>,
    scale: f32,
    scores: &mut [[[f32; LANES]; V]],
) {
    let scale = _mm512_set1_ps(scale);
    for (scores, sums) in scores.iter_mut().zip(&sums(queries, keys)) {
        for (scores, &sum) in scores.iter_mut().zip(sums) {
            *scores = floats(_mm512_mul_ps(sum, scale));
        }
    }
}

/// Interleaves the first sixteen numbers of a vector with the last sixteen.
#[target_feature(enable = "avx512f")]
#[inline]
pub(super) fn word_order() -> __m512i {
    let mut order = [0; 2 * LANES];
    for (index, order) in order.iter_mut().enumerate() {
        *order = (index / 2 + index % 2 * LANES) as u16;
    }
    shorts(&order)
}

/// Packs weights in words of two keys; an odd last key is paired with zero.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
fn pair<const V: usize>(weights: &[[[f32; LANES]; V]], pairs: &mut [[Vector; V]]) {
    let order = word_order();
    for (two, pair) in weights.chunks(2).zip(pairs) {
        for v in 0..V {
            let low = vector(&two[0][v]);
            let high = two.get(1).map_or(_mm512_setzero_ps(), |weights| vector(&weights[v]));
            let both = bits(_mm512_cvtne2ps_pbh(high, low));
            pair[v] = kept(_mm512_permutexvar_epi16(order, both));
        }
    }
}

/// Mixes [`TOGETHER`] columns of the values, whose rows are `stride` apart.
#[target_feature(enable = "avx512f,avx512bf16")]
#[inline(never)]
fn mix<const V: usize>(
    weights: &[[Vector; V]],
    values: &[u32],
    stride: usize,
    shrink: &[[f32; LANES]; V],
    mixed: &mut [[[f32; LANES]; V]; TOGETHER],
) {
    let mut sums = [[_mm512_setzero_ps(); V]; TOGETHER];
    for (sums, mixed) in sums.iter_mut().zip(&*mixed) {
        for v in 0..V {
            sums[v] = _mm512_mul_ps(vector(&mixed[v]), vector(&shrink[v]));
        }
    }
    // ANCHOR: mix
    for (weights, values) in weights.iter().zip(values.chunks(stride)) {
        let Some(values) = values.first_chunk::<TOGETHER>() else { break };
        for (sums, &value) in sums.iter_mut().zip(values) {
            let value = numbers(_mm512_set1_epi32(value as i32));
            for v in 0..V {
                sums[v] = _mm512_dpbf16_ps(sums[v], numbers(load(&weights[v])), value);
            }
        }
    }
    // ANCHOR_END: mix
    for (sums, mixed) in sums.iter().zip(mixed) {
        for v in 0..V {
            mixed[v] = floats(sums[v]);
        }
    }
}
