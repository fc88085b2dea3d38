//! Panels of int8 and bf16 for the matrix instructions of 64-bit ARM CPUs, or for dot products of bytes.
//!
//! ```text
//! smmla, bfmmla   two rows of weights, eight bytes each       \
//!                 two rows of `x`, eight bytes each            -> their four sums
//! sdot            four bytes of one row of weights            \
//!                 four bytes of four rows of `x`               -> their four sums
//! ```
//!
//! `x` is rounded to the weights' type. Without these instructions a product of narrow numbers is no
//! faster than one of f32.
//!
//! Source: Arm, "Arm Architecture Reference Manual for A-profile architecture", SDOT, SMMLA, BFMMLA.

mod bytes;
mod halves;

use std::arch::aarch64::*;

use burn_flex::FlexTensor;

use super::{ROWS, SIDE, Sums, product};
use crate::kernel::flex::{eight::Q8Rows, neon::memory};

/// Pairs of rows of a panel.
const PAIRS: usize = ROWS / 2;

/// Pairs of rows of a group.
const SIDE_PAIRS: usize = SIDE / 2;

/// Computes `x W^T` with int8 weights, if this CPU has dot products of bytes.
///
/// # Shapes
/// - `x`: `[rows, width]`, `weights`: `[out, width]`, output: `[rows, out]`
pub(in super::super) fn of_q8(x: &[f32], weights: Q8Rows, sizes: [usize; 3]) -> Option<FlexTensor> {
    if let Some(bytes) = bytes::Squares::of(weights) {
        return Some(product(&bytes, x, sizes));
    }
    bytes::Dots::of(weights).map(|bytes| product(&bytes, x, sizes))
}

/// Computes `x W^T` with the bits of bf16 weights, if this CPU has matrix products of them.
///
/// # Shapes
/// - `x`: `[rows, width]`, `weights`: `[out, width]`, output: `[rows, out]`
pub(in super::super) fn of_bf16(
    x: &[f32],
    weights: &[u16],
    sizes: [usize; 3],
) -> Option<FlexTensor> {
    halves::Halves::of(weights, sizes[1]).map(|halves| product(&halves, x, sizes))
}

/// Adds sums of two rows of weights with `P` pairs of rows of `x`, from pair `first` on.
#[target_feature(enable = "neon")]
#[inline]
fn add_squares<const P: usize>(sums: &[[float32x4_t; P]; PAIRS], first: usize, to: &mut Sums) {
    for (sums, to) in sums.iter().zip(to.as_chunks_mut::<2>().0) {
        for (two, sums) in sums.as_chunks::<2>().0.iter().enumerate() {
            let [a, b] = two_rows(*sums);
            for (to, sum) in to.iter_mut().zip([a, b]) {
                let to = &mut to.as_chunks_mut().0[first / 2 + two];
                memory::keep_floats(vaddq_f32(memory::floats(to), sum), to);
            }
        }
    }
}

/// Puts the first rows of two squares side by side, and the second ones.
#[target_feature(enable = "neon")]
#[inline]
fn two_rows([a, b]: [float32x4_t; 2]) -> [float32x4_t; 2] {
    let [a, b] = [vreinterpretq_f64_f32(a), vreinterpretq_f64_f32(b)];
    let [first, second] = [vzip1q_f64(a, b), vzip2q_f64(a, b)];
    [vreinterpretq_f32_f64(first), vreinterpretq_f32_f64(second)]
}
