//! Memory of the device: allocations in the memory of the host, whose bounds are known.

use std::{
    alloc::{Layout, alloc, dealloc},
    collections::BTreeMap,
    sync::{
        RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

/// Alignment of an allocation.
const ALIGNMENT: usize = 512;

/// Bytes between two allocations, so that an access beyond the end of one does not hit the next.
const GAP: usize = 4096;

/// All allocations, by address.
#[derive(Debug)]
pub(crate) struct Allocations {
    map: RwLock<BTreeMap<u64, usize>>,
    bytes: AtomicU64,
}

/// A range of addresses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl Range {
    /// True if `bytes` from `address` on are in the range.
    pub(crate) fn contains(self, address: u64, bytes: usize) -> bool {
        address >= self.start
            && address.checked_add(bytes as u64).is_some_and(|end| end <= self.end)
    }
}

impl Allocations {
    pub(crate) const fn new() -> Self {
        Self { map: RwLock::new(BTreeMap::new()), bytes: AtomicU64::new(0) }
    }

    /// Returns the bytes of all allocations.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Allocates memory whose bytes are all ones: floats are NaN.
    pub(crate) fn allocate(&self, bytes: usize) -> Option<u64> {
        let layout = Layout::from_size_align(bytes.checked_add(GAP)?, ALIGNMENT).ok()?;
        #[expect(unsafe_code, reason = "memory of the device has no type")]
        // SAFETY: the size is not zero.
        let start = unsafe { alloc(layout) };
        if start.is_null() {
            return None;
        }
        #[expect(unsafe_code, reason = "see above")]
        // SAFETY: the memory was just allocated with this size.
        unsafe {
            start.write_bytes(0xff, bytes);
        }
        self.map
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .insert(start as u64, bytes);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        Some(start as u64)
    }

    /// Frees an allocation. Returns false if there is none.
    pub(crate) fn free(&self, address: u64) -> bool {
        let bytes =
            self.map.write().unwrap_or_else(std::sync::PoisonError::into_inner).remove(&address);
        let Some(bytes) = bytes else { return false };
        self.bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
        let layout =
            Layout::from_size_align(bytes + GAP, ALIGNMENT).expect("the layout of `allocate`");
        #[expect(unsafe_code, reason = "see above")]
        // SAFETY: `allocate` returned this address for this layout, and it was removed just now.
        unsafe {
            dealloc(address as *mut u8, layout);
        }
        true
    }

    /// Returns the allocation that an address is in.
    pub(crate) fn range_of(&self, address: u64) -> Option<Range> {
        let map = self.map.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (&start, &bytes) = map.range(..=address).next_back()?;
        let range = Range { start, end: start + bytes as u64 };
        range.contains(address, 1).then_some(range)
    }
}
