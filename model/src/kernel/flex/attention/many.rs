//! Attention of many queries: a vector holds neighbouring queries and the heads of a group.

use std::ops::Range;

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::{HIDDEN, Problem, WORTH_SHARING, blocks};
use crate::kernel::flex::exp::exp;
use crate::kernel::flex::level;

/// Maximum number of vectors of queries per tile.
const VECTORS: usize = 3;

/// Queries, times heads of a group, that are packed together: one tile for the widest vectors.
const TILE: usize = VECTORS * 16;

/// Maximum number of [`TILE`]s in a work item. They read a block of keys one after the other, while it is in a core's
/// cache. If the heads of one query are more than a tile, it is the maximum number of queries.
const TILES: usize = 8;

/// Columns of `mixed` after the last: several are summed at once, also at the end.
pub(super) const MORE: usize = 7;

/// Work items per core, if there are enough tiles.
const SHARES: usize = 8;

/// The two products of a tile of queries with keys and values.
pub(super) trait DotProducts<'a>: Sync {
    /// Element type of keys and values.
    type Number: Copy + Into<f32> + Sync + 'a;

    /// The queries of a tile, packed.
    type Queries: Default;

    /// Scratch memory.
    type Scratch: Default;

    /// Keys per block.
    const BLOCK: usize;

    /// Returns the inputs of attention.
    fn problem(&self) -> &Problem<'a, Self::Number>;

    /// Blocks begin at multiples of this many keys, a divisor of [`Self::BLOCK`].
    fn step(&self) -> usize;

    /// Packs up to `lanes` queries side by side.
    fn pack(&self, queries: &[&[f32]], lanes: usize, to: &mut Self::Queries);

    /// Prepares the keys and values of a block, which up to `tiles` tiles read, or parts of it.
    fn load(&self, block: &Block, tiles: usize, scratch: &mut Self::Scratch);

    /// Computes the scores of a block of keys, `[keys, V]`, in vectors of queries.
    fn scores<S: Simd, const V: usize>(
        &self,
        simd: S,
        block: &Block,
        queries: &Self::Queries,
        scratch: &mut Self::Scratch,
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
        scratch: &mut Self::Scratch,
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
pub(super) fn attend<'a, M: DotProducts<'a>>(products: &M, mixed: &mut [f32]) {
    let problem = products.problem();
    let &Problem { kv_heads, group, queries, .. } = problem;
    let width = problem.k.width;
    let items = mixed.len() / (queries * kv_heads * group * width);
    let smallest = (TILE / group).max(1);
    let shares = rayon::current_num_threads() * SHARES;
    let tiles = items * kv_heads * queries.div_ceil(smallest) / shares;
    let count = smallest * tiles.clamp(1, TILES);
    let pieces = queries.div_ceil(count);

    // The heads of a group are contiguous at every position.
    let mut places: Vec<Vec<&mut [f32]>> = Vec::new();
    places.resize_with(items * kv_heads * pieces, || Vec::with_capacity(count.min(queries)));
    for (index, place) in mixed.chunks_exact_mut(group * width).enumerate() {
        let (head, position) = (index % kv_heads, index / kv_heads);
        let (item, i) = (position / queries, position % queries);
        places[(item * kv_heads + head) * pieces + i / count].push(place);
    }
    let arch = level::arch();
    let work = |memory: &mut Memory<'a, M>, (index, places): (usize, Vec<&mut [f32]>)| {
        let (head, first) = (index / pieces, index % pieces * count);
        let (item, head) = (head / kv_heads, head % kv_heads);
        arch.dispatch(WorkItem { problem, products, item, head, first, places, memory });
    };
    let empty = || Memory { tiles: Vec::new(), scores: Vec::new(), scratch: Default::default() };
    if problem.products(items * kv_heads) < WORTH_SHARING {
        let mut memory = empty();
        places.into_iter().enumerate().for_each(|piece| work(&mut memory, piece));
    } else {
        places.into_par_iter().enumerate().for_each_init(empty, work);
    }
}

/// Memory of a core, kept for its next work item.
struct Memory<'a, M: DotProducts<'a>> {
    tiles: Vec<Tile<M::Queries>>,
    /// `[BLOCK, V]`: scores, then weights.
    scores: Vec<f32>,
    scratch: M::Scratch,
}

/// Up to `V` vectors of queries, and the sums of the keys that they have seen so far.
#[derive(Default)]
struct Tile<Q> {
    /// Rows of the work item; a row is a query of one head, queries first.
    rows: Range<usize>,
    queries: Q,
    /// `[V]`: the largest scores.
    largest: Vec<f32>,
    /// `[V]`: sums of the weights.
    sums: Vec<f32>,
    /// `[D, V]`, and a few more.
    mixed: Vec<f32>,
}

/// Neighbouring queries of one group of heads.
struct WorkItem<'a, 'b, 'c, M: DotProducts<'a>> {
    problem: &'c Problem<'a, M::Number>,
    products: &'c M,
    item: usize,
    /// Index of the key head.
    head: usize,
    /// The first query's position.
    first: usize,
    /// Outputs, `[group, D]` each.
    places: Vec<&'b mut [f32]>,
    memory: &'c mut Memory<'a, M>,
}

impl<'a, M: DotProducts<'a>> WithSimd for WorkItem<'a, '_, '_, M> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        // With 16 registers, three vectors leave too few for the sums of one more key.
        let vectors = if S::REGISTER_COUNT >= 32 { VECTORS } else { VECTORS - 1 };
        let side = vectors * S::F32_LANES;
        let count = (self.places.len() * self.problem.group).div_ceil(side);
        for index in 0..count {
            self.begin::<S>(index, side);
        }
        let firsts = self.problem.seen(self.first);
        let lasts = self.problem.seen(self.first + self.places.len() - 1);
        let step = self.products.step();
        for keys in blocks(firsts.start / step * step..lasts.end, M::BLOCK) {
            let real = self.problem.real(self.item);
            if real.is_some_and(|real| real[keys.clone()].iter().all(|&real| real == 0)) {
                continue;
            }
            let block = Block { item: self.item, head: self.head, keys: keys.clone() };
            self.products.load(&block, count, &mut self.memory.scratch);
            for index in 0..count {
                match self.memory.tiles[index].largest.len() / S::F32_LANES {
                    1 => self.add::<S, 1>(simd, index, keys.clone()),
                    2 => self.add::<S, 2>(simd, index, keys.clone()),
                    _ => self.add::<S, VECTORS>(simd, index, keys.clone()),
                }
            }
        }
        (0..count).for_each(|index| self.put(index));
        self.mend_blind();
    }
}

impl<'a, M: DotProducts<'a>> WorkItem<'a, '_, '_, M> {
    /// Packs the queries of a tile of at most `side` rows, and clears its sums.
    #[inline(always)]
    fn begin<S: Simd>(&mut self, index: usize, side: usize) {
        let &Problem { q, group, .. } = self.problem;
        if index == self.memory.tiles.len() {
            self.memory.tiles.push(Tile::default());
        }
        let tile = &mut self.memory.tiles[index];
        tile.rows = index * side..((index + 1) * side).min(self.places.len() * group);
        let lanes = tile.rows.len().next_multiple_of(S::F32_LANES);
        let clear = |values: &mut Vec<f32>, count, value| {
            values.clear();
            values.resize(count, value);
        };
        clear(&mut tile.largest, lanes, HIDDEN);
        clear(&mut tile.sums, lanes, 0.0);
        clear(&mut tile.mixed, (q.width + MORE) * lanes, 0.0);
        let mut queries = [&[][..]; TILE];
        for (query, row) in queries.iter_mut().zip(tile.rows.clone()) {
            let head = q.head(self.item, self.head * group + row % group);
            *query = head.row(self.first + row / group);
        }
        self.products.pack(&queries[..tile.rows.len()], lanes, &mut tile.queries);
    }

    /// Adds the keys of a block that a tile of `V` vectors sees.
    #[inline(always)]
    fn add<S: Simd, const V: usize>(&mut self, simd: S, index: usize, keys: Range<usize>) {
        let Self { problem, products, item, head, first, ref mut memory, .. } = *self;
        let Memory { tiles, scores, scratch } = &mut **memory;
        let Tile { rows, queries, largest, sums, mixed } = &mut tiles[index];
        let (group, lanes, step) = (problem.group, V * S::F32_LANES, products.step());
        let firsts = problem.seen(first + rows.start / group);
        let lasts = problem.seen(first + (rows.end - 1) / group);
        let keys = keys.start.max(firsts.start / step * step)..keys.end.min(lasts.end);
        let real = problem.real(item);
        if keys.is_empty()
            || real.is_some_and(|real| real[keys.clone()].iter().all(|&real| real == 0))
        {
            return;
        }
        scores.resize(M::BLOCK * TILE, 0.0);
        let scores = &mut scores[..keys.len() * lanes];
        let block = Block { item, head, keys: keys.clone() };
        products.scores::<S, V>(simd, &block, queries, scratch, scores);
        let sees_all = firsts.end >= keys.end && lasts.start <= keys.start;
        if real.is_some() || !sees_all {
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
        }
        let [scores, largest, sums, mixed] =
            [scores, largest, sums, mixed].map(|values| S::as_mut_simd_f32s(values).0);
        let shrink = soften::<S, V>(simd, scores, largest, sums);
        products.mix::<S, V>(simd, &block, scores, shrink, scratch, mixed);
    }

    /// Writes the result of a tile.
    fn put(&mut self, index: usize) {
        let &Problem { group, ref v, .. } = self.problem;
        let Tile { rows, sums, mixed, .. } = &self.memory.tiles[index];
        for (lane, row) in rows.clone().enumerate() {
            let inverse = sums[lane].recip();
            let place = &mut self.places[row / group][row % group * v.width..][..v.width];
            let from = mixed[lane..].iter().step_by(sums.len());
            place.iter_mut().zip(from).for_each(|(to, mixed)| *to = mixed * inverse);
        }
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
    all_largest: &mut [S::f32s],
    all_sums: &mut [S::f32s],
) -> [S::f32s; V] {
    // In registers: the compiler cannot see that they are apart from the scores.
    let mut largest = [simd.splat_f32s(HIDDEN); V];
    largest.copy_from_slice(&all_largest[..V]);
    let before = largest;
    let scores = scores.as_chunks_mut::<V>().0;
    for scores in &*scores {
        for v in 0..V {
            largest[v] = simd.max_f32s(largest[v], scores[v]);
        }
    }
    let mut shrink = [simd.splat_f32s(1.0); V];
    let mut sums = shrink;
    for v in 0..V {
        shrink[v] = exp(simd, simd.sub_f32s(before[v], largest[v]));
        sums[v] = simd.mul_f32s(all_sums[v], shrink[v]);
    }
    for scores in scores {
        for v in 0..V {
            scores[v] = exp(simd, simd.sub_f32s(scores[v], largest[v]));
            sums[v] = simd.add_f32s(sums[v], scores[v]);
        }
    }
    all_largest[..V].copy_from_slice(&largest);
    all_sums[..V].copy_from_slice(&sums);
    shrink
}
