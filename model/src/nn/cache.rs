//! Keys and values of a causal network, so that a new token costs only one position.
//!
//! The cache is a plain value: the generating code owns it, truncates it, copies its rows and
//! stores it.
//!
//! Source: the `past_key_values` of Hugging Face's `modeling_qwen3.py`.

use std::ops::Range;

use burn::tensor::Tensor;

use super::{KeysValues, LayerShape};
use crate::{
    Backend, Place,
    kernel::{self, Slot},
};

/// Granularity of the cache length: tensors are allocated, and read, up to a multiple of `STEP`
/// positions. A GPU backend makes a view only if it ends at a memory alignment (512 bytes for
/// NVIDIA). Otherwise it copies: in bf16, the whole cache for every second token. The mask hides
/// the extra positions.
pub(crate) const STEP: usize = 16;

/// Number of tokens that [`Cache::keep_window`] drops together: a multiple of the keys that a kernel
/// adds up together. So a key keeps its place among them, and the sums of a position do not depend
/// on the number of positions that arrived with it.
const DROPPED_TOGETHER: usize = 128;

/// The keys and values of every layer, one row per sequence, with room for `capacity` positions.
///
/// Rows may have different lengths; nothing is padded.
#[derive(Debug, Clone)]
// ANCHOR: cache
pub struct Cache<B: Backend> {
    /// `[rows, kv_heads, positions, D]` each, with `capacity` rounded up to a multiple of [`STEP`].
    layers: Vec<KeysValues<B>>,
    lengths: Vec<usize>,
    /// Number of positions of each row that were dropped from its start.
    dropped: Vec<usize>,
    capacity: usize,
}
// ANCHOR_END: cache

impl<B: Backend> Cache<B> {
    /// Creates an empty cache for `rows` sequences of at most `capacity` tokens, at its network's
    /// place.
    pub fn new(
        shape: &LayerShape,
        layers: usize,
        rows: usize,
        capacity: usize,
        place: &Place<B>,
    ) -> Self {
        let size = [rows, shape.kv_heads, capacity.next_multiple_of(STEP), shape.head_dim];
        let zeros = || kernel::empty_cache(size, &place.device, place.computes_in());
        let layer = |_| KeysValues { k: zeros(), v: zeros() };
        let layers = (0..layers).map(layer).collect();
        Self { layers, lengths: vec![0; rows], dropped: vec![0; rows], capacity }
    }

    /// Returns the number of sequences.
    pub fn rows(&self) -> usize {
        self.lengths.len()
    }

    /// Returns the maximum number of tokens per row.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Makes room for `capacity` tokens per row, if there is less. The content stays.
    pub(crate) fn grow(&mut self, capacity: usize) {
        if capacity <= self.capacity {
            return;
        }
        let filled = (0..self.rows()).filter(|&row| self.lengths[row] > 0);
        let filled: Vec<_> = filled.map(|row| (row, self.row(row), self.dropped[row])).collect();
        for layer in &mut self.layers {
            for x in [&mut layer.k, &mut layer.v] {
                let [rows, heads, _, width] = x.dims();
                let size = [rows, heads, capacity.next_multiple_of(STEP), width];
                *x = kernel::empty_cache(size, &x.device(), x.dtype());
            }
        }
        self.capacity = capacity;
        for (row, content, dropped) in filled {
            self.set_row_from(row, content, dropped);
        }
    }

    /// Returns the dimensions of the keys of each layer of a row with `length` positions.
    pub(super) fn dims_of_row(&self, length: usize) -> Vec<[usize; 4]> {
        let of = |layer: &KeysValues<B>| {
            let [_, heads, _, width] = layer.k.dims();
            [1, heads, length, width]
        };
        self.layers.iter().map(of).collect()
    }

    /// Returns the width of one head; 0 without layers.
    pub(crate) fn head_dim(&self) -> usize {
        self.layers.first().map_or(0, |layer| layer.k.dims()[3])
    }

    /// Returns the bytes of all keys and values, with those of positions that are not filled.
    pub fn bytes(&self) -> u64 {
        let of = |tensor: &Tensor<B, 4>| tensor.shape().num_elements() * tensor.dtype().size();
        self.layers.iter().map(|layer| (of(&layer.k) + of(&layer.v)) as u64).sum()
    }

    /// Returns the number of tokens in row `row`.
    pub fn length(&self, row: usize) -> usize {
        self.lengths[row]
    }

    /// Returns the position of the first token in row `row`: 0, or more after [`Self::keep_last`].
    pub(crate) fn dropped(&self, row: usize) -> usize {
        self.dropped[row]
    }

    /// Drops the tokens of row `row` after the first `length`.
    pub fn truncate(&mut self, row: usize, length: usize) {
        self.lengths[row] = self.lengths[row].min(length);
    }

    /// Drops the oldest tokens of row `row` so that at most `length` stay. Later tokens keep their
    /// positions.
    pub fn keep_last(&mut self, row: usize, length: usize) {
        let old = self.lengths[row].saturating_sub(length);
        if old == 0 {
            return;
        }
        let kept = |[k, v]: [Tensor<B, 4>; 2]| [k, v].map(|x| x.slice_dim(2, old..));
        let content = self.row(row).into_iter().map(kept).collect();
        self.set_row_from(row, content, self.dropped[row] + old);
    }

    /// Drops tokens of row `row` that no later token sees, if each sees `window` tokens, itself
    /// included. Later tokens keep their positions.
    pub fn keep_window(&mut self, row: usize, window: usize) {
        let unseen = self.lengths[row].saturating_sub(window - 1);
        self.keep_last(row, self.lengths[row] - unseen / DROPPED_TOGETHER * DROPPED_TOGETHER);
    }

    /// Returns the capacity that a row needs for `count` tokens after [`Self::keep_window`].
    pub fn capacity_of_window(window: usize, count: usize) -> usize {
        window - 1 + DROPPED_TOGETHER - 1 + count
    }

    /// Copies row `from` to row `to`.
    pub fn copy_row(&mut self, from: usize, to: usize) {
        self.set_row_from(to, self.row(from), self.dropped[from]);
    }

    /// Returns the content of row `row`: keys and values of every layer,
    /// `[1, kv_heads, length, D]`.
    pub fn row(&self, row: usize) -> Vec<[Tensor<B, 4>; 2]> {
        let length = self.lengths[row];
        let part = |x: &Tensor<B, 4>| x.clone().narrow(0, row, 1).narrow(2, 0, length);
        self.layers.iter().map(|layer| [part(&layer.k), part(&layer.v)]).collect()
    }

    /// Replaces row `row` by a result of [`Self::row`], of this cache or of another cache for the
    /// same network. The float type may differ. The first position of the content becomes 0.
    ///
    /// # Panics
    /// If the content is from another network, or longer than the capacity.
    pub fn set_row(&mut self, row: usize, content: Vec<[Tensor<B, 4>; 2]>) {
        self.set_row_from(row, content, 0);
    }

    /// [`Self::set_row`] whose first position becomes `dropped`.
    pub(crate) fn set_row_from(
        &mut self,
        row: usize,
        content: Vec<[Tensor<B, 4>; 2]>,
        dropped: usize,
    ) {
        assert_eq!(content.len(), self.layers.len(), "the content has another number of layers");
        let length = content.first().map_or(0, |[k, _]| k.dims()[2]);
        assert!(length <= self.capacity, "{length} tokens do not fit into {}", self.capacity);
        (self.lengths[row], self.dropped[row]) = (length, dropped);
        if length == 0 {
            return;
        }
        for (layer, [k, v]) in self.layers.iter_mut().zip(content) {
            let dtype = layer.k.dtype();
            layer.write(k.cast(dtype), v.cast(dtype), &[Slot { row, start: 0 }]);
        }
    }

    /// True if `content` can be a row: see [`Self::set_row`].
    pub fn takes(&self, content: &[[Tensor<B, 4>; 2]]) -> bool {
        let length = content.first().map_or(0, |[k, _]| k.dims()[2]);
        let dims = self.dims_of_row(length);
        let fits = |(dims, tensors): (&[usize; 4], &[Tensor<B, 4>; 2])| {
            tensors.iter().all(|tensor| tensor.dims() == *dims)
        };
        content.len() == dims.len() && length <= self.capacity && dims.iter().zip(content).all(fits)
    }

    /// Returns the slots for the next token of each of `rows`.
    pub(crate) fn next(&self, rows: Range<usize>) -> Vec<Slot> {
        rows.map(|row| Slot { row, start: self.lengths[row] }).collect()
    }

    /// Advances the lengths of `slots` by `tokens`.
    pub(crate) fn advance(&mut self, slots: &[Slot], tokens: usize) {
        slots.iter().for_each(|slot| self.lengths[slot.row] = slot.start + tokens);
    }

    /// Returns keys and values of every layer.
    pub(crate) fn layers_mut(&mut self) -> impl Iterator<Item = [&mut Tensor<B, 4>; 2]> {
        self.layers.iter_mut().map(|layer| [&mut layer.k, &mut layer.v])
    }
}

#[cfg(feature = "testing")]
impl<B: Backend> Cache<B> {
    /// Returns keys and values of every layer, for tests of what a GPU makes of a part of them.
    #[doc(hidden)]
    pub fn tensors(&mut self) -> impl Iterator<Item = [&mut Tensor<B, 4>; 2]> {
        self.layers_mut()
    }
}

impl<B: Backend> KeysValues<B> {
    /// Writes new keys and values, `[slots, kv_heads, t, D]`, into their slots.
    pub(crate) fn write(&mut self, k: Tensor<B, 4>, v: Tensor<B, 4>, slots: &[Slot]) {
        write(&mut self.k, k, slots);
        write(&mut self.v, v, slots);
    }
}

/// The keys and values of one layer, to which a layer appends those of new tokens.
#[derive(Debug)]
pub struct Past<'a, B: Backend> {
    /// Keys and values, `[rows, kv_heads, capacity, D]` each.
    pub(crate) cache: [&'a mut Tensor<B, 4>; 2],
    pub(crate) slots: &'a [Slot],
    /// Number of positions to attend to, the new ones included.
    pub(crate) seen: usize,
}

impl<B: Backend> Past<'_, B> {
    /// Appends keys and values, `[slots, kv_heads, t, D]`, and returns all that are seen.
    pub(crate) fn with(self, k: Tensor<B, 4>, v: Tensor<B, 4>) -> [Tensor<B, 4>; 2] {
        let Self { cache: [keys, values], slots, seen } = self;
        write(keys, k, slots);
        write(values, v, slots);
        [keys, values].map(|cache| kernel::cache_read(cache, slots, seen))
    }
}

/// Writes into a cache, which the operation must own, or it would copy it. The new values stand in until then: an
/// empty tensor, which [`Tensor::inplace`] makes, cannot be allocated on a CUDA GPU.
fn write<B: Backend>(cache: &mut Tensor<B, 4>, new: Tensor<B, 4>, slots: &[Slot]) {
    let owned = std::mem::replace(cache, new.clone());
    *cache = kernel::cache_write(owned, new, slots);
}
