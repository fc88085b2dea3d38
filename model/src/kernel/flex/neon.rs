//! Instructions of 64-bit ARM CPUs for which stable Rust has no functions, as assembly.
//!
//! Source: Arm, "Arm Architecture Reference Manual for A-profile architecture", A64 Advanced SIMD.

use std::arch::{aarch64::*, asm};

/// An instruction that adds products of two vectors to a third one.
macro_rules! product {
    ($(#[$doc:meta])* $name:ident($numbers:ty) -> $sum:ty, $feature:literal, $text:literal) => {
        $(#[$doc])*
        #[target_feature(enable = $feature)]
        #[inline]
        #[expect(unsafe_code, reason = "an instruction that Rust has no function for")]
        pub(super) fn $name(mut sum: $sum, a: $numbers, b: $numbers) -> $sum {
            // SAFETY: the instruction reads and writes these registers only.
            unsafe {
                asm!(
                    $text,
                    inout(vreg) sum, in(vreg) a, in(vreg) b,
                    options(pure, nomem, nostack, preserves_flags),
                );
            }
            sum
        }
    };
}

product!(
    /// Adds the products of four neighbouring bytes to each lane.
    dots(int8x16_t) -> int32x4_t, "dotprod", "sdot {0:v}.4s, {1:v}.16b, {2:v}.16b"
);

product!(
    /// Adds `a b^T`, where both are two rows of eight bytes; row 0 of the sum comes first.
    squares(int8x16_t) -> int32x4_t, "neon,i8mm", "smmla {0:v}.4s, {1:v}.16b, {2:v}.16b"
);

product!(
    /// Adds `a b^T`, where both are two rows of four bf16; row 0 of the sum comes first.
    narrow_squares(uint16x8_t) -> float32x4_t, "neon,bf16", "bfmmla {0:v}.4s, {1:v}.8h, {2:v}.8h"
);

/// Adds the products of four neighbouring bytes of `a` with those of lane `LANE` of `b`.
#[target_feature(enable = "dotprod")]
#[inline]
#[expect(unsafe_code, reason = "an instruction that Rust has no function for")]
pub(super) fn dots_with_lane<const LANE: i32>(
    mut sum: int32x4_t,
    a: int8x16_t,
    b: int8x16_t,
) -> int32x4_t {
    // SAFETY: the instruction reads and writes these registers only.
    unsafe {
        asm!(
            "sdot {0:v}.4s, {1:v}.16b, {2:v}.4b[{lane}]",
            inout(vreg) sum, in(vreg) a, in(vreg) b, lane = const LANE,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sum
}

/// Rounds four numbers to bf16, ties to even.
#[target_feature(enable = "neon,bf16")]
#[inline]
#[expect(unsafe_code, reason = "an instruction that Rust has no function for")]
pub(super) fn narrow(numbers: float32x4_t) -> uint16x4_t {
    let narrow;
    // SAFETY: the instruction reads and writes these registers only.
    unsafe {
        asm!(
            "bfcvtn {0:v}.4h, {1:v}.4s",
            lateout(vreg) narrow, in(vreg) numbers,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    narrow
}

pub(super) mod memory {
    //! Loads and stores, for which the compiler's intrinsics use pointers.
    #![expect(unsafe_code, reason = "pointers into memory whose length the types say")]

    use std::arch::aarch64::*;

    /// A function that loads a vector from its memory.
    macro_rules! load {
        ($name:ident, $memory:ty, $vector:ty, $from:ident) => {
            #[inline(always)]
            pub(in super::super) fn $name(from: &$memory) -> $vector {
                // SAFETY: the array has as many bytes as are read.
                unsafe { $from(from.as_ptr()) }
            }
        };
    }
    load!(bytes, [i8; 16], int8x16_t, vld1q_s8);
    load!(shorts, [i16; 8], int16x8_t, vld1q_s16);
    load!(bits, [u16; 8], uint16x8_t, vld1q_u16);
    load!(whole, [i32; 4], int32x4_t, vld1q_s32);
    load!(floats, [f32; 4], float32x4_t, vld1q_f32);

    /// A function that writes a vector to its memory.
    macro_rules! keep {
        ($name:ident, $memory:ty, $vector:ty, $to:ident) => {
            #[inline(always)]
            pub(in super::super) fn $name(vector: $vector, to: &mut $memory) {
                // SAFETY: the array has as many bytes as are written.
                unsafe { $to(to.as_mut_ptr(), vector) }
            }
        };
    }
    keep!(keep_bytes, [i8; 16], int8x16_t, vst1q_s8);
    keep!(keep_eight_bytes, [i8; 8], int8x8_t, vst1_s8);
    keep!(keep_four_bits, [u16; 4], uint16x4_t, vst1_u16);
    keep!(keep_floats, [f32; 4], float32x4_t, vst1q_f32);

    /// Loads 64 bytes, and puts every fourth of them into one vector.
    #[inline(always)]
    pub(in super::super) fn quarters(from: &[u8; 64]) -> [uint8x16_t; 4] {
        // SAFETY: the array has as many bytes as are read.
        let uint8x16x4_t(a, b, c, d) = unsafe { vld4q_u8(from.as_ptr()) };
        [a, b, c, d]
    }
}
