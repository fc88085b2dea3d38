//! Int8 rows, in the layout of [`super::super::super::eight`].
//!
//! A byte becomes the lowest byte of an f32 between 2^23 and 2^24, where floats are 1 apart.
//! Subtracting 2^23 + 128 leaves the number exactly. With AVX2 or AVX-512 both are
//! multiplied as int16: `pairs`. On ARM both are integers too: `neon`.

#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "x86_64")]
mod pairs;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod rounded;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use std::any::TypeId;

#[cfg(target_arch = "aarch64")]
use neon as own;
#[cfg(target_arch = "x86_64")]
use pairs as own;
use pulp::{Arch, Simd};
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use rounded::Rounding;

use super::{
    super::super::{
        eight::{BLOCK, BLOCKS, GROUP, Group, groups_of, parts},
        matrix::Matrix,
    },
    Lines, Weight, prefetch,
};

/// The bits of 2^23.
const BASE: u32 = 0x4b00_0000;
/// Such a float for the weight zero.
const ZERO: f32 = 8_388_608.0 + 128.0;

/// The word is a whole group.
impl Weight for Group {
    fn of(weight: &Matrix) -> Option<&[Self]> {
        match weight {
            Matrix::Q8(weight) => Some(weight.rows().groups()),
            Matrix::Plain(_) => None,
        }
    }

    fn words(width: usize) -> usize {
        groups_of(width)
    }

    /// Whole groups.
    fn width(width: usize) -> usize {
        width.next_multiple_of(GROUP)
    }

    fn arrange(arch: Arch, x: &[f32], width: usize, to: &mut [f32]) {
        #[cfg(target_arch = "x86_64")]
        if matches!(arch, Arch::V3(_) | Arch::V4(_)) {
            return arch.dispatch(Rounding { x, width, to });
        }
        #[cfg(target_arch = "aarch64")]
        if let Arch::Neon(_) = arch {
            return arch.dispatch(Rounding { x, width, to });
        }
        let _ = arch;
        let rows = to.chunks_mut(Self::width(width)).zip(x.chunks(width));
        rows.for_each(|(to, from)| {
            let (to, rest) = to.split_at_mut(width);
            to.copy_from_slice(from);
            rest.fill(0.0);
        });
    }

    #[inline(always)]
    fn tile<S: Simd, const O: usize, const R: usize>(
        simd: S,
        weights: &[Self],
        x: &[f32],
        lines: Lines,
        sums: &mut [f32],
    ) {
        #[cfg(target_arch = "x86_64")]
        if TypeId::of::<S>() == TypeId::of::<pulp::x86::V3>() {
            #[expect(unsafe_code, reason = "the type is the proof that the CPU has AVX2 and FMA")]
            // SAFETY: only a CPU with these instructions has a value of this type.
            return unsafe { pairs::of_8::tile::<O, R>(weights, x, lines, sums) };
        }
        #[cfg(target_arch = "x86_64")]
        if TypeId::of::<S>() == TypeId::of::<pulp::x86::V4>() {
            #[expect(unsafe_code, reason = "the type is the proof that the CPU has AVX-512")]
            // SAFETY: only a CPU with these instructions has a value of this type.
            return unsafe { pairs::of_16::tile::<O, R>(weights, x, lines, sums) };
        }
        #[cfg(target_arch = "aarch64")]
        if TypeId::of::<S>() == TypeId::of::<pulp::aarch64::Neon>() {
            return neon::tile::<O, R>(weights, x, lines, sums);
        }
        let Lines { words, width, rows } = lines;
        let (base, mask) = (simd.splat_u32s(BASE), simd.splat_u32s(0xff));
        let zero = simd.splat_f32s(ZERO);
        let inputs: [&[[f32; GROUP]]; R] =
            std::array::from_fn(|row| x[row * width..][..width].as_chunks().0);
        for o in 0..O {
            let row = &weights[o * words..][..words];
            let mut partial = [[simd.splat_f32s(0.0); BLOCKS]; R];
            for (index, group) in row.iter().enumerate() {
                if O == 1 {
                    prefetch::after(group);
                }
                let (words, scales) = parts(group);
                let scales = scales.map(|scale| simd.splat_f32s(scale));
                let vectors = S::as_simd_u32s(words).0;
                for (i, &words) in vectors.iter().enumerate() {
                    for (block, &scale) in scales.iter().enumerate() {
                        // ANCHOR: byte
                        let shift = simd.splat_u32s(8 * block as u32);
                        let byte = simd.wrapping_dyn_shr_u32s(words, shift);
                        let bits = simd.or_u32s(simd.and_u32s(byte, mask), base);
                        let number = simd.sub_f32s(simd.transmute_f32s_u32s(bits), zero);
                        let weight = simd.mul_f32s(number, scale);
                        // ANCHOR_END: byte
                        for r in 0..R {
                            let input = &inputs[r][index][block * BLOCK..][..BLOCK];
                            let input = S::as_simd_f32s(input).0[i];
                            partial[r][block] = simd.mul_add_f32s(weight, input, partial[r][block]);
                        }
                    }
                }
            }
            for r in 0..R {
                let [a, b, c, d] = partial[r];
                let all = simd.add_f32s(simd.add_f32s(a, b), simd.add_f32s(c, d));
                sums[o * rows + r] = simd.reduce_sum_f32s(all);
            }
        }
    }
}
