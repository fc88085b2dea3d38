//! Vulkan and Metal GPUs, and their numbers in the backend.

use burn_wgpu::{
    WgpuDevice,
    graphics::{AutoGraphicsApi, GraphicsApi},
};
use wgpu::{DeviceType, Features, Instance, InstanceDescriptor};

use super::{
    Device, choice,
    listing::{self, GpuAdapter, GpuKind},
};
use crate::Error;

/// Lists every GPU that the backend can use, the best first.
pub(super) fn query() -> Vec<GpuAdapter> {
    // The same query as the backend's, so that the numbers match.
    let backend = AutoGraphicsApi::backend();
    let instance = Instance::new(InstanceDescriptor {
        backends: backend.into(),
        ..InstanceDescriptor::new_without_display_handle()
    });
    let found = cubecl_common::future::block_on(instance.enumerate_adapters(backend.into()));
    let mut counts = [0_usize; 4];
    let mut adapters: Vec<_> = found
        .iter()
        .filter_map(|adapter| {
            let info = adapter.get_info();
            let kind = match info.device_type {
                DeviceType::DiscreteGpu => GpuKind::Discrete,
                DeviceType::IntegratedGpu => GpuKind::Integrated,
                DeviceType::VirtualGpu => GpuKind::Virtual,
                DeviceType::Cpu => GpuKind::Software,
                // The backend does not number these.
                DeviceType::Other => return None,
            };
            let number = counts[kind as usize];
            counts[kind as usize] += 1;
            // The backend finds only the first software adapter.
            if kind == GpuKind::Software && number > 0 {
                return None;
            }
            let (total_bytes, free_bytes) = memory(adapter, kind);
            let limits = adapter.limits();
            let features = adapter.features();
            Some(GpuAdapter {
                name: info.name,
                kind,
                number,
                api: format!("{:?}", info.backend),
                driver: format!("{} {}", info.driver, info.driver_info).trim().to_owned(),
                total_bytes,
                free_bytes,
                largest_bytes: limits.max_storage_buffer_binding_size.min(limits.max_buffer_size),
                has_f16: features.contains(Features::SHADER_F16),
                has_matrix_units: features.contains(Features::EXPERIMENTAL_COOPERATIVE_MATRIX),
            })
        })
        .collect();
    adapters.sort_by_key(|adapter| adapter.kind);
    adapters
}

/// Returns a GPU's total and free memory, if its driver reports them.
#[cfg(not(target_os = "macos"))]
fn memory(adapter: &wgpu::Adapter, kind: GpuKind) -> (Option<u64>, Option<u64>) {
    super::vulkan::memory(adapter, kind).unwrap_or_default()
}

/// Returns nothing: Metal shares memory between GPU and CPU, and limits neither.
#[cfg(target_os = "macos")]
fn memory(_: &wgpu::Adapter, _: GpuKind) -> (Option<u64>, Option<u64>) {
    (None, None)
}

/// Returns the backend's name for the adapter at `index` of the listing.
pub(super) fn device(index: usize, asked: Device) -> Result<WgpuDevice, Error> {
    let adapters = listing::wgpu().unwrap_or_default();
    let Some(adapter) = adapters.get(index) else { return Err(choice::not_built_in(asked)) };
    Ok(name(adapter))
}

/// Returns the index in the listing of the backend's `device`. The backend's default device has no
/// name; the first adapter is most likely it.
pub(super) fn index_of(device: &WgpuDevice) -> usize {
    let adapters = listing::wgpu().unwrap_or_default();
    adapters.iter().position(|adapter| name(adapter) == *device).unwrap_or(0)
}

fn name(adapter: &GpuAdapter) -> WgpuDevice {
    match adapter.kind {
        GpuKind::Discrete => WgpuDevice::DiscreteGpu(adapter.number),
        GpuKind::Integrated => WgpuDevice::IntegratedGpu(adapter.number),
        GpuKind::Virtual => WgpuDevice::VirtualGpu(adapter.number),
        GpuKind::Software => WgpuDevice::Cpu,
    }
}
