//! The two products of a block: keys or values with vectors of queries, in registers.
//!
//! A vector holds one column of several queries. One element of a key is multiplied with all of
//! them, so nothing is summed across a vector.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::{
    Head, Problem,
    many::{Block, DotProducts, MORE},
};
use crate::kernel::flex::level;

/// Keys, or columns of values, that are summed at once. These sums, one vector row of queries and one element all
/// fit in registers.
const TOGETHER: usize = 8;

/// The same with 16 registers.
const TOGETHER_IN_16: usize = 6;

const _: () = assert!(TOGETHER <= MORE + 1, "`mixed` has too few columns");

/// Groups of such columns that lie side by side in memory.
const SIDE: usize = 4;

/// Keys and values in f32.
pub(super) struct Plain<'a> {
    problem: Problem<'a>,
    /// Columns of values that are neighbours in memory.
    columns: usize,
}

impl<'a> Plain<'a> {
    pub(super) fn of(problem: Problem<'a>) -> Self {
        Self { problem, columns: SIDE * level::arch().dispatch(Together) }
    }
}

/// A block of keys and values in a core's cache.
#[derive(Default)]
pub(super) struct Packed {
    keys: Rows,
    /// `[D / columns, BLOCK, columns]`; columns that do not exist are zeros.
    values: Vec<f32>,
}

/// Some rows of a head in a core's cache. In memory they may lie pages apart, where they would share few places of the
/// cache.
#[derive(Default)]
struct Rows {
    /// Position of the first row.
    first: usize,
    /// Empty if they are not packed.
    values: Vec<f32>,
}

impl Rows {
    /// Packs the rows if more than one reader will read them.
    fn load(&mut self, head: Head<'_>, positions: &Range<usize>, readers: usize) {
        self.first = positions.start;
        self.values.clear();
        if readers > 1 {
            positions.clone().for_each(|row| self.values.extend_from_slice(head.row(row)));
        }
    }

    /// Returns the rows of the head, packed if they are, and the range of some of them there.
    fn of<'a>(&'a self, head: Head<'a>, positions: &Range<usize>) -> (Head<'a>, Range<usize>) {
        match self.values.is_empty() {
            true => (head, positions.clone()),
            false => (
                Head { values: &self.values, stride: head.width, width: head.width },
                positions.start - self.first..positions.end - self.first,
            ),
        }
    }
}

/// Number of keys, or columns, that are summed at once.
struct Together;

impl WithSimd for Together {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> usize {
        if S::REGISTER_COUNT >= 32 { TOGETHER } else { TOGETHER_IN_16 }
    }
}

impl<'a> DotProducts<'a> for Plain<'a> {
    type Number = f32;
    /// `[D, V]`
    type Queries = Vec<f32>;
    type Scratch = Packed;
    const BLOCK: usize = 96;

    fn problem(&self) -> &Problem<'a> {
        &self.problem
    }

    fn step(&self) -> usize {
        1
    }

    #[inline(always)]
    fn pack(&self, queries: &[&[f32]], lanes: usize, to: &mut Vec<f32>) {
        let &Problem { k, scale, .. } = &self.problem;
        to.clear();
        to.resize(k.width * lanes, 0.0);
        for (lane, from) in queries.iter().enumerate() {
            let to = to[lane..].iter_mut().step_by(lanes);
            to.zip(*from).for_each(|(to, from)| *to = from * scale);
        }
    }

    fn load(&self, block: &Block, tiles: usize, packed: &mut Packed) {
        let &Self { ref problem, columns } = self;
        let [keys, values] = [&problem.k, &problem.v].map(|x| x.head(block.item, block.head));
        packed.keys.load(keys, &block.keys, tiles);
        let size = Self::BLOCK * columns;
        packed.values.resize(values.width.div_ceil(columns) * size, 0.0);
        for (index, key) in block.keys.clone().enumerate() {
            let to = packed.values[index * columns..].chunks_mut(size);
            for (from, to) in values.row(key).chunks(columns).zip(to) {
                to[..from.len()].copy_from_slice(from);
            }
        }
    }

    #[inline(always)]
    fn scores<S: Simd, const V: usize>(
        &self,
        simd: S,
        block: &Block,
        queries: &Vec<f32>,
        packed: &mut Packed,
        scores: &mut [f32],
    ) {
        let (keys, range) =
            packed.keys.of(self.problem.k.head(block.item, block.head), &block.keys);
        let (queries, scores) = (S::as_simd_f32s(queries).0, S::as_mut_simd_f32s(scores).0);
        if S::REGISTER_COUNT >= 32 {
            score::<S, TOGETHER, V>(simd, keys, range, queries, scores);
        } else {
            score::<S, TOGETHER_IN_16, V>(simd, keys, range, queries, scores);
        }
    }

    #[inline(always)]
    fn mix<S: Simd, const V: usize>(
        &self,
        simd: S,
        block: &Block,
        weights: &[S::f32s],
        shrink: [S::f32s; V],
        packed: &mut Packed,
        mixed: &mut [S::f32s],
    ) {
        let &Self { ref problem, columns } = self;
        let first = (block.keys.start - packed.keys.first) * columns;
        let parts = packed.values.chunks_exact(Self::BLOCK * columns);
        for (part, values) in parts.enumerate() {
            let values = &values[first..][..block.keys.len() * columns];
            let count = columns.min(problem.v.width - part * columns);
            let mixed = &mut mixed[part * columns * V..];
            if S::REGISTER_COUNT >= 32 {
                mix::<S, TOGETHER, V>(simd, values, count, weights, shrink, mixed);
            } else {
                mix::<S, TOGETHER_IN_16, V>(simd, values, count, weights, shrink, mixed);
            }
        }
    }
}

/// Computes the scores of a block of keys, `R` at a time, with `V` vectors of queries, `[D, V]`.
#[inline(always)]
fn score<S: Simd, const R: usize, const V: usize>(
    simd: S,
    keys: Head<'_>,
    block: Range<usize>,
    queries: &[S::f32s],
    scores: &mut [S::f32s],
) {
    let queries = queries.as_chunks::<V>().0;
    let width = queries.len();
    let scores = scores.as_chunks_mut::<V>().0.chunks_mut(R);
    for (first, scores) in block.clone().step_by(R).zip(scores) {
        // The last key is repeated for missing ones.
        let keys: [&[f32]; R] =
            std::array::from_fn(|r| &keys.row((first + r).min(block.end - 1))[..width]);
        let mut sums = [[simd.splat_f32s(0.0); V]; R];
        // ANCHOR: scores
        for (d, query) in queries.iter().enumerate() {
            for r in 0..R {
                let key = simd.splat_f32s(keys[r][d]);
                for v in 0..V {
                    sums[r][v] = simd.mul_add_e_f32s(key, query[v], sums[r][v]);
                }
            }
        }
        // ANCHOR_END: scores
        scores.copy_from_slice(&sums[..scores.len()]);
    }
}

/// Rescales `mixed`, `[columns, V]`, by `shrink`. Then adds `count` columns of packed values, `R` at a time, with the weights
/// `[values, V]`.
#[inline(always)]
fn mix<S: Simd, const R: usize, const V: usize>(
    simd: S,
    values: &[f32],
    count: usize,
    weights: &[S::f32s],
    shrink: [S::f32s; V],
    mixed: &mut [S::f32s],
) {
    let weights = weights.as_chunks::<V>().0;
    let mixed = mixed.as_chunks_mut::<V>().0.as_chunks_mut::<R>().0;
    for (part, mixed) in (0..count.div_ceil(R)).zip(mixed) {
        let mut sums = [[simd.splat_f32s(0.0); V]; R];
        for r in 0..R {
            for v in 0..V {
                sums[r][v] = simd.mul_f32s(mixed[r][v], shrink[v]);
            }
        }
        for (weight, value) in
            weights.iter().zip(values.as_chunks::<R>().0[part..].iter().step_by(SIDE))
        {
            for r in 0..R {
                let value = simd.splat_f32s(value[r]);
                for v in 0..V {
                    sums[r][v] = simd.mul_add_e_f32s(value, weight[v], sums[r][v]);
                }
            }
        }
        *mixed = sums;
    }
}
