//! Words of four bytes, for level `avx2-vnni`: one `vpdpbusd`, four products a lane.
//!
//! The instruction multiplies unsigned bytes with signed bytes. Weights are unsigned (q + 128), `x` is
//! signed. So each sum starts with minus the contribution of the 128. A word holds numbers `i`,
//! `i + 8`, `i + 16` and `i + 24` of a block.
//!
//! Source: Intel, "Intrinsics Guide", AVX_VNNI.

use std::arch::x86_64::*;

use super::{Group, Panel, ROWS, Sums, floats, keep, load};
use crate::kernel::flex::{
    eight::{self, BLOCK, BLOCKS, WHOLE, ZERO},
    level::{self, CpuLevel},
};

/// Words of a block.
const WORDS: usize = BLOCK / 4;

/// The bytes of zeros.
const ZEROS: u32 = ZERO * 0x0101_0101;

/// Proof that the CPU has the instruction.
#[derive(Clone, Copy)]
pub(in super::super::super) struct Quads(());

impl Quads {
    /// Returns the proof if this CPU has the instruction.
    pub(in super::super::super) fn new() -> Option<Self> {
        // Not every CPU of a higher level has it.
        let is_here = level::has(CpuLevel::Avx2Vnni) && is_x86_feature_detected!("avxvnni");
        is_here.then_some(Self(()))
    }
}

impl super::Words<WORDS> for Quads {
    #[inline(always)]
    fn of_weights(group: &eight::Group) -> [[i32; WORDS]; BLOCKS] {
        /// Bytes 0 and 2 of a word, then its lower half.
        const EVEN: u32 = 0x00ff_00ff;
        const LOW: u32 = 0x0000_ffff;
        let (words, _) = eight::parts(group);
        let mut quads = [[0; WORDS]; BLOCKS];
        for i in 0..WORDS {
            // Four words with a byte of each block become the words of four blocks.
            let [a, b] = [words[i], words[i + WORDS]];
            let [c, d] = [words[i + 2 * WORDS], words[i + 3 * WORDS]];
            let [ab, cd] = [a & EVEN | (b & EVEN) << 8, c & EVEN | (d & EVEN) << 8];
            quads[0][i] = (ab & LOW | cd << 16) as i32;
            quads[2][i] = (ab >> 16 | cd & !LOW) as i32;
            let [ab, cd] = [a >> 8 & EVEN | b & !EVEN, c >> 8 & EVEN | d & !EVEN];
            quads[1][i] = (ab & LOW | cd << 16) as i32;
            quads[3][i] = (ab >> 16 | cd & !LOW) as i32;
        }
        quads
    }

    #[inline(always)]
    fn of_x(group: &eight::Group) -> [[i32; WORDS]; BLOCKS] {
        let mut quads = Self::of_weights(group);
        for quad in quads.as_flattened_mut() {
            *quad ^= ZEROS as i32;
        }
        quads
    }

    #[inline(always)]
    fn start(x: &[i32; WORDS]) -> i32 {
        let mut sum = 0;
        for word in x {
            for byte in word.to_ne_bytes() {
                sum += i32::from(byte as i8);
            }
        }
        -(ZERO as i32) * sum
    }

    #[expect(unsafe_code, reason = "`Self` is the proof that the processor has the instruction")]
    fn add<const V: usize>(self, x: &[Group<WORDS>], weights: &[Panel<WORDS>], sums: &mut Sums) {
        // SAFETY: see above.
        unsafe { add::<V>(x, weights, sums) }
    }
}

super::tile!("avx2,fma,avxvnni", |sum, weight, x| _mm256_dpbusd_avx_epi32(sum, weight, x));
