//! Loads and stores, for which the compiler's intrinsics use pointers.
#![expect(unsafe_code, reason = "arrays whose lengths the types say")]

use std::{arch::x86_64::*, mem::transmute};

use super::{super::transpose::LANES, COLUMNS, pack::Vector};

#[target_feature(enable = "avx512f")]
#[inline]
pub(in crate::kernel::flex) fn vector(from: &[f32; LANES]) -> __m512 {
    // SAFETY: the array has as many bytes as are read.
    unsafe { _mm512_loadu_ps(from.as_ptr()) }
}

#[target_feature(enable = "avx512f")]
#[inline]
pub(in crate::kernel::flex) fn floats(vector: __m512) -> [f32; LANES] {
    // SAFETY: both types are 64 bytes, and any bit pattern is valid.
    unsafe { transmute::<__m512, [f32; LANES]>(vector) }
}

#[target_feature(enable = "avx512f")]
#[inline]
pub(in crate::kernel::flex) fn shorts(from: &[u16; 2 * LANES]) -> __m512i {
    // SAFETY: the array has as many bytes as are read.
    unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
}

#[target_feature(enable = "avx512f")]
#[inline]
pub(in crate::kernel::flex) fn words(from: &[u32; LANES]) -> __m512i {
    // SAFETY: the array has as many bytes as are read.
    unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
}

#[target_feature(enable = "avx512f")]
#[inline]
pub(in crate::kernel::flex) fn load(from: &Vector) -> __m512i {
    // SAFETY: the array has as many bytes as are read.
    unsafe { _mm512_loadu_si512(from.0.as_ptr().cast()) }
}

#[target_feature(enable = "avx512f")]
#[inline]
pub(in crate::kernel::flex) fn kept(vector: __m512i) -> Vector {
    // SAFETY: both types are 64 bytes, and any bit pattern is valid.
    Vector(unsafe { transmute::<__m512i, [u32; LANES]>(vector) })
}

#[target_feature(enable = "avx512f")]
#[inline]
pub(in crate::kernel::flex) fn halves(vector: __m512i) -> [[f32; COLUMNS]; 2] {
    // SAFETY: both types are 64 bytes, and any bit pattern is valid.
    unsafe { transmute::<__m512i, [[f32; COLUMNS]; 2]>(vector) }
}

#[target_feature(enable = "avx512f,avx512bf16")]
#[inline]
pub(in crate::kernel::flex) fn short(numbers: __m256bh) -> [u16; LANES] {
    // SAFETY: both types are 32 bytes, and any bit pattern is valid.
    unsafe { transmute::<__m256bh, [u16; LANES]>(numbers) }
}

#[target_feature(enable = "avx512f,avx512bf16")]
#[inline]
pub(in crate::kernel::flex) fn numbers(bits: __m512i) -> __m512bh {
    // SAFETY: both types are 64 bytes, and any bit pattern is valid.
    unsafe { transmute::<__m512i, __m512bh>(bits) }
}

#[target_feature(enable = "avx512f,avx512bf16")]
#[inline]
pub(in crate::kernel::flex) fn bits(numbers: __m512bh) -> __m512i {
    // SAFETY: both types are 64 bytes, and any bit pattern is valid.
    unsafe { transmute::<__m512bh, __m512i>(numbers) }
}
