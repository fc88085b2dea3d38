//! bf16 by `bfmmla`, which adds the products of four neighbours to an f32.
//!
//! The instruction rounds more often than a chain of FMA, and flushes denormal numbers to zero. Both
//! effects are far below the rounding of `x`.

use std::{arch::aarch64::*, ops::Range};

use pulp::bytemuck::cast_slice;

use super::{PAIRS, SIDE_PAIRS, add_squares};
use crate::kernel::flex::{
    eight::BLOCK,
    level::{self, CpuLevel},
    neon::{memory, narrow, narrow_squares},
    product::panels::{Arithmetic, Sums},
};

/// Steps of four numbers of a block.
const STEPS: usize = BLOCK / 4;

/// Rows of weights of one width, as bits, and the proof that the CPU has the instruction.
pub(super) struct Halves<'a> {
    weights: &'a [u16],
    width: usize,
}

impl<'a> Halves<'a> {
    /// Takes the weights if this CPU has the instruction.
    pub(super) fn of(weights: &'a [u16], width: usize) -> Option<Self> {
        level::has(CpuLevel::Bf16).then_some(Self { weights, width })
    }

    /// Returns blocks of a row; the last may be shorter.
    fn row(&self, row: usize, blocks: Range<usize>) -> &'a [u16] {
        let end = (blocks.end * BLOCK).min(self.width);
        &self.weights[row * self.width..][blocks.start * BLOCK..end]
    }
}

/// Four numbers of each pair of rows in turn.
#[derive(Clone)]
#[repr(align(64))]
pub(super) struct Group([[[u16; 8]; SIDE_PAIRS]; STEPS]);

/// Four numbers of each pair of rows in turn.
#[derive(Clone)]
#[repr(align(64))]
pub(super) struct Panel([[[u16; 8]; PAIRS]; STEPS]);

#[expect(unsafe_code, reason = "`Halves` is the proof that the processor has the instructions")]
impl Arithmetic for Halves<'_> {
    type Group = Group;
    type Panel = Panel;
    const CHUNK: usize = 16;

    fn empty() -> (Group, Panel) {
        (Group([[[0; 8]; SIDE_PAIRS]; STEPS]), Panel([[[0; 8]; PAIRS]; STEPS]))
    }

    fn pack(&self, x: &[f32], width: usize, to: &mut [Group]) {
        for (row, x) in x.chunks(width).enumerate() {
            // SAFETY: see above.
            unsafe { pack(x, row, to) }
        }
    }

    fn convert(&self, row: usize, blocks: Range<usize>, to_row: usize, to: &mut [Panel]) {
        let (whole, rest) = self.row(row, blocks).as_chunks();
        let mut padded = [0; BLOCK];
        padded[..rest.len()].copy_from_slice(rest);
        for (from, Panel(to)) in whole.iter().chain([&padded]).zip(to) {
            for (four, to) in from.as_chunks::<4>().0.iter().zip(to) {
                to[to_row / 2].as_chunks_mut().0[to_row % 2] = *four;
            }
        }
    }

    fn memory(&self, row: usize, blocks: Range<usize>) -> &[u8] {
        cast_slice(self.row(row, blocks))
    }

    fn add(&self, x: &[Group], weights: &[Panel], rows: usize, sums: &mut Sums) {
        // SAFETY: see above.
        unsafe {
            match rows.div_ceil(2) {
                ..=4 => add::<4>(x, weights, sums),
                _ => add::<SIDE_PAIRS>(x, weights, sums),
            }
        }
    }
}

/// Rounds a row of `x` into a row of a group.
#[target_feature(enable = "neon,bf16")]
fn pack(x: &[f32], row: usize, to: &mut [Group]) {
    for (x, Group(to)) in x.chunks(BLOCK).zip(to) {
        let mut full = [0.0; BLOCK];
        match x.first_chunk() {
            Some(x) => full = *x,
            None => full[..x.len()].copy_from_slice(x),
        }
        for (four, to) in full.as_chunks::<4>().0.iter().zip(to) {
            let to = &mut to[row / 2].as_chunks_mut().0[row % 2];
            memory::keep_four_bits(narrow(memory::floats(four)), to);
        }
    }
}

#[target_feature(enable = "neon,bf16")]
fn add<const P: usize>(x: &[Group], weights: &[Panel], to: &mut Sums) {
    let mut sums = [[vdupq_n_f32(0.0); P]; PAIRS];
    for (Group(x), Panel(weights)) in x.iter().zip(weights) {
        for (x, weights) in x.iter().zip(weights) {
            let weights: [_; PAIRS] = std::array::from_fn(|pair| memory::bits(&weights[pair]));
            for of_x in 0..P {
                let x = memory::bits(&x[of_x]);
                for pair in 0..PAIRS {
                    let sum = &mut sums[pair][of_x];
                    *sum = narrow_squares(*sum, weights[pair], x);
                }
            }
        }
    }
    add_squares(&sums, 0, to);
}
