//! Attention of one or a few queries, as in decoding: each query reads the keys once, at memory
//! speed.

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::{HIDDEN, Head, Problem, WORTH_SHARING, blocks};
use crate::kernel::flex::exp::exp;
use crate::kernel::flex::level;

/// Keys per block.
const BLOCK: usize = 128;

/// Maximum number of heads of a group that are computed together.
const TOGETHER: usize = 4;

/// Fills `mixed`, `[B, queries, heads, D]`.
pub(in super::super) fn attend(problem: &Problem<'_>, mixed: &mut [f32]) {
    let &Problem { kv_heads, group, queries, .. } = problem;
    let size = group * problem.k.width;
    let arch = level::arch();
    let work = |(index, mixed): (usize, &mut [f32])| {
        let (head, position) = (index % kv_heads, index / kv_heads);
        let (item, i) = (position / queries, position % queries);
        if problem.is_blind(item, i) {
            let mean = problem.mean(item, head);
            mixed.chunks_exact_mut(mean.len()).for_each(|mixed| mixed.copy_from_slice(&mean));
        } else {
            arch.dispatch(Group { problem, item, head, i, mixed });
        }
    };
    if problem.products(mixed.len() / (queries * size)) < WORTH_SHARING {
        mixed.chunks_exact_mut(size).enumerate().for_each(work);
    } else if queries == 1 {
        mixed.par_chunks_exact_mut(size).enumerate().for_each(work);
    } else {
        // The queries of a head follow each other, so that they find its keys in the cache.
        let mut groups: Vec<_> = mixed.chunks_exact_mut(size).enumerate().collect();
        groups.sort_by_key(|(index, _)| (index / (kv_heads * queries), index % kv_heads));
        groups.into_par_iter().for_each(work);
    }
}

/// The heads of a group at one position.
struct Group<'a> {
    problem: &'a Problem<'a>,
    item: usize,
    /// Index of the key head.
    head: usize,
    i: usize,
    /// `[group, D]`.
    mixed: &'a mut [f32],
}

impl WithSimd for Group<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let mut done = 0;
        while done < self.problem.group {
            done += match self.problem.group - done {
                1 => self.heads::<S, 1>(simd, done),
                2 | 3 => self.heads::<S, 2>(simd, done),
                _ => self.heads::<S, TOGETHER>(simd, done),
            };
        }
    }
}

impl Group<'_> {
    /// Computes `R` heads of the group, from `first` on, and returns `R`.
    ///
    /// The summation order of each head does not depend on `R`.
    #[inline(always)]
    fn heads<S: Simd, const R: usize>(&mut self, simd: S, first: usize) -> usize {
        let Self { problem, item, head, i, .. } = *self;
        let (k, v) = (problem.k.head(item, head), problem.v.head(item, head));
        let q: [&[f32]; R] =
            std::array::from_fn(|r| problem.q.head(item, head * problem.group + first + r).row(i));
        let real = problem.real(item);
        let mixed = &mut self.mixed[first * v.width..][..R * v.width];

        let mut scores = [[HIDDEN; BLOCK]; R];
        let mut largest = [HIDDEN; R];
        let mut sums = [0.0; R];
        for block in blocks(problem.seen(i), BLOCK) {
            // At fixed places within the block, so that the lane of a key does not depend on which
            // keys are visible.
            let lead = block.start % BLOCK;
            scores.as_flattened_mut().fill(HIDDEN);
            for (place, j) in (lead..).zip(block.clone()) {
                if real.is_none_or(|real| real[j] != 0) {
                    let score = dot::<S, R>(simd, &q, k.row(j));
                    for r in 0..R {
                        scores[r][place] = score[r] * problem.scale;
                    }
                }
            }
            for r in 0..R {
                let before = largest[r];
                let sum = soften(simd, &mut scores[r], &mut largest[r]);
                let shrink = (before - largest[r]).exp();
                sums[r] = sums[r] * shrink + sum;
                for mixed in &mut mixed[r * v.width..][..v.width] {
                    *mixed *= shrink;
                }
            }
            let weights: [&[f32]; R] =
                std::array::from_fn(|r| &scores[r][lead..lead + block.len()]);
            mix_rows::<S, R>(simd, v, block.start, &weights, mixed);
        }
        for (mixed, sum) in mixed.chunks_exact_mut(v.width).zip(sums) {
            for mixed in mixed {
                *mixed /= sum;
            }
        }
        R
    }
}

#[inline(always)]
fn dot<S: Simd, const R: usize>(simd: S, q: &[&[f32]; R], key: &[f32]) -> [f32; R] {
    let (key, key_rest) = S::as_simd_f32s(key);
    let q = q.map(|q| S::as_simd_f32s(q)).map(|(q, rest)| (&q[..key.len()], rest));
    let mut even = [simd.splat_f32s(0.0); R];
    let mut odd = even;
    for at in (0..key.len() / 2 * 2).step_by(2) {
        for r in 0..R {
            even[r] = simd.mul_add_e_f32s(q[r].0[at], key[at], even[r]);
            odd[r] = simd.mul_add_e_f32s(q[r].0[at + 1], key[at + 1], odd[r]);
        }
    }
    let mut scores = [0.0; R];
    for r in 0..R {
        let mut sum = simd.add_f32s(even[r], odd[r]);
        if key.len() % 2 == 1 {
            let last = key.len() - 1;
            sum = simd.mul_add_e_f32s(q[r].0[last], key[last], sum);
        }
        let mut rest = 0.0;
        for (q, key) in q[r].1.iter().zip(key_rest) {
            rest += q * key;
        }
        scores[r] = simd.reduce_sum_f32s(sum) + rest;
    }
    scores
}

/// Turns scores into weights, `e^(score - largest)`, and returns their sum.
#[inline(always)]
fn soften<S: Simd>(simd: S, scores: &mut [f32; BLOCK], largest: &mut f32) -> f32 {
    let scores = S::as_mut_simd_f32s(scores).0;
    let mut most = simd.splat_f32s(*largest);
    for &mut score in scores.iter_mut() {
        most = simd.max_f32s(most, score);
    }
    *largest = simd.reduce_max_f32s(most);
    let most = simd.splat_f32s(*largest);
    let mut sum = simd.splat_f32s(0.0);
    for score in scores {
        *score = exp(simd, simd.sub_f32s(*score, most));
        sum = simd.add_f32s(sum, *score);
    }
    simd.reduce_sum_f32s(sum)
}

/// Adds the weighted values `first..` to `mixed`, `[R, D]`.
#[inline(always)]
fn mix_rows<S: Simd, const R: usize>(
    simd: S,
    values: Head<'_>,
    first: usize,
    weights: &[&[f32]; R],
    mixed: &mut [f32],
) {
    let lanes = S::F32_LANES;
    let mut d = 0;
    while d + lanes <= values.width {
        d += match (values.width - d) / lanes {
            8.. if R <= 2 && S::REGISTER_COUNT >= 32 => {
                mix::<S, R, 8>(simd, values, first, d, weights, mixed)
            }
            4.. if R <= 2 || S::REGISTER_COUNT >= 32 => {
                mix::<S, R, 4>(simd, values, first, d, weights, mixed)
            }
            2.. => mix::<S, R, 2>(simd, values, first, d, weights, mixed),
            _ => mix::<S, R, 1>(simd, values, first, d, weights, mixed),
        };
    }
    for (weights, mixed) in weights.iter().zip(mixed.chunks_exact_mut(values.width)) {
        for (j, weight) in weights.iter().enumerate() {
            let value = &values.row(first + j)[d..];
            mixed[d..].iter_mut().zip(value).for_each(|(mixed, value)| *mixed += weight * value);
        }
    }
}

/// Adds `C` vectors of each value, from column `d` on, and returns their number of columns.
#[inline(always)]
fn mix<S: Simd, const R: usize, const C: usize>(
    simd: S,
    values: Head<'_>,
    first: usize,
    d: usize,
    weights: &[&[f32]; R],
    mixed: &mut [f32],
) -> usize {
    let (width, numbers) = (values.width, C * S::F32_LANES);
    let mut sums = [[simd.splat_f32s(0.0); C]; R];
    for (r, sums) in sums.iter_mut().enumerate() {
        let from = S::as_simd_f32s(&mixed[r * width + d..][..numbers]).0;
        sums.copy_from_slice(from);
    }
    for j in 0..weights[0].len() {
        let value = S::as_simd_f32s(&values.row(first + j)[d..][..numbers]).0;
        for (sums, weights) in sums.iter_mut().zip(weights) {
            let weight = simd.splat_f32s(weights[j]);
            for (sum, &value) in sums.iter_mut().zip(value) {
                *sum = simd.mul_add_e_f32s(weight, value, *sum);
            }
        }
    }
    for (r, sums) in sums.iter().enumerate() {
        S::as_mut_simd_f32s(&mut mixed[r * width + d..][..numbers]).0.copy_from_slice(sums);
    }
    numbers
}
