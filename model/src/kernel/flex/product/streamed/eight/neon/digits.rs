//! `x` as two digits of 8 bits, multiplied by `sdot`, which adds the products of four bytes to a lane.
//!
//! ```text
//! bytes of four words   b0 b1 b2 b3  b0 b1 b2 b3  b0 b1 b2 b3  b0 b1 b2 b3
//! by one permutation    b0 b0 b0 b0  b1 b1 b1 b1  b2 b2 b2 b2  b3 b3 b3 b3
//! sums                  b0           b1           b2           b3          as int32
//! ```
//!
//! A number of `x` is 256 times its high digit and its low digit, both from -128 to 127. So the largest
//! of a block is 32639 times its scale. The sums of both digits are apart until the end of a group. The
//! result equals a product of 16 bits.

use std::{arch::aarch64::*, array};

use pulp::bytemuck::cast_ref;

use super::{Lines, Numbers, Packed, SCALES, VECTORS, numbers, of_blocks};
use crate::kernel::flex::{
    eight::{BLOCK, BLOCKS, GROUP, Group, ZERO, parts},
    neon::{dots, memory},
};

/// The largest number of a block, in steps of its scale: 127 is the largest digit.
pub(super) const MOST: f32 = 32639.0;

/// The byte of four words that comes to each place.
const ORDER: [i8; 16] = [0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15];

/// Packs the high and the low digits of a group, as [`ORDER`] puts the weights.
#[inline(always)]
pub(super) fn packed(x: &[[i16; BLOCK]; BLOCKS]) -> Numbers<[i8; 16]> {
    let mut numbers = [[[0; 16]; 2]; VECTORS];
    for (block, x) in x.iter().enumerate() {
        for (i, &number) in x.iter().enumerate() {
            let low = number as i8;
            let high = ((i32::from(number) - i32::from(low)) >> 8) as i8;
            let place = block * 4 + i % 4;
            numbers[i / 4][0][place] = high;
            numbers[i / 4][1][place] = low;
        }
    }
    numbers
}

/// Multiplies `O` rows of the weights with `R` rows of rounded `x`.
#[target_feature(enable = "dotprod")]
pub(super) fn tile<const O: usize, const R: usize>(
    weights: &[Group],
    x: &[f32],
    Lines { words, width, rows }: Lines,
    sums: &mut [f32],
) {
    let inputs: [&[[f32; GROUP]]; R] =
        array::from_fn(|row| x[row * width..][..width].as_chunks().0);
    let order = vreinterpretq_u8_s8(memory::bytes(&ORDER));
    let sign = vdupq_n_s8(ZERO as i8);
    for o in 0..O {
        let mut all = [vdupq_n_f32(0.0); R];
        for (index, group) in weights[o * words..][..words].iter().enumerate() {
            let (words, scales) = parts(group);
            let inputs: [&Packed; R] = array::from_fn(|r| &inputs[r][index]);
            let mut sums = [[vdupq_n_s32(0); 2]; R];
            for (vector, words) in cast_ref::<_, [[i8; 16]; VECTORS]>(words).iter().enumerate() {
                let weights = veorq_s8(vqtbl1q_s8(memory::bytes(words), order), sign);
                for r in 0..R {
                    let digits = &numbers(inputs[r])[vector];
                    for (sum, x) in sums[r].iter_mut().zip(digits) {
                        *sum = dots(*sum, weights, memory::bytes(x));
                    }
                }
            }
            let scales = memory::floats(scales);
            for r in 0..R {
                let scales = vmulq_f32(scales, memory::floats(of_blocks(inputs[r], SCALES)));
                let [high, low] = sums[r];
                let sum = vcvtq_f32_s32(vaddq_s32(vshlq_n_s32::<8>(high), low));
                all[r] = vfmaq_f32(all[r], sum, scales);
            }
        }
        for r in 0..R {
            sums[o * rows + r] = vaddvq_f32(all[r]);
        }
    }
}
