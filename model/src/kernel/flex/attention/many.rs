//! Attention of many queries: a vector holds neighbouring queries and the heads of a group.

use std::ops::Range;

use pulp::{Simd, WithSimd, bytemuck};
use rayon::prelude::*;

use super::{HIDDEN, Problem, WORTH_SHARING, blocks};
use crate::kernel::flex::exp::exp;
use crate::kernel::flex::level;

/// Keys per block.
const BLOCK: usize = 64;

/// Maximum number of vectors of queries per tile.
const VECTORS: usize = 3;

/// Queries of a work item, times heads of a group: one tile for the widest vectors.
const TILE: usize = VECTORS * 16;

/// The two products of a tile of queries with keys and values.
pub(super) trait DotProducts<'a>: Sync {
    /// Element type of keys and values.
    type Number: Copy + Into<f32> + Sync + 'a;

    /// Scratch memory: the packed queries, and more if needed.
    type Scratch: Default;

    /// Blocks begin at multiples of this many keys.
    const STEP: usize;

    /// Returns the inputs of attention.
    fn problem(&self) -> &Problem<'a, Self::Number>;

    /// Packs up to `lanes` queries side by side.
    fn lay_out(&self, queries: &[&[f32]], lanes: usize, room: &mut Self::Scratch);

    /// Computes the scores of a block of keys, `[keys, V]`, in vectors of queries.
    fn scores<S: Simd, const V: usize>(
        &self,
        simd: S,
        block: &Block,
        room: &Self::Scratch,
        scores: &mut [f32],
    );

    /// Rescales `mixed`, `[D, V]`, by `shrink`. Then adds the values of a block with the weights,
    /// `[keys, V]`.
    fn mix<S: Simd, const V: usize>(
        &self,
        simd: S,
        block: &Block,
        weights: &[S::f32s],
        shrink: [S::f32s; V],
        room: &mut Self::Scratch,
        mixed: &mut [S::f32s],
    );
}

/// A range of keys of one head.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) item: usize,
    pub(super) head: usize,
    pub(super) keys: Range<usize>,
}

/// Fills `mixed`, `[B, queries, heads, D]`.
pub(super) fn attend<'a, M: DotProducts<'a>>(meeting: &M, mixed: &mut [f32]) {
    let problem = meeting.problem();
    let &Problem { kv_heads, group, queries, .. } = problem;
    let width = problem.k.width;
    let count = (TILE / group).max(1);
    let pieces = queries.div_ceil(count);
    let items = mixed.len() / (queries * kv_heads * group * width);

    // The heads of a group are contiguous at every position.
    let mut places: Vec<Vec<&mut [f32]>> = Vec::new();
    places.resize_with(items * kv_heads * pieces, || Vec::with_capacity(count));
    for (index, place) in mixed.chunks_exact_mut(group * width).enumerate() {
        let (head, position) = (index % kv_heads, index / kv_heads);
        let (item, i) = (position / queries, position % queries);
        places[(item * kv_heads + head) * pieces + i / count].push(place);
    }
    let arch = level::arch();
    let work = |scratch: &mut Scratch<M::Scratch>, (index, places): (usize, Vec<&mut [f32]>)| {
        let (head, first) = (index / pieces, index % pieces * count);
        let (item, head) = (head / kv_heads, head % kv_heads);
        arch.dispatch(WorkItem { problem, meeting, item, head, first, places, scratch });
    };
    if problem.products(items * kv_heads) < WORTH_SHARING {
        let mut scratch = Scratch::default();
        places.into_iter().enumerate().for_each(|piece| work(&mut scratch, piece));
    } else {
        places.into_par_iter().enumerate().for_each_init(Scratch::default, work);
    }
}

/// Scratch memory of a core, with `V` vectors of queries per row.
#[derive(Default)]
struct Scratch<R> {
    room: R,
    /// `[BLOCK, V]`: scores, then weights.
    scores: Vec<f32>,
    /// `[D, V]`.
    mixed: Vec<f32>,
}

/// Neighbouring queries of one group of heads.
struct WorkItem<'a, 'b, 'c, M: DotProducts<'a>> {
    problem: &'c Problem<'a, M::Number>,
    meeting: &'c M,
    item: usize,
    /// Index of the key head.
    head: usize,
    /// The first query's position.
    first: usize,
    /// Outputs, `[group, D]` each.
    places: Vec<&'b mut [f32]>,
    scratch: &'c mut Scratch<M::Scratch>,
}

impl<'a, M: DotProducts<'a>> WithSimd for WorkItem<'a, '_, '_, M> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let rows = self.places.len() * self.problem.group;
        // With 16 registers, three vectors leave too few for the sums of one more key.
        let vectors = if S::REGISTER_COUNT >= 32 { VECTORS } else { VECTORS - 1 };
        for first in (0..rows).step_by(vectors * S::F32_LANES) {
            let count = (rows - first).min(vectors * S::F32_LANES);
            match count.div_ceil(S::F32_LANES) {
                1 => self.tile::<S, 1>(simd, first..first + count),
                2 => self.tile::<S, 2>(simd, first..first + count),
                _ => self.tile::<S, VECTORS>(simd, first..first + count),
            }
        }
        self.mend_blind();
    }
}

impl<'a, M: DotProducts<'a>> WorkItem<'a, '_, '_, M> {
    /// Computes `rows` of the work item in `V` vectors; a row is a query of one head, queries
    /// first.
    #[inline(always)]
    fn tile<S: Simd, const V: usize>(&mut self, simd: S, rows: Range<usize>) {
        let &Problem { group, .. } = self.problem;
        let width = self.problem.v.width;
        let lanes = V * S::F32_LANES;
        let real = self.problem.real(self.item);
        self.lay_out(lanes, &rows);
        let Self { problem, meeting, item, head, first, ref mut scratch, .. } = *self;
        let Scratch { room, scores, mixed } = &mut **scratch;

        let firsts = problem.seen(first + rows.start / group);
        let lasts = problem.seen(first + (rows.end - 1) / group);
        let mut largest = [simd.splat_f32s(HIDDEN); V];
        let mut sums = [simd.splat_f32s(0.0); V];
        for keys in blocks(firsts.start / M::STEP * M::STEP..lasts.end, BLOCK) {
            if real.is_some_and(|real| real[keys.clone()].iter().all(|&real| real == 0)) {
                continue;
            }
            let scores = &mut scores[..keys.len() * lanes];
            let block = Block { item, head, keys: keys.clone() };
            meeting.scores::<S, V>(simd, &block, room, scores);
            let sees_all = firsts.end >= keys.end && lasts.start <= keys.start;
            for (j, scores) in keys.zip(scores.chunks_exact_mut(lanes)) {
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
            meeting.mix::<S, V>(simd, &block, scores, shrink, room, mixed);
        }

        let sums: &[f32] = bytemuck::cast_slice(&sums);
        for (lane, row) in rows.enumerate() {
            let inverse = sums[lane].recip();
            let place = &mut self.places[row / group][row % group * width..][..width];
            let from = scratch.mixed[lane..].iter().step_by(lanes);
            place.iter_mut().zip(from).for_each(|(to, mixed)| *to = mixed * inverse);
        }
    }

    /// Packs queries side by side and clears the sums.
    #[inline(always)]
    fn lay_out(&mut self, lanes: usize, rows: &Range<usize>) {
        let &Problem { q, group, .. } = self.problem;
        let Scratch { room, scores, mixed } = &mut *self.scratch;
        mixed.clear();
        mixed.resize(q.width * lanes, 0.0);
        scores.resize(BLOCK * lanes, 0.0);
        let mut queries = [&[][..]; TILE];
        for (query, row) in queries.iter_mut().zip(rows.clone()) {
            let head = q.head(self.item, self.head * group + row % group);
            *query = head.row(self.first + row / group);
        }
        self.meeting.lay_out(&queries[..rows.len()], lanes, room);
    }

    /// Writes the mean of all values for queries that see no key.
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

/// Turns scores into weights, `e^(score - largest)`, and returns the factor for the earlier sums.
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
