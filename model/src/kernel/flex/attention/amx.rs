//! Attention by Intel AMX, for keys and values in bf16.
//!
//! ```text
//! keys, as stored            x queries, rounded -> words of two numbers -> scores
//! values, numbers of 32 keys x weights, rounded -> words of two keys    -> mixed
//! ```
//!
//! Rounding is as in [`super::dots`]. Sums are f32, in another order.

mod multiply;

use std::{arch::x86_64::*, iter};

use burn::tensor::bf16;
use half::slice::HalfFloatSliceExt;
use pulp::{
    Simd,
    bytemuck::{cast_slice, cast_slice_mut},
};

use super::{
    Problem,
    dots::word_order,
    many::{Block, DotProducts},
};
use crate::kernel::flex::{
    cleared,
    product::{
        blocked::{
            LANES, Vector,
            memory::{bits, floats, kept, load, vector},
        },
        tiles::Tiles,
        transpose::transpose,
    },
};
use multiply::{COLUMNS, Left, PAIR, multiply};

/// Numbers of a line of a tile.
const NUMBERS: usize = 2 * LANES;

/// Keys and values in bf16.
pub(super) struct Tiled<'a> {
    proof: Tiles,
    problem: Problem<'a, bf16>,
    /// Tiles of the values of each head, `[D / 16][keys / 32][column][key]`, padded with zeros.
    values: Vec<Vector>,
}

impl<'a> Tiled<'a> {
    /// Returns the proof that the CPU has AMX, if its tiles fit heads of this width.
    pub(super) fn proof(width: usize) -> Option<Tiles> {
        Tiles::new().filter(|_| width.is_multiple_of(NUMBERS))
    }

    /// Packs the values of `items` batch items; [`Self::proof`] is that for the width of the heads.
    pub(super) fn of(proof: Tiles, problem: Problem<'a, bf16>, items: usize) -> Self {
        let Problem { v, kv_heads, keys, .. } = problem;
        let (parts, size) = (v.width / LANES, keys.div_ceil(NUMBERS) * LANES);
        let heads = iter::repeat_n(size, items * kv_heads * parts);
        let values = cleared::in_parts(Vector::ZERO, heads, |index, tiles| {
            let (head, part) = (index / parts, index % parts);
            let head = v.head(head / kv_heads, head % kv_heads);
            for (block, tile) in tiles.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
                let row = |key: usize| -> [u16; LANES] {
                    match block * NUMBERS + key {
                        key if key < keys => {
                            let row: &[u16] = head.row(key).reinterpret_cast();
                            *row[part * LANES..].first_chunk().expect("a multiple of the lanes")
                        }
                        _ => [0; LANES],
                    }
                };
                let rows: [[u16; LANES]; NUMBERS] = std::array::from_fn(row);
                // SAFETY: a CPU with AMX has AVX-512.
                #[expect(
                    unsafe_code,
                    reason = "`proof` says that the processor has the instructions"
                )]
                unsafe {
                    columns(&rows, tile);
                }
            }
        });
        Self { proof, problem, values }
    }
}

/// Scratch memory of a core.
#[derive(Default)]
pub(super) struct Scratch {
    /// The first key of the block.
    first: usize,
    /// Tiles of keys, `[key / 16][D / 32][key][number]`; lines after the last key keep what they had.
    keys: Vec<Vector>,
    /// Tiles of weights, `[key / 32][query / 16][pair of keys][query]`.
    weights: Vec<Vector>,
    /// Sums of a product.
    sums: Vec<Vector>,
}

#[expect(unsafe_code, reason = "a CPU with AMX has AVX-512")]
impl<'a> DotProducts<'a> for Tiled<'a> {
    type Number = bf16;
    /// `[D / 32][query / 16][pair of numbers][query]`
    type Queries = Vec<Vector>;
    type Scratch = Scratch;
    const BLOCK: usize = 128;

    fn problem(&self) -> &Problem<'a, bf16> {
        &self.problem
    }

    fn step(&self) -> usize {
        NUMBERS
    }

    fn load(&self, block: &Block, _: usize, scratch: &mut Scratch) {
        let head = self.problem.k.head(block.item, block.head);
        let blocks = head.width / NUMBERS;
        scratch.first = block.keys.start;
        let lines = block.keys.len().next_multiple_of(PAIR * LANES) * blocks;
        scratch.keys.resize(lines.max(scratch.keys.len()), Vector::ZERO);
        for (index, key) in block.keys.clone().enumerate() {
            let row: &[u16] = head.row(key).reinterpret_cast();
            let first = index / LANES * blocks * LANES + index % LANES;
            let to = scratch.keys[first..].iter_mut().step_by(LANES);
            to.zip(row.as_chunks().0).for_each(|(to, numbers)| *to = Vector::of(*numbers));
        }
    }

    fn pack(&self, queries: &[&[f32]], _: usize, to: &mut Vec<Vector>) {
        to.clear();
        for start in (0..self.problem.k.width).step_by(NUMBERS) {
            for first in (0..COLUMNS).map(|vector| vector * LANES) {
                let mut parts = [&[][..]; LANES];
                let queries = queries.iter().skip(first);
                let filled = parts.iter_mut().zip(queries).map(|(part, query)| {
                    *part = &query[start..start + NUMBERS];
                });
                let count = filled.count();
                to.extend(self.proof.pack(&parts[..count]));
            }
        }
    }

    #[inline(always)]
    fn scores<S: Simd, const V: usize>(
        &self,
        _: S,
        block: &Block,
        queries: &Vec<Vector>,
        scratch: &mut Scratch,
        scores: &mut [f32],
    ) {
        let Scratch { first, ref keys, ref mut sums, .. } = *scratch;
        let stride = self.problem.k.width / NUMBERS * LANES;
        let tiles = &keys[(block.keys.start - first) / LANES * stride..];
        let pairs = block.keys.len().div_ceil(PAIR * LANES);
        let sums = some(sums, pairs * PAIR * COLUMNS * LANES);
        multiply(self.proof, Left { tiles, stride }, queries, sums);
        let scores = scores.as_chunks_mut::<LANES>().0.as_chunks_mut::<V>().0;
        // SAFETY: see above.
        unsafe { scaled(sums, self.problem.scale, scores) };
    }

    #[inline(always)]
    fn mix<S: Simd, const V: usize>(
        &self,
        _: S,
        block: &Block,
        weights: &[S::f32s],
        shrink: [S::f32s; V],
        scratch: &mut Scratch,
        mixed: &mut [S::f32s],
    ) {
        let &Problem { kv_heads, keys, ref v, .. } = &self.problem;
        let Scratch { weights: words, sums, .. } = scratch;
        let (weights, shrink): (&[f32], &[f32]) = (cast_slice(weights), cast_slice(&shrink));
        let weights = weights.as_chunks::<LANES>().0.as_chunks::<V>().0;
        let words = some(words, weights.len().div_ceil(NUMBERS) * COLUMNS * LANES);
        // SAFETY: see above.
        unsafe { pair(weights, words) };

        let (parts, stride) = (v.width / LANES, keys.div_ceil(NUMBERS) * LANES);
        let head = block.item * kv_heads + block.head;
        let tiles = &self.values[head * parts * stride + block.keys.start / NUMBERS * LANES..];
        let sums = some(sums, parts * COLUMNS * LANES);
        multiply(self.proof, Left { tiles, stride }, words, sums);
        let shrink = &shrink.as_chunks::<LANES>().0.as_chunks::<V>().0[0];
        let mixed: &mut [f32] = cast_slice_mut(mixed);
        let mixed = mixed.as_chunks_mut::<LANES>().0.as_chunks_mut::<V>().0;
        // SAFETY: see above.
        unsafe { add(sums, shrink, mixed) };
    }
}

/// Returns the first `count` vectors, which it makes if they do not exist.
fn some(all: &mut Vec<Vector>, count: usize) -> &mut [Vector] {
    all.resize(count.max(all.len()), Vector::ZERO);
    &mut all[..count]
}

/// Writes the numbers of 32 keys by columns.
#[target_feature(enable = "avx512f")]
fn columns(rows: &[[u16; LANES]; NUMBERS], tile: &mut [Vector; LANES]) {
    let mut words = [_mm512_setzero_si512(); LANES];
    for (to, [low, high]) in words.iter_mut().zip(rows.as_chunks().0) {
        let number = |index: usize| [low, high][index % 2][index / 2];
        *to = load(&Vector::of(std::array::from_fn(number)));
    }
    transpose(&mut words);
    for (to, words) in tile.iter_mut().zip(words) {
        *to = kept(words);
    }
}

/// Writes the scores of keys that exist.
#[target_feature(enable = "avx512f")]
fn scaled<const V: usize>(sums: &[Vector], scale: f32, scores: &mut [[[f32; LANES]; V]]) {
    let scale = _mm512_set1_ps(scale);
    for (index, scores) in scores.iter_mut().enumerate() {
        let sums = &sums[index / LANES * COLUMNS * LANES + index % LANES..];
        for v in 0..V {
            let sum = _mm512_castsi512_ps(load(&sums[v * LANES]));
            scores[v] = floats(_mm512_mul_ps(sum, scale));
        }
    }
}

/// Packs weights in words of two keys; keys that do not exist weigh zero.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
fn pair<const V: usize>(weights: &[[[f32; LANES]; V]], words: &mut [Vector]) {
    let order = word_order();
    let weight = |key: usize, v: usize| match weights.get(key) {
        Some(weights) => vector(&weights[v]),
        None => _mm512_setzero_ps(),
    };
    for (block, words) in words.as_chunks_mut::<{ COLUMNS * LANES }>().0.iter_mut().enumerate() {
        for pair in 0..LANES {
            let key = block * NUMBERS + 2 * pair;
            for v in 0..V {
                let both = bits(_mm512_cvtne2ps_pbh(weight(key + 1, v), weight(key, v)));
                words[v * LANES + pair] = kept(_mm512_permutexvar_epi16(order, both));
            }
        }
    }
}

/// Rescales `mixed` by `shrink` and adds the sums.
#[target_feature(enable = "avx512f")]
fn add<const V: usize>(
    sums: &[Vector],
    shrink: &[[f32; LANES]; V],
    mixed: &mut [[[f32; LANES]; V]],
) {
    for (index, mixed) in (0..sums.len() / COLUMNS).zip(mixed) {
        let sums = &sums[index / LANES * COLUMNS * LANES + index % LANES..];
        for v in 0..V {
            let sum = _mm512_castsi512_ps(load(&sums[v * LANES]));
            mixed[v] = floats(_mm512_fmadd_ps(vector(&mixed[v]), vector(&shrink[v]), sum));
        }
    }
}
