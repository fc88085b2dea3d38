//! Int8 rows on 64-bit ARM CPUs: `x` as integers, and both multiplied as integers.
//!
//! In f32, four bytes take a shift, a mask, an OR, a subtraction and a multiplication before they can
//! be used. As integers, one instruction makes 8 int16 of 8 bytes ([`shorts`]); or it puts 16 bytes into
//! the order for the dot product of four bytes, if the CPU has that ([`digits`]).
//!
//! 32 neighbours of a row of `x` share a scale. The sum of such a block is an exact integer. Each of the
//! four lanes has the sums of one block, so both scales meet them once for 128 weights.
//!
//! `x` in int8 would halve the multiplications of [`digits`], and add an error as large as the one of the
//! weights. So `x` has 16 bits in both: an error at least 256 times as small.

mod digits;
mod shorts;

use pulp::bytemuck::{Pod, cast, cast_ref};

use super::{Lines, rounded::rounded};
use crate::kernel::flex::{
    eight::{BLOCK, BLOCKS, GROUP, Group, ZERO},
    level::{self, CpuLevel},
};

/// Vectors of bytes of a group. Each has four numbers of each block.
const VECTORS: usize = GROUP / 16;

/// Numbers of a group of `x`, as many for each vector of bytes: int16, or two digits.
type Numbers<T> = [[T; 2]; VECTORS];

/// A packed group of `x`: its numbers, then the sums' first values and the scales of the blocks.
type Packed = [f32; GROUP];

/// Places of first values and scales.
const FIRST: usize = GROUP / 2;
const SCALES: usize = FIRST + BLOCKS;

/// Rounds a group of `x`, see [`Packed`].
#[inline(always)]
pub(super) fn pack(_: usize, x: &[f32; GROUP], to: &mut Packed) {
    let has_digits = has_digits();
    let rounded = rounded(x, if has_digits { digits::MOST } else { shorts::MOST });
    let (words, rest) = to.split_at_mut(FIRST);
    words.copy_from_slice(&match has_digits {
        true => cast::<_, [f32; FIRST]>(digits::packed(&rounded.numbers)),
        false => cast(shorts::packed(&rounded.numbers)),
    });
    for (to, block) in rest.iter_mut().zip(&rounded.numbers) {
        *to = f32::from_bits(first(block));
    }
    rest[BLOCKS..][..BLOCKS].copy_from_slice(&rounded.scales);
}

/// Returns minus the contribution of the 128 by which a byte exceeds its weight.
#[inline(always)]
fn first(block: &[i16; BLOCK]) -> u32 {
    let mut sum = 0;
    for &number in block {
        sum -= i32::from(number);
    }
    (sum * ZERO as i32) as u32
}

/// Returns the numbers of a packed group.
#[inline(always)]
fn numbers<T: Pod>(x: &Packed) -> &Numbers<T> {
    cast_ref(x.first_chunk::<FIRST>().expect("a packed group"))
}

/// Returns what belongs to the blocks, from place `start` on.
#[inline(always)]
fn of_blocks<T: Pod>(x: &Packed, start: usize) -> &[T; BLOCKS] {
    cast_ref(x[start..].first_chunk::<BLOCKS>().expect("a packed group"))
}

/// True if the level in use has dot products of bytes.
#[inline(always)]
fn has_digits() -> bool {
    level::has(CpuLevel::Dotprod)
}

/// Multiplies `O` rows of the weights with `R` rows of rounded `x`: see [`super::Weight::tile`].
#[expect(unsafe_code, reason = "the level is the proof that the processor has the instructions")]
#[inline(always)]
pub(super) fn tile<const O: usize, const R: usize>(
    weights: &[Group],
    x: &[f32],
    lines: Lines,
    sums: &mut [f32],
) {
    // SAFETY: see above.
    unsafe {
        match has_digits() {
            true => digits::tile::<O, R>(weights, x, lines, sums),
            false => shorts::tile::<O, R>(weights, x, lines, sums),
        }
    }
}
