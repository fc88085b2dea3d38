//! Transposition of a 16 x 16 block of words in registers.

use std::arch::x86_64::*;

/// Words of a vector, and vectors of a block.
pub(in crate::kernel::flex) const LANES: usize = 16;

/// Transposes the block.
#[target_feature(enable = "avx512f")]
#[inline]
pub(in crate::kernel::flex) fn transpose(block: &mut [__m512i; LANES]) {
    swap::<1>(block);
    swap::<2>(block);
    swap::<4>(block);
    swap::<8>(block);
}

/// Swaps squares of `SIZE` across the diagonal, in every square of twice their size.
#[target_feature(enable = "avx512f")]
#[inline]
fn swap<const SIZE: usize>(block: &mut [__m512i; LANES]) {
    let [low, high] = const { [lanes_of(SIZE, 0), lanes_of(SIZE, SIZE)] };
    let [low, high] = [indices(&low), indices(&high)];
    for pair in 0..LANES / 2 {
        let row = pair / SIZE * 2 * SIZE + pair % SIZE;
        let (a, b) = (block[row], block[row + SIZE]);
        block[row] = _mm512_permutex2var_epi32(a, low, b);
        block[row + SIZE] = _mm512_permutex2var_epi32(a, high, b);
    }
}

/// Returns the lanes of two rows, the second counted from 16, that form the upper row after a swap
/// (`shift` 0) or the lower one (`shift` = `size`).
const fn lanes_of(size: usize, shift: usize) -> [u32; LANES] {
    let mut lanes = [0; LANES];
    let mut lane = 0;
    while lane < LANES {
        let from = if lane & size == 0 { lane + shift } else { (lane + shift - size) | LANES };
        lanes[lane] = from as u32;
        lane += 1;
    }
    lanes
}

#[target_feature(enable = "avx512f")]
#[inline]
#[expect(unsafe_code, reason = "a pointer into an array whose length the type says")]
fn indices(from: &[u32; LANES]) -> __m512i {
    // SAFETY: the array has as many bytes as are read.
    unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
}
