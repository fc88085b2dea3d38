//! Memory size of a GPU, which wgpu does not report but Vulkan does.

use ash::vk;

use super::listing::GpuKind;

/// Returns total and free memory of `adapter`; `None` if it is not a Vulkan GPU, or of Vulkan 1.0.
///
/// Free memory is the budget of this program by `VK_EXT_memory_budget`; the program has allocated
/// nothing yet.
#[allow(
    unsafe_code,
    reason = "wgpu does not show memory; the calls only read what the driver says of a GPU"
)]
pub(super) fn memory(adapter: &wgpu::Adapter, kind: GpuKind) -> Option<(Option<u64>, Option<u64>)> {
    // SAFETY: nothing is destroyed or changed through it, and it does not outlive `adapter`.
    let raw = unsafe { adapter.as_hal::<wgpu::hal::api::Vulkan>() }?;
    let instance = raw.shared_instance();
    if instance.instance_api_version() < vk::API_VERSION_1_1 {
        return None;
    }
    let mut budget = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
    let mut found = vk::PhysicalDeviceMemoryProperties2::default().push_next(&mut budget);
    // SAFETY: both belong to a live instance of Vulkan 1.1 or later. A driver that does not know
    // the extension ignores its structure, which then stays zero.
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

/// One memory heap of a GPU.
#[derive(Debug, Clone, Copy)]
struct Heap {
    /// True if it is local to the GPU.
    own: bool,
    size: u64,
    free: Option<u64>,
}

/// Returns the total and free memory that tensors can use. For a GPU with its own memory this is
/// the largest local heap, because a small part of it may be listed a second time. For an
/// integrated GPU it is all heaps. Software reports a number (lavapipe 2 GiB) but is not limited by
/// it.
fn join(heaps: &[Heap], kind: GpuKind) -> (Option<u64>, Option<u64>) {
    let counted: Vec<&Heap> = match kind {
        GpuKind::Discrete | GpuKind::Virtual => {
            heaps.iter().filter(|heap| heap.own).max_by_key(|heap| heap.size).into_iter().collect()
        }
        GpuKind::Integrated => heaps.iter().collect(),
        GpuKind::Software => Vec::new(),
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

    /// A GPU with 8 GB (256 MB are listed twice) beside 16 GB of system memory.
    #[test]
    fn the_memory_that_tensors_can_have() {
        let heap = |own, size, free| Heap { own, size, free };
        let heaps =
            [heap(true, 8000, Some(7000)), heap(false, 16_000, Some(9000)), heap(true, 256, None)];
        assert_eq!(join(&heaps, GpuKind::Discrete), (Some(8000), Some(7000)));
        let shared = &heaps[..2];
        assert_eq!(join(shared, GpuKind::Integrated), (Some(24_000), Some(16_000)));
        // If one heap does not report free memory, the sum is unknown.
        assert_eq!(join(&heaps, GpuKind::Integrated), (Some(24_256), None));
        assert_eq!(join(&heaps[1..2], GpuKind::Discrete), (None, None));
        assert_eq!(join(&heaps[1..2], GpuKind::Software), (None, None));
    }
}
