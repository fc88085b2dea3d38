//! What only Vulkan itself says of a card: how much memory it has.

use ash::vk;

use super::listing::AdapterKind;

/// Memory of `adapter`, all and free; `None` where it is no Vulkan card, or one of Vulkan 1.0.
///
/// What is free is told by `VK_EXT_memory_budget`: what this program may have, of which it has nothing
/// yet.
#[allow(
    unsafe_code,
    reason = "wgpu does not show memory; the calls only read what the driver says of a card"
)]
pub(super) fn memory(
    adapter: &wgpu::Adapter,
    kind: AdapterKind,
) -> Option<(Option<u64>, Option<u64>)> {
    // SAFETY: nothing is destroyed or changed through it, and it does not outlive `adapter`.
    let raw = unsafe { adapter.as_hal::<wgpu::hal::api::Vulkan>() }?;
    let instance = raw.shared_instance();
    if instance.instance_api_version() < vk::API_VERSION_1_1 {
        return None;
    }
    let mut budget = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
    let mut found = vk::PhysicalDeviceMemoryProperties2::default().push_next(&mut budget);
    // SAFETY: both belong to a live instance of Vulkan 1.1 or later. A driver that does not know the
    // extension passes over its structure, which then stays zero.
    unsafe {
        let device = raw.raw_physical_device();
        instance.raw_instance().get_physical_device_memory_properties2(device, &mut found);
    }
    let heaps = found.memory_properties;
    let budgets = budget.heap_budget;
    let heaps = heaps.memory_heaps[..heaps.memory_heap_count as usize].iter().zip(budgets);
    let heaps: Vec<Heap> = heaps
        .map(|(heap, budget)| Heap {
            own: heap.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL),
            size: heap.size,
            free: (budget > 0).then_some(budget),
        })
        .collect();
    Some(join(&heaps, kind))
}

/// One of a card's memories.
#[derive(Debug, Clone, Copy)]
struct Heap {
    /// Whether it is the card's own.
    own: bool,
    size: u64,
    free: Option<u64>,
}

/// What tensors can have: of a card with memory of its own the largest of that, for a small part of
/// it may be shown a second time; of an integrated one everything, for it is the processor's. Software
/// names a number (lavapipe 2 GiB) and takes what it needs.
fn join(heaps: &[Heap], kind: AdapterKind) -> (Option<u64>, Option<u64>) {
    let counted: Vec<&Heap> = match kind {
        AdapterKind::Discrete | AdapterKind::Virtual => {
            heaps.iter().filter(|heap| heap.own).max_by_key(|heap| heap.size).into_iter().collect()
        }
        AdapterKind::Integrated => heaps.iter().collect(),
        AdapterKind::Software => Vec::new(),
    };
    if counted.is_empty() {
        return (None, None);
    }
    let free = counted.iter().map(|heap| heap.free).sum::<Option<u64>>();
    (Some(counted.iter().map(|heap| heap.size).sum()), free)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A card with 8 GB of which 256 MB are shown again, beside 16 GB of the processor's.
    #[test]
    fn the_memory_that_tensors_can_have() {
        let heap = |own, size, free| Heap { own, size, free };
        let heaps =
            [heap(true, 8000, Some(7000)), heap(false, 16_000, Some(9000)), heap(true, 256, None)];
        assert_eq!(join(&heaps, AdapterKind::Discrete), (Some(8000), Some(7000)));
        let shared = &heaps[..2];
        assert_eq!(join(shared, AdapterKind::Integrated), (Some(24_000), Some(16_000)));
        // One that does not say what is free leaves the sum open.
        assert_eq!(join(&heaps, AdapterKind::Integrated), (Some(24_256), None));
        assert_eq!(join(&heaps[1..2], AdapterKind::Discrete), (None, None));
        assert_eq!(join(&heaps[1..2], AdapterKind::Software), (None, None));
    }
}
