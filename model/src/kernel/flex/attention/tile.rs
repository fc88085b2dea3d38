//! The two products of a block: keys or values with vectors of queries, in registers.
//!
//! A vector holds one column of several queries. One element of a key is multiplied with all of
//! them. So keys and values are read in their own layout, and nothing is summed across a vector.

use std::ops::Range;

use pulp::Simd;

use super::{
    Head, Problem,
    many::{Block, DotProducts},
};

/// Keys and values in f32, in their own layout.
pub(super) struct Plain<'a>(pub(super) Problem<'a>);

impl<'a> DotProducts<'a> for Plain<'a> {
    type Number = f32;
    /// `[D, V]`.
    type Scratch = Vec<f32>;
    const STEP: usize = 1;

    fn problem(&self) -> &Problem<'a> {
        &self.0
    }

    #[inline(always)]
    fn lay_out(&self, queries: &[&[f32]], lanes: usize, room: &mut Vec<f32>) {
        let &Problem { k, scale, .. } = &self.0;
        room.clear();
        room.resize(k.width * lanes, 0.0);
        for (lane, from) in queries.iter().enumerate() {
            let to = room[lane..].iter_mut().step_by(lanes);
            to.zip(*from).for_each(|(to, from)| *to = from * scale);
        }
    }

    #[inline(always)]
    fn scores<S: Simd, const V: usize>(
        &self,
        simd: S,
        block: &Block,
        room: &Vec<f32>,
        scores: &mut [f32],
    ) {
        let keys = self.0.k.head(block.item, block.head);
        score_block::<S, V>(simd, keys, block.keys.clone(), S::as_simd_f32s(room).0, scores);
    }

    #[inline(always)]
    fn mix<S: Simd, const V: usize>(
        &self,
        simd: S,
        block: &Block,
        weights: &[S::f32s],
        shrink: [S::f32s; V],
        _room: &mut Vec<f32>,
        mixed: &mut [S::f32s],
    ) {
        let values = self.0.v.head(block.item, block.head);
        mix_block::<S, V>(simd, values, block.keys.start, weights, shrink, mixed);
    }
}

#[inline(always)]
fn score_block<S: Simd, const V: usize>(
    simd: S,
    keys: Head<'_>,
    block: Range<usize>,
    queries: &[S::f32s],
    scores: &mut [f32],
) {
    #[inline(always)]
    fn by<S: Simd, const R: usize, const V: usize>(
        simd: S,
        keys: Head<'_>,
        block: Range<usize>,
        queries: &[S::f32s],
        scores: &mut [f32],
    ) {
        let scores = S::as_mut_simd_f32s(scores).0;
        for (index, to) in scores.chunks_mut(R * V).enumerate() {
            let first = block.start + index * R;
            let tile = score::<S, R, V>(simd, keys, first, block.end - first, queries);
            to.chunks_exact_mut(V).zip(&tile).for_each(|(to, scores)| to.copy_from_slice(scores));
        }
    }
    // These sums, one row of queries and one key element all fit in registers.
    if S::REGISTER_COUNT >= 32 {
        by::<S, 8, V>(simd, keys, block, queries, scores);
    } else {
        by::<S, 6, V>(simd, keys, block, queries, scores);
    }
}

#[inline(always)]
fn mix_block<S: Simd, const V: usize>(
    simd: S,
    values: Head<'_>,
    first: usize,
    weights: &[S::f32s],
    shrink: [S::f32s; V],
    mixed: &mut [S::f32s],
) {
    let mut d = 0;
    while d < values.width {
        let mixed = &mut mixed[d * V..];
        d += match values.width - d {
            8.. if S::REGISTER_COUNT >= 32 => {
                mix::<S, 8, V>(simd, values, first, d, weights, shrink, mixed)
            }
            6.. if S::REGISTER_COUNT < 32 => {
                mix::<S, 6, V>(simd, values, first, d, weights, shrink, mixed)
            }
            4.. => mix::<S, 4, V>(simd, values, first, d, weights, shrink, mixed),
            2.. => mix::<S, 2, V>(simd, values, first, d, weights, shrink, mixed),
            _ => mix::<S, 1, V>(simd, values, first, d, weights, shrink, mixed),
        };
    }
}

/// Returns the scores of `R` keys, the first at `first`, for `V` vectors of queries, `[D, V]`.
#[inline(always)]
fn score<S: Simd, const R: usize, const V: usize>(
    simd: S,
    keys: Head<'_>,
    first: usize,
    count: usize,
    queries: &[S::f32s],
) -> [[S::f32s; V]; R] {
    // The last key is repeated for missing ones.
    let keys: [&[f32]; R] = std::array::from_fn(|r| keys.row(first + r.min(count - 1)));
    let width = keys[0].len();
    let keys = keys.map(|key| &key[..width]);
    let mut scores = [[simd.splat_f32s(0.0); V]; R];
    // ANCHOR: scores
    for (d, queries) in queries.chunks_exact(V).enumerate().take(width) {
        for (scores, key) in scores.iter_mut().zip(&keys) {
            let key = simd.splat_f32s(key[d]);
            for (score, &query) in scores.iter_mut().zip(queries) {
                *score = simd.mul_add_e_f32s(key, query, *score);
            }
        }
    }
    // ANCHOR_END: scores
    scores
}

/// Rescales `mixed`, `[R, V]`, by `shrink`. Then adds columns `d..d + R` of the values `first..`,
/// with the weights `[values, V]`. Returns `R`.
#[inline(always)]
fn mix<S: Simd, const R: usize, const V: usize>(
    simd: S,
    values: Head<'_>,
    first: usize,
    d: usize,
    weights: &[S::f32s],
    shrink: [S::f32s; V],
    mixed: &mut [S::f32s],
) -> usize {
    let mixed = &mut mixed[..R * V];
    let mut sums = [[simd.splat_f32s(0.0); V]; R];
    for (sums, mixed) in sums.iter_mut().zip(mixed.chunks_exact(V)) {
        for v in 0..V {
            sums[v] = simd.mul_f32s(mixed[v], shrink[v]);
        }
    }
    let mut at = first * values.stride + d;
    for weights in weights.chunks_exact(V) {
        for (sums, &value) in sums.iter_mut().zip(&values.values[at..at + R]) {
            let value = simd.splat_f32s(value);
            for (sum, &weight) in sums.iter_mut().zip(weights) {
                *sum = simd.mul_add_e_f32s(value, weight, *sum);
            }
        }
        at += values.stride;
    }
    for (sums, mixed) in sums.iter().zip(mixed.chunks_exact_mut(V)) {
        mixed.copy_from_slice(sums);
    }
    R
}
