//! The two products of a block: some keys or values against vectors of queries, in registers.
//!
//! A vector is some queries at one of their numbers. A key's number is multiplied with all of them, so
//! that keys and values are read as they lie and nothing is summed across a vector.

use pulp::Simd;

use super::Rows;

/// Scores of `R` keys, the first at `first`, for `V` vectors of queries, `[D, V]`.
#[inline(always)]
pub(super) fn scores<S: Simd, const R: usize, const V: usize>(
    simd: S,
    keys: Rows<'_>,
    first: usize,
    count: usize,
    queries: &[S::f32s],
) -> [[S::f32s; V]; R] {
    // The last key again in the place of those that do not exist.
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

/// Adds values `first..`, at their numbers `d..d + R`, to what is mixed, `[R, V]`, by their weights,
/// `[values, V]`; what was there shrinks first. Gives `R`.
#[inline(always)]
pub(super) fn mix<S: Simd, const R: usize, const V: usize>(
    simd: S,
    values: Rows<'_>,
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
