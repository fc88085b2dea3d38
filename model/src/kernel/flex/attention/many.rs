//! Many queries: neighbours and the heads of a group side by side in vectors.

use std::ops::Range;

use pulp::{Arch, Simd, WithSimd, bytemuck};
use rayon::prelude::*;

use super::{HIDDEN, Problem, Rows, WORTH_SHARING, blocks, tile};
use crate::kernel::flex::exp::exp;

/// Keys of a block.
const BLOCK: usize = 64;

/// Vectors of queries that are taken together.
const VECTORS: usize = 3;

/// Queries of a piece of work, times heads of a group: one such tile on the widest processor.
const TILE: usize = VECTORS * 16;

/// Fills `mixed`, `[B, queries, heads, D]`.
pub(super) fn attend(problem: &Problem<'_>, mixed: &mut [f32]) {
    let &Problem { kv_heads, group, queries, .. } = problem;
    let width = problem.k.width;
    let count = (TILE / group).max(1);
    let pieces = queries.div_ceil(count);
    let items = mixed.len() / (queries * kv_heads * group * width);

    // Of every position the heads of a group lie together.
    let mut places: Vec<Vec<&mut [f32]>> = Vec::new();
    places.resize_with(items * kv_heads * pieces, || Vec::with_capacity(count));
    for (index, place) in mixed.chunks_exact_mut(group * width).enumerate() {
        let (head, position) = (index % kv_heads, index / kv_heads);
        let (item, i) = (position / queries, position % queries);
        places[(item * kv_heads + head) * pieces + i / count].push(place);
    }
    let arch = Arch::new();
    let work = |scratch: &mut Scratch, (index, places): (usize, Vec<&mut [f32]>)| {
        let (head, first) = (index / pieces, index % pieces * count);
        let (item, head) = (head / kv_heads, head % kv_heads);
        arch.dispatch(Piece { problem, item, head, first, places, scratch });
    };
    if problem.products(items * kv_heads) < WORTH_SHARING {
        let mut scratch = Scratch::default();
        places.into_iter().enumerate().for_each(|piece| work(&mut scratch, piece));
    } else {
        places.into_par_iter().enumerate().for_each_init(Scratch::default, work);
    }
}

/// What a core works in, numbers of `V` vectors of queries each.
#[derive(Default)]
struct Scratch {
    /// `[D, V]`.
    queries: Vec<f32>,
    /// `[BLOCK, V]`: scores, then weights.
    scores: Vec<f32>,
    /// `[D, V]`.
    mixed: Vec<f32>,
}

/// Some neighbouring queries of a group of heads.
struct Piece<'a, 'b> {
    problem: &'a Problem<'a>,
    item: usize,
    /// Of the keys.
    head: usize,
    /// The first query's position.
    first: usize,
    /// Where they go, `[group, D]` each.
    places: Vec<&'b mut [f32]>,
    scratch: &'a mut Scratch,
}

impl WithSimd for Piece<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let rows = self.places.len() * self.problem.group;
        for first in (0..rows).step_by(VECTORS * S::F32_LANES) {
            let count = (rows - first).min(VECTORS * S::F32_LANES);
            match count.div_ceil(S::F32_LANES) {
                1 => self.tile::<S, 1>(simd, first..first + count),
                2 => self.tile::<S, 2>(simd, first..first + count),
                _ => self.tile::<S, VECTORS>(simd, first..first + count),
            }
        }
        self.mend_blind();
    }
}

impl Piece<'_, '_> {
    /// `rows` of it, each a query of a head, queries first; they fill `V` vectors.
    #[inline(always)]
    fn tile<S: Simd, const V: usize>(&mut self, simd: S, rows: Range<usize>) {
        let &Problem { k, v, group, .. } = self.problem;
        let lanes = V * S::F32_LANES;
        let (k, v) = (k.head(self.item, self.head), v.head(self.item, self.head));
        let real = self.problem.real(self.item);
        self.lay_out(lanes, &rows);
        let Self { problem, first, ref mut scratch, .. } = *self;
        let Scratch { queries, scores, mixed } = &mut **scratch;
        let queries = S::as_simd_f32s(queries).0;

        let firsts = problem.seen(first + rows.start / group);
        let lasts = problem.seen(first + (rows.end - 1) / group);
        let mut largest = [simd.splat_f32s(HIDDEN); V];
        let mut sums = [simd.splat_f32s(0.0); V];
        for block in blocks(firsts.start..lasts.end, BLOCK) {
            if real.is_some_and(|real| real[block.clone()].iter().all(|&real| real == 0)) {
                continue;
            }
            let scores = &mut scores[..block.len() * lanes];
            score_block::<S, V>(simd, k, block.clone(), queries, scores);
            let sees_all = firsts.end >= block.end && lasts.start <= block.start;
            for (j, scores) in block.clone().zip(scores.chunks_exact_mut(lanes)) {
                if real.is_some_and(|real| real[j] == 0) {
                    scores.fill(HIDDEN);
                } else if !sees_all {
                    let seeing = problem.seeing(j);
                    let lane = |i: usize| {
                        let row = i.saturating_sub(first).saturating_mul(group);
                        row.clamp(rows.start, rows.end) - rows.start
                    };
                    scores[..lane(seeing.start)].fill(HIDDEN);
                    scores[lane(seeing.end)..].fill(HIDDEN);
                }
            }
            let scores = S::as_mut_simd_f32s(scores).0;
            let shrink = soften::<S, V>(simd, scores, &mut largest, &mut sums);
            let mixed = S::as_mut_simd_f32s(mixed).0;
            mix_block::<S, V>(simd, v, block, scores, shrink, mixed);
        }

        let sums: &[f32] = bytemuck::cast_slice(&sums);
        for (lane, row) in rows.enumerate() {
            let inverse = sums[lane].recip();
            let place = &mut self.places[row / group][row % group * v.width..][..v.width];
            let from = scratch.mixed[lane..].iter().step_by(lanes);
            place.iter_mut().zip(from).for_each(|(to, mixed)| *to = mixed * inverse);
        }
    }

    /// Puts queries side by side and clears the rest.
    #[inline(always)]
    fn lay_out(&mut self, lanes: usize, rows: &Range<usize>) {
        let &Problem { q, group, scale, .. } = self.problem;
        let Scratch { queries, scores, mixed } = &mut *self.scratch;
        queries.clear();
        queries.resize(q.width * lanes, 0.0);
        mixed.clear();
        mixed.resize(q.width * lanes, 0.0);
        scores.resize(BLOCK * lanes, 0.0);
        for (lane, row) in rows.clone().enumerate() {
            let head = q.head(self.item, self.head * group + row % group);
            let from = head.row(self.first + row / group);
            let to = queries[lane..].iter_mut().step_by(lanes);
            to.zip(from).for_each(|(to, from)| *to = from * scale);
        }
    }

    /// Queries that see nothing get the mean of all values.
    fn mend_blind(&mut self) {
        let Self { problem, item, head, first, .. } = *self;
        let mut mean = Vec::new();
        for (index, place) in self.places.iter_mut().enumerate() {
            if problem.is_blind(item, first + index) {
                if mean.is_empty() {
                    mean = problem.mean(item, head);
                }
                place.chunks_exact_mut(mean.len()).for_each(|place| place.copy_from_slice(&mean));
            }
        }
    }
}

#[inline(always)]
fn score_block<S: Simd, const V: usize>(
    simd: S,
    keys: Rows<'_>,
    block: Range<usize>,
    queries: &[S::f32s],
    scores: &mut [f32],
) {
    #[inline(always)]
    fn by<S: Simd, const R: usize, const V: usize>(
        simd: S,
        keys: Rows<'_>,
        block: Range<usize>,
        queries: &[S::f32s],
        scores: &mut [f32],
    ) {
        let scores = S::as_mut_simd_f32s(scores).0;
        for (index, to) in scores.chunks_mut(R * V).enumerate() {
            let first = block.start + index * R;
            let tile = tile::scores::<S, R, V>(simd, keys, first, block.end - first, queries);
            to.chunks_exact_mut(V).zip(&tile).for_each(|(to, scores)| to.copy_from_slice(scores));
        }
    }
    // With so many sums, their queries and a key's number everything is in registers.
    if S::REGISTER_COUNT >= 32 {
        by::<S, 8, V>(simd, keys, block, queries, scores);
    } else {
        by::<S, 4, V>(simd, keys, block, queries, scores);
    }
}

/// Scores to weights, `e^(score - largest)`; gives by how much what was summed before is too large.
#[inline(always)]
fn soften<S: Simd, const V: usize>(
    simd: S,
    scores: &mut [S::f32s],
    largest: &mut [S::f32s; V],
    sums: &mut [S::f32s; V],
) -> [S::f32s; V] {
    let before = *largest;
    for scores in scores.chunks_exact(V) {
        for v in 0..V {
            largest[v] = simd.max_f32s(largest[v], scores[v]);
        }
    }
    let mut shrink = [simd.splat_f32s(1.0); V];
    for v in 0..V {
        shrink[v] = exp(simd, simd.sub_f32s(before[v], largest[v]));
        sums[v] = simd.mul_f32s(sums[v], shrink[v]);
    }
    for scores in scores.chunks_exact_mut(V) {
        for v in 0..V {
            scores[v] = exp(simd, simd.sub_f32s(scores[v], largest[v]));
            sums[v] = simd.add_f32s(sums[v], scores[v]);
        }
    }
    shrink
}

#[inline(always)]
fn mix_block<S: Simd, const V: usize>(
    simd: S,
    values: Rows<'_>,
    block: Range<usize>,
    weights: &[S::f32s],
    shrink: [S::f32s; V],
    mixed: &mut [S::f32s],
) {
    let first = block.start;
    let mut d = 0;
    while d < values.width {
        let mixed = &mut mixed[d * V..];
        d += match values.width - d {
            8.. if S::REGISTER_COUNT >= 32 => {
                tile::mix::<S, 8, V>(simd, values, first, d, weights, shrink, mixed)
            }
            4.. => tile::mix::<S, 4, V>(simd, values, first, d, weights, shrink, mixed),
            _ => tile::mix::<S, 1, V>(simd, values, first, d, weights, shrink, mixed),
        };
    }
}
