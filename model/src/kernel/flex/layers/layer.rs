//! One transformer layer for the fused path.

use burn::tensor::{DType, TensorMetadata};
use burn_flex::FlexTensor;
use rayon::prelude::*;

use super::{
    super::{
        attention::{Heads, Problem, few, scale_of},
        matrix::Matrix,
        product::{
            WORTH_SHARING,
            streamed::{CHUNK, Lines, Weight, WorkItem, at_line, at_line_mut, chunk, transpose},
        },
        rms_norm::NormRows,
        rotate, swiglu,
    },
    Parts, Tokens,
};
use crate::kernel::flex::level;

/// The weights of a layer whose maps have one type.
pub(super) struct Layer<'a, W> {
    /// Queries, keys, values.
    qkv: [&'a [W]; 3],
    output: &'a [W],
    /// Gates, ups.
    gate_up: [&'a [W]; 2],
    down: &'a [W],
    /// Norms before attention and before the feed-forward block.
    norms: [&'a [f32]; 2],
    /// Norms of queries and keys.
    head_norms: [&'a [f32]; 2],
    epsilon: f64,
}

/// Buffers between operations.
#[derive(Default)]
pub(super) struct Scratch {
    normed: Vec<f32>,
    arranged: Vec<f32>,
    /// `[out, rows]`
    sums: Vec<f32>,
    /// `[rows, out]`
    transposed: Vec<f32>,
    /// `[rows, heads D]`
    queries: Vec<f32>,
    /// `[rows, heads D]`
    mixed: Vec<f32>,
}

/// Returns an uninitialised buffer of `count` floats. The caller must overwrite all of it.
fn some(room: &mut Vec<f32>, count: usize) -> &mut [f32] {
    if room.len() < count {
        room.resize(count, 0.0);
    }
    &mut room[..count]
}

impl<'a, W: Weight> Layer<'a, W> {
    /// Returns `None` if the weights have another layout, or their rows are not whole chunks.
    pub(super) fn of(parts: &'a Parts) -> Option<Self> {
        let is_in_chunks = |map: &Matrix| map.dims()[0].is_multiple_of(CHUNK);
        let is_plain = |norm: &FlexTensor| norm.dtype() == DType::F32 && norm.is_contiguous();
        if !parts.maps.iter().all(is_in_chunks) || !parts.norms.iter().all(is_plain) {
            return None;
        }
        let [q, k, v, o, gate, up, down] = &parts.maps;
        let norms = [0, 1, 2, 3].map(|i| {
            let norm = &parts.norms[i];
            &norm.storage::<f32>()[norm.layout().start_offset()..][..norm.shape()[0]]
        });
        Some(Self {
            qkv: [W::of(q)?, W::of(k)?, W::of(v)?],
            output: W::of(o)?,
            gate_up: [W::of(gate)?, W::of(up)?],
            down: W::of(down)?,
            norms: [norms[0], norms[3]],
            head_norms: [norms[1], norms[2]],
            epsilon: parts.epsilon,
        })
    }

    /// Applies the layer to `x`, `[rows, H]`. The cache is keys and values,
    /// `[.., kv_heads, capacity, D]`.
    pub(super) fn take(
        &self,
        tokens: &Tokens<'_>,
        x: &mut [f32],
        (cache, capacity): ([&mut [f32]; 2], usize),
        room: &mut Scratch,
    ) {
        let rows = tokens.slots.len();
        assert!(tokens.seen <= capacity, "{} positions of {capacity}", tokens.seen);
        let lines = self.enter(x, self.norms[0], room);
        let outs = self.qkv.map(|map| map.len() / lines.words);
        let sums = some(&mut room.sums, outs.iter().sum::<usize>() * rows);
        products(&self.qkv, at_line(&room.arranged), lines, sums);

        self.look(tokens, outs, (cache, capacity), room);

        let width = outs[0];
        let lines = arrange::<W>(some(&mut room.mixed, rows * width), rows, &mut room.arranged);
        self.leave(self.output, lines, x, room);

        let lines = self.enter(x, self.norms[1], room);
        let inner = self.gate_up[0].len() / lines.words * rows;
        let sums = some(&mut room.sums, 2 * inner);
        products(&self.gate_up, at_line(&room.arranged), lines, sums);
        let (gate, up) = sums.split_at_mut(inner);
        level::arch().dispatch(swiglu::WorkItem { gate, up });
        let transposed = some(&mut room.transposed, inner);
        transpose(gate, rows, transposed);
        let lines = arrange::<W>(transposed, rows, &mut room.arranged);
        self.leave(self.down, lines, x, room);
    }

    /// Normalises `x` and packs it for the maps.
    fn enter(&self, x: &[f32], weight: &[f32], room: &mut Scratch) -> Lines {
        let normed = some(&mut room.normed, x.len());
        level::arch().dispatch(NormRows { x, weight, epsilon: self.epsilon, y: normed });
        arrange::<W>(normed, x.len() / weight.len(), &mut room.arranged)
    }

    /// Applies a map to the packed rows and adds the result to `x`.
    fn leave(&self, map: &[W], lines: Lines, x: &mut [f32], room: &mut Scratch) {
        let sums = some(&mut room.sums, x.len());
        products(&[map], at_line(&room.arranged), lines, sums);
        let transposed = some(&mut room.transposed, sums.len());
        transpose(sums, lines.rows, transposed);
        x.iter_mut().zip(transposed).for_each(|(x, more)| *x += *more);
    }

    /// Computes attention from queries, keys and values.
    fn look(
        &self,
        tokens: &Tokens<'_>,
        outs: [usize; 3],
        ([keys, values], capacity): ([&mut [f32]; 2], usize),
        room: &mut Scratch,
    ) {
        let rows = tokens.slots.len();
        let all = outs.iter().sum::<usize>();
        let width = self.head_norms[0].len();
        let [heads, kv_heads] = [outs[0], outs[1]].map(|out| out / width);
        let transposed = some(&mut room.transposed, all * rows);
        transpose(&room.sums[..all * rows], rows, transposed);
        let normed = some(&mut room.normed, outs[0].max(outs[1]));
        let queries = some(&mut room.queries, rows * outs[0]);
        let norm = |x: &[f32], weight: &[f32], y: &mut [f32]| {
            level::arch().dispatch(NormRows { x, weight, epsilon: self.epsilon, y });
        };
        for (row, slot) in tokens.slots.iter().enumerate() {
            let tables = tokens.tables.map(|table| &table[row * width / 2..][..width / 2]);
            let (query, rest) = transposed[row * all..][..all].split_at(outs[0]);
            let (key, value) = rest.split_at(outs[1]);
            let queries = &mut queries[row * outs[0]..][..outs[0]];
            norm(query, self.head_norms[0], &mut normed[..outs[0]]);
            for (from, to) in normed.chunks_exact(width).zip(queries.chunks_exact_mut(width)) {
                rotate::rotate_head(from, tables, to);
            }
            assert!(slot.start < capacity, "position {} of {capacity}", slot.start);
            let place = |head: usize| {
                let start = ((slot.row * kv_heads + head) * capacity + slot.start) * width;
                start..start + width
            };
            norm(key, self.head_norms[1], &mut normed[..outs[1]]);
            for (head, key) in normed[..outs[1]].chunks_exact(width).enumerate() {
                rotate::rotate_head(key, tables, &mut keys[place(head)]);
            }
            for (head, value) in value.chunks_exact(width).enumerate() {
                values[place(head)].copy_from_slice(value);
            }
        }

        let first = tokens.slots[0].row * kv_heads * capacity * width;
        let strides = [kv_heads * capacity * width, capacity * width, width];
        let problem = Problem {
            q: Heads { values: queries, strides: [outs[0], width, outs[0]], width },
            k: Heads { values: &keys[first..], strides, width },
            v: Heads { values: &values[first..], strides, width },
            kv_heads,
            group: heads / kv_heads,
            queries: 1,
            keys: tokens.seen,
            real: tokens.real,
            visibility: tokens.visibility,
            scale: scale_of(width),
        };
        let mixed = some(&mut room.mixed, rows * outs[0]);
        // Attention adds to it.
        mixed.fill(0.0);
        few::attend(&problem, mixed);
    }
}

/// Packs rows of `x` for maps of type `W`.
fn arrange<W: Weight>(x: &[f32], rows: usize, arranged: &mut Vec<f32>) -> Lines {
    let width = x.len() / rows;
    let lines = Lines::of::<W>(width, rows);
    W::arrange(level::arch(), x, width, at_line_mut(arranged, lines.width * rows));
    lines
}

/// Computes `maps x`, one map after the other: `[out, rows]`.
fn products<W: Weight>(maps: &[&[W]], x: &[f32], lines: Lines, sums: &mut [f32]) {
    let Lines { words, rows, .. } = lines;
    let arch = level::arch();
    let chunk = chunk(sums.len() / rows);
    let item = |(index, sums): (usize, &mut [f32])| {
        let mut first = index * chunk * words;
        for map in maps {
            if first < map.len() {
                let weights = &map[first..][..sums.len() / rows * words];
                return arch.dispatch(WorkItem { weights, x, lines, sums });
            }
            first -= map.len();
        }
    };
    let size = chunk * rows;
    // On all cores if that pays.
    if sums.len() / rows * lines.width < WORTH_SHARING {
        sums.chunks_mut(size).enumerate().for_each(item);
    } else {
        sums.par_chunks_mut(size).enumerate().for_each(item);
    }
}
