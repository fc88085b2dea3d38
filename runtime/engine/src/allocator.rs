//! Memory that the C library's allocator keeps.

use std::sync::Mutex;

/// Number of [`KeepFreed`] that exist.
static KEEPERS: Mutex<usize> = Mutex::new(0);

/// While it exists, glibc keeps freed memory for the next tensors, up to 2 GiB. Other allocators keep their rules.
///
/// By default glibc gives the memory of a large tensor back to the system, which clears every page before the next tensor gets
/// it. On two cores of a Zen 5 that takes a tenth of a step of the transformer of 240 s, and a sixth of the VAE's
/// time. A network with a cache of keys and values should not run meanwhile: zeros in kept memory are written,
/// zeros from the system are not.
#[derive(Debug)]
pub struct KeepFreed(());

impl KeepFreed {
    /// Keeps freed memory until this value is dropped.
    #[expect(clippy::new_without_default, reason = "it has an effect")]
    pub fn new() -> Self {
        let mut keepers = KEEPERS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if *keepers == 0 {
            set(1 << 30, i32::MAX);
        }
        *keepers += 1;
        Self(())
    }
}

impl Drop for KeepFreed {
    fn drop(&mut self) {
        let mut keepers = KEEPERS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        *keepers -= 1;
        if *keepers == 0 {
            // glibc's own limits once large memory was freed.
            set(1 << 25, 1 << 26);
            return_freed_memory();
        }
    }
}

/// Sets the size from which memory comes from the system and the size of free memory that is returned, in bytes.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "a function of the C library")]
fn set(mapped: i32, returned: i32) {
    // SAFETY: it is safe to call at any time, and changes only what the allocator keeps.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, mapped);
        libc::mallopt(libc::M_TRIM_THRESHOLD, returned);
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn set(_: i32, _: i32) {}

/// Gives freed memory back to the system, with glibc.
pub fn return_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "a function of the C library")]
    // SAFETY: it is safe to call at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}
