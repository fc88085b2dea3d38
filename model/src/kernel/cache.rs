//! Writing new keys or values into the places that a cache keeps for them.
//!
//! Source: `torch.Tensor.index_copy_`, one place a row; what is kept, and why, is in [`crate::nn`].

use burn::tensor::Tensor;

use super::{Backend, debug_assert_same_dtype, primitive, tensor};

/// Where one sequence of new keys or values goes: a row of the cache, and a position in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// Row of the cache.
    pub row: usize,
    /// Position of the first new key.
    pub start: usize,
}

/// Replaces `t` positions from `slots[i].start` on in row `slots[i].row` by item `i` of `new`.
///
/// Where the backend can, the cache is changed in place, if nobody else holds it.
///
/// # Shapes
/// - `cache`, output: `[rows, kv_heads, capacity, D]`
/// - `new`: `[slots, kv_heads, t, D]`
// ANCHOR: cache_write
pub fn cache_write<B: Backend>(
    cache: Tensor<B, 4>,
    new: Tensor<B, 4>,
    slots: &[Slot],
) -> Tensor<B, 4> {
    debug_assert_same_dtype("cache_write", cache.dtype(), [new.dtype()]);
    tensor(B::cache_write(primitive(cache), primitive(new), slots))
}
// ANCHOR_END: cache_write

/// Reference of [`cache_write`], of the same shapes.
pub fn reference<B: Backend>(
    cache: Tensor<B, 4>,
    new: Tensor<B, 4>,
    slots: &[Slot],
) -> Tensor<B, 4> {
    let [_, heads, t, width] = new.dims();
    slots.iter().enumerate().fold(cache, |cache, (item, &Slot { row, start })| {
        let new = new.clone().narrow(0, item, 1);
        cache.slice_assign([row..row + 1, 0..heads, start..start + t, 0..width], new)
    })
}
