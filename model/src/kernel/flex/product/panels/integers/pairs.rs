//! Words of two int16, for level `avx2`: `vpmaddwd` and an addition.
//!
//! `vpmaddubsw` would take bytes, but two products of weights with the unsigned rest do not fit its
//! int16. A word holds numbers `i` and `i + 16` of a block.
//!
//! Source: Intel, "Intrinsics Guide", AVX2.

use std::arch::x86_64::*;

use super::{Group, Panel, ROWS, Sums, floats, keep, load};
use crate::kernel::flex::{
    eight::{self, BLOCK, BLOCKS, WHOLE, ZERO},
    level::{self, CpuLevel},
};

/// Words of a block.
const WORDS: usize = BLOCK / 2;

/// Proof that the CPU has the instructions.
#[derive(Clone, Copy)]
pub(in super::super::super) struct Pairs(());

impl Pairs {
    /// Returns the proof if this CPU has the instructions.
    pub(in super::super::super) fn new() -> Option<Self> {
        level::has(CpuLevel::Avx2).then_some(Self(()))
    }
}

impl super::Words<WORDS> for Pairs {
    #[inline(always)]
    fn of_weights(group: &eight::Group) -> [[i32; WORDS]; BLOCKS] {
        let (words, _) = eight::parts(group);
        let mut pairs = [[0; WORDS]; BLOCKS];
        for (block, pairs) in pairs.iter_mut().enumerate() {
            for i in 0..WORDS {
                let [low, high] = [words[i], words[i + WORDS]];
                let low = (low >> (8 * block) & 0xff).wrapping_sub(ZERO) & 0xffff;
                let high = (high >> (8 * block) & 0xff).wrapping_sub(ZERO) << 16;
                pairs[i] = (low | high) as i32;
            }
        }
        pairs
    }

    #[inline(always)]
    fn of_x(group: &eight::Group) -> [[i32; WORDS]; BLOCKS] {
        Self::of_weights(group)
    }

    #[inline(always)]
    fn start(_: &[i32; WORDS]) -> i32 {
        0
    }

    #[expect(unsafe_code, reason = "`Self` is the proof that the processor has the instructions")]
    fn add<const V: usize>(self, x: &[Group<WORDS>], weights: &[Panel<WORDS>], sums: &mut Sums) {
        // SAFETY: see above.
        unsafe { add::<V>(x, weights, sums) }
    }
}

super::tile!("avx2,fma", |sum, weight, x| _mm256_add_epi32(sum, _mm256_madd_epi16(x, weight)));
