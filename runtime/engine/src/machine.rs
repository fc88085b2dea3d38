//! The machine: its main memory and its disks.

use std::path::Path;

use sysinfo::{Disks, MemoryRefreshKind, RefreshKind, System};

use crate::device::{Device, memory::MemoryInfo};

/// Main memory of the machine, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct MainMemory {
    /// Memory that is available to programs now.
    pub available: u64,
    /// Memory plus swap.
    pub total: u64,
    /// Memory without swap.
    pub memory: u64,
}

/// Asks the operating system for the main memory.
pub fn main_memory() -> MainMemory {
    let wanted = RefreshKind::nothing().with_memory(MemoryRefreshKind::everything());
    let system = System::new_with_specifics(wanted);
    MainMemory {
        available: system.available_memory(),
        total: system.total_memory() + system.total_swap(),
        memory: system.total_memory(),
    }
}

/// Returns the memory of `device`. The memory of a CPU has no free part, because it can swap.
pub fn memory_of(device: Device) -> MemoryInfo {
    match device {
        Device::Cpu => MemoryInfo { total: Some(main_memory().total), ..MemoryInfo::default() },
        card => MemoryInfo::of(card),
    }
}

/// Returns the free bytes on the disk of `path`, or of its first existing parent folder.
pub fn free_at(path: &Path) -> Option<u64> {
    let existing = path.ancestors().find(|folder| folder.exists())?;
    // On Windows a canonical path has a prefix that matches no mount point.
    let path = match cfg!(windows) {
        true => std::path::absolute(existing).ok()?,
        false => existing.canonicalize().ok()?,
    };
    let disks = Disks::new_with_refreshed_list();
    let under = disks.iter().filter(|disk| path.starts_with(disk.mount_point()));
    under
        .max_by_key(|disk| disk.mount_point().components().count())
        .map(|disk| disk.available_space())
}
