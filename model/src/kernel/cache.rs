//! Writes new keys or values into the cache.
//!
//! Source: `torch.Tensor.index_copy_`, one slot per row; for the cache itself see [`crate::nn`].

use burn::tensor::{DType, Tensor};

use super::{Backend, assert_same_dtype, primitive, tensor};

/// The destination of one sequence of new keys or values: a row of the cache and a position in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// Row of the cache.
    pub row: usize,
    /// Position of the first new key.
    pub start: usize,
}

/// Returns an empty cache of zeros, `[rows, kv_heads, capacity, D]`.
///
/// On the CPU a position takes no memory until something is written there.
pub(crate) fn empty_cache<B: Backend>(
    size: [usize; 4],
    device: &B::Device,
    dtype: DType,
) -> Tensor<B, 4> {
    tensor(B::empty_cache(size, device, dtype))
}

/// Writes item `i` of `new` to `t` positions of row `slots[i].row`, from `slots[i].start` on.
///
/// If the backend supports it and no other tensor shares the memory, the cache is changed in place.
///
/// # Shapes
/// - `cache`, output: `[rows, kv_heads, capacity, D]`
/// - `new`: `[slots, kv_heads, t, D]`
///
/// # Panics
/// If a slot has no room in the cache, or `new` has other sizes: kernels for GPUs check no bounds.
// ANCHOR: cache_write
pub fn cache_write<B: Backend>(
    cache: Tensor<B, 4>,
    new: Tensor<B, 4>,
    slots: &[Slot],
) -> Tensor<B, 4> {
    assert_same_dtype("cache_write", cache.dtype(), [new.dtype()]);
    let ([rows, heads, capacity, width], [items, own_heads, t, own_width]) =
        (cache.dims(), new.dims());
    assert_eq!((items, own_heads, own_width), (slots.len(), heads, width), "cache_write: sizes");
    let fits = |slot: &Slot| slot.row < rows && slot.start + t <= capacity;
    assert!(slots.iter().all(fits), "cache_write: no room for {t} in {capacity} at {slots:?}");
    tensor(B::cache_write(primitive(cache), primitive(new), slots))
}
// ANCHOR_END: cache_write

/// Returns a view of the first `length` positions of the rows of `slots`, which follow each other.
///
/// # Shapes
/// - `cache`: `[rows, kv_heads, capacity, D]`
/// - output: `[slots, kv_heads, length, D]`
pub(crate) fn cache_read<B: Backend>(
    cache: &Tensor<B, 4>,
    slots: &[Slot],
    length: usize,
) -> Tensor<B, 4> {
    cache.clone().narrow(0, slots[0].row, slots.len()).narrow(2, 0, length)
}

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
