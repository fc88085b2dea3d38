//! Writes into a cache: the values, and their cost.

use acestep_model::{
    Backend,
    kernel::{self, Slot},
};
use burn::tensor::{DType, Tensor};

use super::testing::{Operation, Plain, Recorded, random, read, same_everywhere};

struct Write {
    cache: [usize; 4],
    tokens: usize,
    slots: Vec<Slot>,
    /// True if the cache has another owner, who must not see the change.
    shared: bool,
}

impl Operation for Write {
    fn has_empty_input(&self) -> bool {
        self.tokens == 0
    }

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
            cache = kernel::cache_write(cache, new.clone(), &slots);
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
