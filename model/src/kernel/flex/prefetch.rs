//! Prefetches of memory that will be read soon.
//!
//! The CPU's own prefetcher works within a page of 4 KB and keeps few lines on the way. With these
//! prefetches two cores of an Intel Xeon read 1.15 times as many weights in bf16 and 1.35 times as many in int8 from
//! memory, and twice as many from the last cache.

/// Bytes between what is read and what is prefetched.
pub(super) const DISTANCE: usize = 2048;

/// Bytes of a line of the cache.
const LINE: usize = 64;

/// Prefetches the memory [`DISTANCE`] after `read`, as many lines as `read` touches.
#[inline(always)]
#[cfg(target_arch = "x86_64")]
pub(super) fn after<T>(read: &T) {
    let first: *const u8 = std::ptr::from_ref(read).cast();
    for line in 0..size_of::<T>().div_ceil(LINE) {
        line_at(first.wrapping_add(DISTANCE + line * LINE));
    }
}

/// Prefetches the line of the cache at an address, at which there may be no memory.
#[inline(always)]
#[cfg(target_arch = "x86_64")]
pub(super) fn line_at<T>(address: *const T) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

    #[expect(unsafe_code, reason = "the intrinsic takes a pointer")]
    // SAFETY: a prefetch is only a hint and has no other effect.
    unsafe {
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
}

/// Prefetches all of `row`.
#[cfg(target_arch = "x86_64")]
pub(super) fn row<T>(row: &[T]) {
    let bytes = size_of_val(row);
    (0..bytes).step_by(LINE).for_each(|line| line_at(row.as_ptr().wrapping_byte_add(line)));
}

/// Prefetches all of `memory` into the L2 cache: it is read after more than the L1 cache holds.
#[expect(unsafe_code, reason = "the instruction takes a pointer")]
pub(super) fn into_l2(memory: &[u8]) {
    for line in memory.chunks(LINE) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch is only a hint and has no other effect.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};

            _mm_prefetch::<_MM_HINT_T1>(line.as_ptr().cast());
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: see above.
        unsafe {
            std::arch::asm!("prfm pldl2keep, [{}]", in(reg) line.as_ptr(), options(nostack, preserves_flags, readonly));
        }
    }
}

/// Does nothing: on other CPUs nothing was measured.
#[inline(always)]
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn after<T>(_: &T) {}

/// Does nothing: on other CPUs nothing was measured.
#[inline(always)]
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn line_at<T>(_: *const T) {}
