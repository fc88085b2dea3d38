//! Writes new keys or values into all their slots of the cache in one launch, in place if the cache
//! is not shared.
//!
//! Limits: a shared cache is copied first, because the other owner's copy must not change.
//!
//! The last axis is made contiguous if needed.
//!
//! Gain over one assignment per slot on Mesa lavapipe on two cores: two slots are 1.5 times as
//! fast, or 2 times with fusion; a step costs the same for every capacity.

use burn_cubecl::{CubeRuntime, kernel::into_contiguous, tensor::CubeTensor};
use cubecl::prelude::*;

use super::{
    super::Slot,
    rows::{common_vector, elementwise},
};

/// Maximum number of slots per launch; more slots need several launches.
const MOST_SLOTS: usize = 32;

/// # Shapes
/// - `cache`, output: `[rows, kv_heads, capacity, D]`
/// - `new`: `[slots, kv_heads, t, D]`
pub(super) fn cache_write<R: CubeRuntime>(
    cache: CubeTensor<R>,
    new: CubeTensor<R>,
    slots: &[Slot],
) -> CubeTensor<R> {
    let whole = |x: &CubeTensor<R>| x.meta.strides()[3] == 1;
    let in_place = cache.can_mut() && cache.is_nonoverlapping() && whole(&cache);
    let cache = if in_place { cache } else { into_contiguous(cache.copy()) };
    let new = if whole(&new) { new } else { into_contiguous(new) };
    if new.meta.num_elements() == 0 {
        return cache;
    }
    let client = cache.client.clone();
    let vector = common_vector([&cache, &new]);
    let [_, heads, tokens, width] = new.meta.shape().dims();
    for (part, slots) in slots.chunks(MOST_SLOTS).enumerate() {
        let mut rows = SequenceArg::<R, usize>::new();
        let mut starts = SequenceArg::<R, usize>::new();
        slots.iter().for_each(|slot| {
            rows.push(slot.row);
            starts.push(slot.start);
        });
        let units = slots.len() * heads * tokens * width / vector;
        let (count, dim) = elementwise(&client, units);
        cache_write_kernel::launch::<R>(
            &client,
            count,
            dim,
            cache.required_address_type().max(new.required_address_type()),
            vector,
            new.clone().into_tensor_arg(),
            cache.clone().into_tensor_arg(),
            rows,
            starts,
            part * MOST_SLOTS,
            units,
            [cache.dtype.into(), new.dtype.into()],
        );
    }
    cache
}

#[cube(launch, address_type = "dynamic")]
#[allow(clippy::too_many_arguments, reason = "a kernel's inputs, and its launch")]
fn cache_write_kernel<T: Float, S: Float, N: Size>(
    new: &Tensor<Vector<S, N>>,
    cache: &mut Tensor<Vector<T, N>>,
    rows: Sequence<usize>,
    starts: Sequence<usize>,
    first: usize,
    units: usize,
    #[define(T, S)] _types: [StorageType; 2],
) {
    if ABSOLUTE_POS >= units {
        terminate!();
    }
    let size = cache.vector_size();
    let vectors = new.shape(3) / size;
    let column = ABSOLUTE_POS % vectors;
    let token = ABSOLUTE_POS / vectors % new.shape(2);
    let head = ABSOLUTE_POS / (vectors * new.shape(2)) % new.shape(1);
    let item = ABSOLUTE_POS / (vectors * new.shape(2) * new.shape(1));

    let mut row = 0usize;
    let mut start = 0usize;
    #[unroll]
    for slot in 0..comptime!(rows.len()) {
        if item == slot {
            row = rows[slot];
            start = starts[slot];
        }
    }
    let source = (first + item) * new.stride(0) + head * new.stride(1) + token * new.stride(2);
    let target = row * cache.stride(0) + head * cache.stride(1) + (start + token) * cache.stride(2);
    let value = new[source / size + column];
    cache[target / size + column] = Vector::cast_from(value);
}
