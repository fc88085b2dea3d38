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
use cubecl::{calculate_cube_count_elemwise, prelude::*};

use super::{super::Slot, rows::common_vector};

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
        let dim = CubeDim::new(&client, units);
        cache_write_kernel::launch::<R>(
            &client,
            calculate_cube_count_elemwise(&client, units, dim),
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

#[cfg(all(test, feature = "wgpu", feature = "cpu"))]
mod tests {
    use burn::tensor::{DType, Tensor};

    use super::super::testing::{Operation, Plain, Recorded, random, read, same_everywhere};
    use crate::{
        Backend,
        kernel::{self, Slot},
    };

    struct Write {
        cache: [usize; 4],
        tokens: usize,
        slots: Vec<Slot>,
        /// True if the cache has another owner, who must not see the change.
        shared: bool,
    }

    impl Operation for Write {
        fn run<B: Backend>(&self, dtype: DType, device: &B::Device) -> Vec<f32> {
            let [_, heads, _, width] = self.cache;
            let cache = random::<B, 4>(self.cache, 1, dtype, device);
            let new = [self.slots.len(), self.tokens, heads, width];
            let new = random::<B, 4>(new, 2, dtype, device).swap_dims(1, 2);
            let held = self.shared.then(|| cache.clone());
            let mut values = read(kernel::cache_write(cache, new, &self.slots));
            values.extend(held.map(read).unwrap_or_default());
            values
        }
    }

    #[test]
    fn every_slot_gets_its_own() {
        let slot = |row, start| Slot { row, start };
        let many: Vec<Slot> = (0..35).map(|row| slot(34 - row, row % 3)).collect();
        let cases = [
            ([1, 1, 1, 1], 1, vec![slot(0, 0)]),
            ([3, 2, 7, 6], 4, vec![slot(1, 3)]),
            ([3, 2, 9, 64], 1, vec![slot(2, 8), slot(0, 1)]),
            ([2, 8, 40, 128], 33, vec![slot(1, 2)]),
            ([2, 2, 4, 8], 0, vec![slot(1, 2)]),
            ([35, 2, 4, 8], 1, many),
        ];
        for (cache, tokens, slots) in cases {
            for shared in [false, true] {
                let name = format!("{} of {tokens} into {cache:?}, {shared}", slots.len());
                let slots = slots.clone();
                same_everywhere(&name, &Write { cache, tokens, slots, shared }, 0.0);
            }
        }
    }

    /// Checks that steps of an unshared cache stay in one buffer; a copy would need a second one.
    fn steps_in_place<B: Backend>(device: &B::Device, sync: impl Fn()) {
        // 32 MiB, written sixteen times: copies would take seconds of memory traffic in this
        // driver.
        let time = |capacity: usize| {
            let mut cache = Tensor::<B, 4>::zeros([2, 8, capacity, 128], device);
            let new = random::<B, 4>([2, 8, 1, 128], 1, DType::F32, device);
            let mut best = f64::MAX;
            for step in 0..16 {
                sync();
                let start = std::time::Instant::now();
                let slots = [0, 1].map(|row| Slot { row, start: step });
                cache.inplace(|cache| kernel::cache_write(cache, new.clone(), &slots));
                let _ = read(cache.clone().narrow(2, step, 1));
                best = best.min(start.elapsed().as_secs_f64());
            }
            best
        };
        let (small, large) = (time(64), time(4096));
        assert!(large < 6.0 * small, "{small} s at 64 positions, {large} s at 4096");
    }

    #[test]
    fn a_step_costs_the_same_at_every_capacity() {
        let device = burn_wgpu::WgpuDevice::DefaultDevice;
        steps_in_place::<Plain>(&device, || ());
        steps_in_place::<Recorded>(&device, || ());
    }
}
