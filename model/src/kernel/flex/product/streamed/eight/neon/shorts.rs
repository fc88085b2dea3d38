//! `x` in int16, multiplied by `smlal`, which every 64-bit ARM CPU has.
//!
//! ```text
//! bytes of four words   b0 b1 b2 b3  b0 b1 b2 b3  b0 b1 b2 b3  b0 b1 b2 b3
//! widened to int16      b0 b1 b2 b3  b0 b1 b2 b3                           of words 0 and 1
//!                       the same of words 2 and 3
//! sums                  b0 b1 b2 b3                                        as int32
//! ```
//!
//! A byte is its weight and 128 more. The sums begin with minus the contribution of the 128.

use std::{arch::aarch64::*, array};

use pulp::bytemuck::{cast, cast_ref};

use super::{FIRST, Lines, Numbers, Packed, SCALES, VECTORS, numbers, of_blocks};
use crate::kernel::flex::{
    eight::{BLOCK, BLOCKS, GROUP, Group, parts},
    neon::memory,
};

/// The largest number of a block, in steps of its scale.
pub(super) const MOST: f32 = 32767.0;

/// Packs the numbers of a group in the order of the words.
#[inline(always)]
pub(super) fn packed(x: &[[i16; BLOCK]; BLOCKS]) -> Numbers<[i16; 8]> {
    let mut numbers = [0; GROUP];
    for (block, x) in x.iter().enumerate() {
        for (i, &number) in x.iter().enumerate() {
            numbers[i * BLOCKS + block] = number;
        }
    }
    cast(numbers)
}

/// Multiplies `O` rows of the weights with `R` rows of rounded `x`.
#[target_feature(enable = "neon")]
pub(super) fn tile<const O: usize, const R: usize>(
    weights: &[Group],
    x: &[f32],
    Lines { words, width, rows }: Lines,
    sums: &mut [f32],
) {
    let inputs: [&[[f32; GROUP]]; R] =
        array::from_fn(|row| x[row * width..][..width].as_chunks().0);
    for o in 0..O {
        let mut all = [vdupq_n_f32(0.0); R];
        for (index, group) in weights[o * words..][..words].iter().enumerate() {
            let (words, scales) = parts(group);
            let inputs: [&Packed; R] = array::from_fn(|r| &inputs[r][index]);
            // Two sums of each block, because the instruction waits for its own.
            let mut sums: [_; R] =
                array::from_fn(|r| [memory::whole(of_blocks(inputs[r], FIRST)), vdupq_n_s32(0)]);
            for (vector, bytes) in cast_ref::<_, [[i8; 16]; VECTORS]>(words).iter().enumerate() {
                let bytes = vreinterpretq_u8_s8(memory::bytes(bytes));
                let halves = [vmovl_u8(vget_low_u8(bytes)), vmovl_high_u8(bytes)];
                for (half, weights) in halves.into_iter().enumerate() {
                    let weights = vreinterpretq_s16_u16(weights);
                    for r in 0..R {
                        let x = memory::shorts(&numbers(inputs[r])[vector][half]);
                        let [first, second] = &mut sums[r];
                        *first = vmlal_s16(*first, vget_low_s16(weights), vget_low_s16(x));
                        *second = vmlal_high_s16(*second, weights, x);
                    }
                }
            }
            let scales = memory::floats(scales);
            for r in 0..R {
                let scales = vmulq_f32(scales, memory::floats(of_blocks(inputs[r], SCALES)));
                let sum = vcvtq_f32_s32(vaddq_s32(sums[r][0], sums[r][1]));
                all[r] = vfmaq_f32(all[r], sum, scales);
            }
        }
        for r in 0..R {
            sums[o * rows + r] = vaddvq_f32(all[r]);
        }
    }
}
