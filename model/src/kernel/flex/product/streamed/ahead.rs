//! Requests for weights that will be read soon.
//!
//! The CPU's own prefetcher works within a page of 4 KB and keeps few lines on the way. With these
//! requests two cores of an Intel Xeon read 1.15 times as much bf16 and 1.35 times as much int8 from
//! memory, and twice as much from the last cache.

/// Bytes between what is read and what is requested.
#[cfg(target_arch = "x86_64")]
const DISTANCE: usize = 2048;

/// Bytes of a line of the cache.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;

/// Requests the memory [`DISTANCE`] after `read`, as many lines as `read` touches.
#[inline(always)]
#[cfg(target_arch = "x86_64")]
pub(super) fn request<T>(read: &T) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

    let first: *const i8 = std::ptr::from_ref(read).cast();
    for line in 0..size_of::<T>().div_ceil(LINE) {
        // Beyond the last weight there may be no memory, which does not matter to a request.
        let line = first.wrapping_add(DISTANCE + line * LINE);
        #[expect(unsafe_code, reason = "the intrinsic takes a pointer")]
        // SAFETY: a prefetch is only a hint and has no other effect.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(line);
        }
    }
}

/// Does nothing: on other CPUs nothing was measured.
#[inline(always)]
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn request<T>(_: &T) {}
