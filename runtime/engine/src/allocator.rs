//! Memory that the C library's allocator keeps.
//!
//! By default glibc gives the memory of a freed tensor back to the system, which clears every page before the next
//! tensor gets it. On two cores of a Zen 5 that takes a tenth of a step of the transformer of 240 s, and a sixth of the time
//! of the VAE.

/// Keeps freed memory for the next tensors, up to 2 GiB, with glibc. Other allocators keep their rules.
pub fn keep_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "functions of the C library")]
    // SAFETY: both are safe to call at any time, and change only what the allocator keeps.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 30);
        libc::mallopt(libc::M_TRIM_THRESHOLD, i32::MAX);
    }
}

/// Gives freed memory back to the system, with glibc: for a process that waits.
pub fn return_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "a function of the C library")]
    // SAFETY: it is safe to call at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}
