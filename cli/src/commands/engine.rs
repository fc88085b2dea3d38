//! From `--device` and `--dtype` to something that computes, with its kernels kept.

use acestep_runtime::{
    Device, Engine, Notice,
    device::{Dtype, kernels, memory::Room},
};
use anyhow::Result;
use sysinfo::{MemoryRefreshKind, RefreshKind, System};

use crate::{args::device::Where, settings};

/// What is said where a card's kernels are not there yet.
pub(crate) const FIRST_RUN: &str = "first run on this device: its kernels are compiled and tuned, \
     which takes minutes; later runs start at once, and `acestep warmup` does it ahead";

/// Opens what was asked for, before anything else is read. Nothing is started.
///
/// # Errors
/// If there is no such device or it does not compute in that type.
pub(crate) fn open(place: &Where) -> Result<(Engine, Vec<Notice>)> {
    let dtype: Dtype = place.dtype.parse()?;
    let (device, mut notices) = Device::open(&place.device)?;
    // Before the backend is asked anything: it reads its settings once.
    let kept = kernels::keep(settings::kernels_dir().as_deref(), device);
    let engine = Engine { device, dtype: dtype.resolve(device)? };
    notices.extend(kept.notice);
    if kept.is_first {
        notices.push(Notice(FIRST_RUN.into()));
    }
    Ok((engine, notices))
}

/// What memory `device` has.
pub(crate) fn room(device: Device) -> Room {
    match device {
        Device::Cpu => Room { total: Some(machine().total), ..Room::default() },
        card => Room::of(card),
    }
}

/// The machine's own memory, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Machine {
    /// What programs can have now.
    pub(crate) available: u64,
    /// Memory and swap.
    pub(crate) total: u64,
    /// Memory without swap.
    pub(crate) memory: u64,
}

/// Asks the operating system.
pub(crate) fn machine() -> Machine {
    let wanted = RefreshKind::nothing().with_memory(MemoryRefreshKind::everything());
    let system = System::new_with_specifics(wanted);
    Machine {
        available: system.available_memory(),
        total: system.total_memory() + system.total_swap(),
        memory: system.total_memory(),
    }
}
