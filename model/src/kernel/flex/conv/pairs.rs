//! The innermost loops for pairs of bf16, for CPUs with AVX-512 BF16.
//!
//! A word holds the bf16 of two neighbouring lines at one sample, the first in the lower half. One
//! instruction adds both products to an f32, so a tile takes half the steps of [`super::tile`].

#[cfg(target_arch = "x86_64")]
pub(super) use x86::{is_here, pack, pairs_of, sums, whole};

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "the instructions are only in the processors that have them")]
mod x86 {
    use std::arch::x86_64::{
        __m256bh, __m256i, __m512, __m512bh, __m512i, _mm512_cvtepu16_epi32, _mm512_cvtneps_pbh,
        _mm512_dpbf16_ps, _mm512_or_si512, _mm512_setzero_ps, _mm512_slli_epi32,
    };
    use std::mem::transmute;

    use super::super::tile::{Panel, SAMPLES, Sums, Window};
    use crate::kernel::flex::level::{self, CpuLevel};

    const LANES: usize = 16;
    const VECTORS: usize = SAMPLES / LANES;

    /// True if [`sums`] and [`pack`] may be called.
    pub(in super::super) fn is_here() -> bool {
        level::has(CpuLevel::Avx512Bf16)
    }

    /// [`super::super::tile::sums`] of pairs.
    pub(in super::super) fn sums(
        panel: Panel<'_>,
        window: Window<'_>,
        start: usize,
        to: &mut Sums,
    ) {
        assert!(is_here(), "pairs are made only where they can be multiplied");
        // SAFETY: the assertion above checked that the CPU has the instructions.
        unsafe {
            match panel.rows {
                8 => tile::<8>(panel.words, window, start, to),
                4 => tile::<4>(panel.words, window, start, to),
                2 => tile::<2>(panel.words, window, start, to),
                _ => tile::<1>(panel.words, window, start, to),
            }
        }
    }

    #[target_feature(enable = "avx512f,avx512bf16")]
    fn tile<const R: usize>(weights: &[u32], window: Window<'_>, start: usize, to: &mut Sums) {
        let Window { words, width, taps, step } = window;
        let mut sums = [[_mm512_setzero_ps(); VECTORS]; R];
        let lines = words.chunks_exact(width).zip(weights.as_chunks::<R>().0.chunks_exact(taps));
        for (line, weights) in lines {
            for (tap, weights) in weights.iter().enumerate() {
                let (x, _) = line[start + tap * step..][..SAMPLES].as_chunks::<LANES>();
                let x = [pairs(&x[0]), pairs(&x[1]), pairs(&x[2])];
                for (sums, &weight) in sums.iter_mut().zip(weights) {
                    let weight = pairs(&[weight; LANES]);
                    for (sum, &x) in sums.iter_mut().zip(&x) {
                        *sum = _mm512_dpbf16_ps(*sum, weight, x);
                    }
                }
            }
        }
        for (to, sums) in to.iter_mut().zip(sums) {
            for (to, sum) in to.as_chunks_mut::<LANES>().0.iter_mut().zip(sums) {
                // SAFETY: both types are 64 bytes, and any bit pattern is valid.
                *to = unsafe { transmute::<__m512, [f32; LANES]>(sum) };
            }
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn pairs(words: &[u32; LANES]) -> __m512bh {
        // SAFETY: both types are 64 bytes, and any bit pattern is valid.
        unsafe { transmute::<[u32; LANES], __m512bh>(*words) }
    }

    /// Packs two lines into pairs, each number rounded to the nearest; an empty `high` means zeros.
    pub(in super::super) fn pack(low: &[f32], high: &[f32], to: &mut [u32]) {
        assert!(is_here(), "pairs are made only where they can be multiplied");
        // SAFETY: the assertion above checked that the CPU has the instructions.
        unsafe { pack_lines(low, high, to) }
    }

    /// Returns words of neighbouring numbers of two lines, each rounded to the nearest.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bf16")]
    pub(in super::super) fn pairs_of(low: &[f32; LANES], high: &[f32; LANES]) -> __m512i {
        _mm512_or_si512(whole(low), _mm512_slli_epi32::<16>(whole(high)))
    }

    /// Returns the first numbers of a line, padded with zeros, as bf16 in the lower half of words.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bf16")]
    fn rounded(line: &[f32]) -> __m512i {
        let mut part = [0.0; LANES];
        match line.first_chunk::<LANES>() {
            Some(whole) => part = *whole,
            None => part[..line.len()].copy_from_slice(line),
        }
        whole(&part)
    }

    /// Returns numbers as bf16 in the lower half of words.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bf16")]
    pub(in super::super) fn whole(part: &[f32; LANES]) -> __m512i {
        // SAFETY: both types are 64 bytes, and any bit pattern is valid.
        let part = unsafe { transmute::<[f32; LANES], __m512>(*part) };
        // SAFETY: both types are 32 bytes, and any bit pattern is valid.
        let part = unsafe { transmute::<__m256bh, __m256i>(_mm512_cvtneps_pbh(part)) };
        _mm512_cvtepu16_epi32(part)
    }

    #[target_feature(enable = "avx512f,avx512bf16")]
    fn pack_lines(low: &[f32], high: &[f32], to: &mut [u32]) {
        for (index, to) in to.chunks_mut(LANES).enumerate() {
            let words = _mm512_or_si512(
                rounded(low.get(index * LANES..).unwrap_or_default()),
                _mm512_slli_epi32::<16>(rounded(high.get(index * LANES..).unwrap_or_default())),
            );
            // SAFETY: both types are 64 bytes, and any bit pattern is valid.
            let words = unsafe { transmute::<__m512i, [u32; LANES]>(words) };
            to.copy_from_slice(&words[..to.len()]);
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) use nowhere::{is_here, pack, sums};

#[cfg(not(target_arch = "x86_64"))]
mod nowhere {
    use super::super::tile::{Panel, Sums, Window};

    pub(in super::super) fn is_here() -> bool {
        false
    }

    pub(in super::super) fn sums(_: Panel<'_>, _: Window<'_>, _: usize, _: &mut Sums) {
        unreachable!("pairs are made only where they can be multiplied");
    }

    pub(in super::super) fn pack(_: &[f32], _: &[f32], _: &mut [u32]) {
        unreachable!("pairs are made only where they can be multiplied");
    }
}
