//! Int8 by `smmla`, or by `sdot`.
//!
//! 32 neighbours of a row of `x` share a scale, as in the weights. The sum of such a block is an exact
//! integer; it is added to an f32 with both scales.
//!
//! Source: ggml `ggml_vec_dot_q8_0_q8_0`, which rounds both in the same way.

use std::{arch::aarch64::*, ops::Range};

use pulp::bytemuck::{cast_ref, cast_slice};

use super::{PAIRS, SIDE_PAIRS, add_squares};
use crate::kernel::flex::{
    eight::{self, BLOCK, BLOCKS, Q8Rows, ZERO, parts},
    level::{self, CpuLevel},
    neon::{dots_with_lane, memory, squares},
    product::panels::{Arithmetic, ROWS, SIDE, Sums},
};

/// Steps of eight numbers of a block.
const STEPS: usize = BLOCK / 8;

/// Pairs of rows of a group that are multiplied at a time: with the sums of blocks and of rows, all fit
/// in 32 registers.
const HALF: usize = SIDE_PAIRS / 2;

/// The bits of 1.5 times 2^23. Floats near it are 1 apart, like their bits: with these bits at its
/// beginning the sum of a block, which is below 2^22, is a float with one subtraction. Many CPUs convert
/// integers at a quarter of that rate.
const MIDDLE: i32 = 0x4b40_0000;

/// Returns a sum that began with [`MIDDLE`].
#[target_feature(enable = "neon")]
#[inline]
fn number(sum: int32x4_t) -> float32x4_t {
    vsubq_f32(vreinterpretq_f32_s32(sum), vdupq_n_f32(f32::from_bits(MIDDLE as u32)))
}

/// Rows of weights, and the proof that the CPU has `smmla`.
pub(super) struct Squares<'a>(Q8Rows<'a>);

/// Rows of weights, and the proof that the CPU has `sdot`.
pub(super) struct Dots<'a>(Q8Rows<'a>);

impl<'a> Squares<'a> {
    /// Takes the weights if this CPU has the instruction.
    pub(super) fn of(weights: Q8Rows<'a>) -> Option<Self> {
        level::has(CpuLevel::I8mm).then_some(Self(weights))
    }
}

impl<'a> Dots<'a> {
    /// Takes the weights if this CPU has the instruction.
    pub(super) fn of(weights: Q8Rows<'a>) -> Option<Self> {
        level::has(CpuLevel::Dotprod).then_some(Self(weights))
    }
}

/// Rows of `x`: eight numbers of each pair of rows in turn, twice for `smmla`; four numbers of each four
/// rows for `sdot`.
#[derive(Clone)]
#[repr(align(64))]
pub(super) struct Group {
    numbers: [[i8; 16]; SIDE * BLOCK / 16],
    /// For each lane of a sum.
    scales: [[f32; 4]; SIDE_PAIRS],
}

/// Eight numbers of each pair of rows in turn, and the scales, each twice.
#[derive(Clone)]
#[repr(align(64))]
pub(super) struct Panel {
    numbers: [[[i8; 16]; PAIRS]; STEPS],
    scales: [[f32; 4]; PAIRS],
}

const EMPTY: (Group, Panel) = (
    Group { numbers: [[0; 16]; SIDE * BLOCK / 16], scales: [[0.0; 4]; SIDE_PAIRS] },
    Panel { numbers: [[[0; 16]; PAIRS]; STEPS], scales: [[0.0; 4]; PAIRS] },
);

/// Returns the numbers of each block of a group of weights.
#[target_feature(enable = "neon")]
#[inline]
fn blocks(group: &eight::Group) -> [[int8x16_t; 2]; BLOCKS] {
    let words: &[[u8; 64]; 2] = cast_ref(parts(group).0);
    let sign = vdupq_n_u8(ZERO as u8);
    let [first, second] = words.each_ref().map(memory::quarters);
    std::array::from_fn(|block| {
        [first[block], second[block]].map(|bytes| vreinterpretq_s8_u8(veorq_u8(bytes, sign)))
    })
}

/// Converts blocks of a row of the weights to row `to_row` of a panel.
#[target_feature(enable = "neon")]
#[inline]
fn convert(row: &[eight::Group], range: Range<usize>, to_row: usize, to: &mut [Panel]) {
    let groups = &row[range.start / BLOCKS..];
    for (group, to) in groups.iter().zip(to.chunks_mut(BLOCKS)) {
        for ((block, to), scale) in blocks(group).iter().zip(to).zip(parts(group).1) {
            for (half, &numbers) in block.iter().enumerate() {
                let both = [vget_low_s8(numbers), vget_high_s8(numbers)];
                for (step, eight) in both.into_iter().enumerate() {
                    let pair = &mut to.numbers[2 * half + step][to_row / 2];
                    memory::keep_eight_bytes(eight, &mut pair.as_chunks_mut().0[to_row % 2]);
                }
            }
            to.scales[to_row / 2][to_row % 2 * 2..][..2].fill(*scale);
        }
    }
}

/// Rounds rows of `x`, and gives each block's bytes to `keep`, with its row and its scale.
#[target_feature(enable = "neon")]
fn pack(
    x: &[f32],
    width: usize,
    to: &mut [Group],
    keep: impl Fn(&[i8; BLOCK], f32, usize, &mut Group),
) {
    let rounded = eight::rounded_rows(x, width);
    for (row, groups) in rounded.chunks(eight::groups_of(width)).enumerate() {
        for (group, to) in groups.iter().zip(to.chunks_mut(BLOCKS)) {
            for ((block, to), scale) in blocks(group).iter().zip(to).zip(parts(group).1) {
                let mut numbers = [[0; 16]; 2];
                for (to, block) in numbers.iter_mut().zip(block) {
                    memory::keep_bytes(*block, to);
                }
                keep(cast_ref(&numbers), *scale, row, to);
            }
        }
    }
}

fn memory_of<'a>(weights: &Q8Rows<'a>, row: usize, range: Range<usize>) -> &'a [u8] {
    let groups = range.start / BLOCKS..range.end.div_ceil(BLOCKS);
    cast_slice(weights.row(row)[groups].as_flattened())
}

#[expect(unsafe_code, reason = "`Squares` is the proof that the processor has the instruction")]
impl Arithmetic for Squares<'_> {
    type Group = Group;
    type Panel = Panel;
    const CHUNK: usize = 16;

    fn empty() -> (Group, Panel) {
        EMPTY
    }

    fn pack(&self, x: &[f32], width: usize, to: &mut [Group]) {
        let keep = |block: &[i8; BLOCK], scale, row: usize, to: &mut Group| {
            let steps = to.numbers.as_chunks_mut::<SIDE_PAIRS>().0;
            for (numbers, to) in block.as_chunks::<8>().0.iter().zip(steps) {
                to[row / 2].as_chunks_mut().0[row % 2] = *numbers;
            }
            let lanes = &mut to.scales[row / 2];
            [lanes[row % 2], lanes[row % 2 + 2]] = [scale; 2];
        };
        // SAFETY: see above.
        unsafe { pack(x, width, to, keep) }
    }

    fn convert(&self, row: usize, blocks: Range<usize>, to_row: usize, to: &mut [Panel]) {
        // SAFETY: see above.
        unsafe { convert(self.0.row(row), blocks, to_row, to) }
    }

    fn memory(&self, row: usize, blocks: Range<usize>) -> &[u8] {
        memory_of(&self.0, row, blocks)
    }

    fn add(&self, x: &[Group], weights: &[Panel], rows: usize, sums: &mut Sums) {
        for first in (0..rows.div_ceil(2)).step_by(HALF) {
            // SAFETY: see above.
            unsafe { add_by_squares(x, weights, first, sums) }
        }
    }
}

#[expect(unsafe_code, reason = "`Dots` is the proof that the processor has the instruction")]
impl Arithmetic for Dots<'_> {
    type Group = Group;
    type Panel = Panel;
    const CHUNK: usize = 16;

    fn empty() -> (Group, Panel) {
        EMPTY
    }

    fn pack(&self, x: &[f32], width: usize, to: &mut [Group]) {
        let keep = |block: &[i8; BLOCK], scale, row: usize, to: &mut Group| {
            let steps = to.numbers.as_chunks_mut::<{ SIDE / 4 }>().0;
            for (numbers, to) in block.as_chunks::<4>().0.iter().zip(steps) {
                to[row / 4].as_chunks_mut().0[row % 4] = *numbers;
            }
            to.scales[row / 4][row % 4] = scale;
        };
        // SAFETY: see above.
        unsafe { pack(x, width, to, keep) }
    }

    fn convert(&self, row: usize, blocks: Range<usize>, to_row: usize, to: &mut [Panel]) {
        // SAFETY: see above.
        unsafe { convert(self.0.row(row), blocks, to_row, to) }
    }

    fn memory(&self, row: usize, blocks: Range<usize>) -> &[u8] {
        memory_of(&self.0, row, blocks)
    }

    fn add(&self, x: &[Group], weights: &[Panel], rows: usize, sums: &mut Sums) {
        for first in (0..rows.div_ceil(4)).step_by(HALF / 2) {
            // SAFETY: see above.
            unsafe { add_by_dots(x, weights, first, sums) }
        }
    }
}

/// Adds the products with eight rows of `x`, from pair `first` on.
#[target_feature(enable = "neon,i8mm")]
fn add_by_squares(x: &[Group], weights: &[Panel], first: usize, to: &mut Sums) {
    let mut sums = [[vdupq_n_f32(0.0); HALF]; PAIRS];
    for (x, weights) in x.iter().zip(weights) {
        let mut whole = [[vdupq_n_s32(MIDDLE); HALF]; PAIRS];
        let steps = x.numbers.as_chunks::<SIDE_PAIRS>().0;
        for (x, weights) in steps.iter().zip(&weights.numbers) {
            let x = &x[first..][..HALF];
            for pair in 0..PAIRS {
                let weights = memory::bytes(&weights[pair]);
                for of_x in 0..HALF {
                    let sum = &mut whole[pair][of_x];
                    *sum = squares(*sum, weights, memory::bytes(&x[of_x]));
                }
            }
        }
        for pair in 0..PAIRS {
            let weight = memory::floats(&weights.scales[pair]);
            for of_x in 0..HALF {
                let scale = vmulq_f32(weight, memory::floats(&x.scales[first + of_x]));
                let sum = &mut sums[pair][of_x];
                *sum = vfmaq_f32(*sum, number(whole[pair][of_x]), scale);
            }
        }
    }
    add_squares(&sums, first, to);
}

/// Adds the products with eight rows of `x`, from four rows `first` on.
#[target_feature(enable = "dotprod")]
fn add_by_dots(x: &[Group], weights: &[Panel], first: usize, to: &mut Sums) {
    let mut sums = [[vdupq_n_f32(0.0); HALF / 2]; ROWS];
    for (x, weights) in x.iter().zip(weights) {
        let mut whole = [[vdupq_n_s32(MIDDLE); HALF / 2]; ROWS];
        let steps = x.numbers.as_chunks::<{ SIDE / 4 }>().0.as_chunks::<2>().0;
        for ([low, high], weights) in steps.iter().zip(&weights.numbers) {
            let [low, high] = [low, high].map(|x| &x[first..][..HALF / 2]);
            for pair in 0..PAIRS {
                let weights = memory::bytes(&weights[pair]);
                for of_x in 0..HALF / 2 {
                    let [low, high] = [low, high].map(|x| memory::bytes(&x[of_x]));
                    let sum = whole[2 * pair][of_x];
                    let sum = dots_with_lane::<0>(sum, low, weights);
                    whole[2 * pair][of_x] = dots_with_lane::<1>(sum, high, weights);
                    let sum = whole[2 * pair + 1][of_x];
                    let sum = dots_with_lane::<2>(sum, low, weights);
                    whole[2 * pair + 1][of_x] = dots_with_lane::<3>(sum, high, weights);
                }
            }
        }
        for row in 0..ROWS {
            let weight = vdupq_n_f32(weights.scales[row / 2][row % 2 * 2]);
            for of_x in 0..HALF / 2 {
                let scale = vmulq_f32(weight, memory::floats(&x.scales[first + of_x]));
                let sum = &mut sums[row][of_x];
                *sum = vfmaq_f32(*sum, number(whole[row][of_x]), scale);
            }
        }
    }
    for (to, sums) in to.iter_mut().zip(sums) {
        for (to, sum) in to.as_chunks_mut().0[first..].iter_mut().zip(sums) {
            memory::keep_floats(vaddq_f32(memory::floats(to), sum), to);
        }
    }
}
