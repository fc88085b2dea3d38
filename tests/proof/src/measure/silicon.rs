//! Measured ceilings of the CPU: tight loops on all threads at once.
//!
//! The backend's own matrix product is no ceiling, because it may be slow itself. Peaks are those
//! of the instructions that networks use, with operands in registers; memory is read from beyond
//! all caches. Instructions that the program does not use (the dots of ARM) are no ceiling
//! either. Nor are those beyond the level of the CPU that kernels use.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use acestep_model::kernel::cpu_level;
use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::ceilings::Registers;

/// Independent sums, so that none waits for the one before: two units with a latency of four to six
/// cycles can hold twelve.
const CHAINS: usize = 12;

/// Timed loops per thread. Each runs at least [`LONG`], so that its start does not count, and less
/// than a scheduler's time slice.
const LOOPS: usize = 40;
const LONG: Duration = Duration::from_micros(500);

/// Returns the number of computing threads.
pub(crate) fn threads() -> usize {
    rayon::current_num_threads()
}

/// Returns the vectors of the level in use.
fn arch() -> Arch {
    cpu_level().arch()
}

/// Measures the instructions of the level in use.
pub(crate) fn registers() -> Registers {
    Registers {
        f32_flop_per_s: per_s(|rounds| arch().dispatch(MulAdd { rounds })),
        bf16_flop_per_s: dots::bf16(),
        int8_op_per_s: dots::int8(),
    }
}

/// Returns the bytes per second of reading a buffer larger than all caches, the best of several
/// runs. Threads share the bandwidth, so all are measured together.
pub(crate) fn bytes_per_s() -> f64 {
    const NUMBERS: usize = (512 << 20) / size_of::<f32>();
    let piece = NUMBERS.div_ceil(threads());
    let mut buffer = vec![0.0_f32; NUMBERS];
    // Memory is allocated by the first write, near the core that writes.
    buffer.par_chunks_mut(piece).for_each(|piece| piece.fill(1.0));
    let once = || {
        let start = Instant::now();
        let sums = rayon::broadcast(|thread| {
            let piece = buffer.chunks(piece).nth(thread.index()).unwrap_or_default();
            arch().dispatch(Sum(piece))
        });
        black_box(sums);
        size_of_val(&buffer[..]) as f64 / start.elapsed().as_secs_f64()
    };
    (0..8).map(|_| once()).fold(0.0, f64::max)
}

/// Returns the operations per second of `work` on all threads together. `work` receives the number
/// of rounds and returns the number of operations.
///
/// Every thread times its own short loops, and the median counts: other programs interrupt only a
/// few of them.
fn per_s(work: impl Fn(usize) -> f64 + Sync) -> f64 {
    let of_thread = || {
        let (mut rounds, mut rates) = (1 << 10, Vec::with_capacity(LOOPS));
        while rates.len() < LOOPS {
            let start = Instant::now();
            let operations = work(rounds);
            let elapsed = start.elapsed();
            if elapsed < LONG {
                rounds *= 2;
            } else {
                rates.push(operations / elapsed.as_secs_f64());
            }
        }
        rates.sort_by(f64::total_cmp);
        rates[LOOPS / 2]
    };
    rayon::broadcast(|_| of_thread()).into_iter().sum()
}

/// `sum = sum * factor + addend` in every lane of [`CHAINS`] registers.
struct MulAdd {
    rounds: usize,
}

impl WithSimd for MulAdd {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f64 {
        let [factor, addend] = black_box([0.999_f32, 0.001]).map(|x| simd.splat_f32s(x));
        // Equal sums would be computed only once.
        let mut sums: [S::f32s; CHAINS] =
            std::array::from_fn(|chain| simd.splat_f32s(black_box(chain as f32)));
        for _ in 0..self.rounds {
            for sum in &mut sums {
                *sum = simd.mul_add_f32s(*sum, factor, addend);
            }
        }
        black_box(sums.map(|sum| simd.reduce_sum_f32s(sum)));
        (self.rounds * CHAINS * S::F32_LANES * 2) as f64
    }
}

/// Sum of a slice.
struct Sum<'a>(&'a [f32]);

impl WithSimd for Sum<'_> {
    type Output = f32;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f32 {
        let (vectors, rest) = S::as_simd_f32s(self.0);
        let mut sums = [simd.splat_f32s(0.0); 8];
        for vectors in vectors.chunks_exact(8) {
            for (sum, &vector) in sums.iter_mut().zip(vectors) {
                *sum = simd.add_f32s(*sum, vector);
            }
        }
        let sums: f32 = sums.into_iter().map(|sum| simd.reduce_sum_f32s(sum)).sum();
        sums + rest.iter().sum::<f32>()
    }
}

/// Dot products of narrow values, summed in wide ones by one instruction.
#[cfg(target_arch = "x86_64")]
mod dots {
    use std::{
        arch::{asm, x86_64::*},
        hint::black_box,
    };

    use acestep_model::kernel::CpuLevel;

    use super::{CHAINS, cpu_level, per_s};

    /// Lanes of 32 bits.
    const LANES: usize = 16;

    /// `tdpbf16ps`, or `vdpbf16ps`.
    pub(crate) fn bf16() -> Option<f64> {
        if cpu_level() == CpuLevel::Amx { Some(per_s(tiles)) } else { words() }
    }

    /// `tdpbf16ps` of AMX: 16 by 16 sums of 32 products each.
    #[expect(unsafe_code, reason = "the compiler cannot see what the processor has")]
    fn tiles(rounds: usize) -> f64 {
        /// Sums that are added to in turn.
        const SUMS: usize = 4;
        const LINES: usize = 16;
        /// Palette 1, and eight tiles of 16 lines of 64 bytes: see Intel's manual, volume 1, chapter 18.
        #[repr(align(64))]
        struct Shapes([u8; 64]);
        let mut shapes = Shapes([0; 64]);
        shapes.0[0] = 1;
        for tile in 0..8 {
            shapes.0[16 + 2 * tile] = 64;
            shapes.0[48 + tile] = LINES as u8;
        }
        // SAFETY: the level says that the CPU has the instructions and that the system permits them.
        unsafe {
            asm!(
                "ldtilecfg [{shapes}]",
                "tilezero tmm0",
                "tilezero tmm1",
                "tilezero tmm2",
                "tilezero tmm3",
                "tilezero tmm4",
                "tilezero tmm5",
                "tilezero tmm6",
                "tilezero tmm7",
                "2:",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tdpbf16ps tmm1, tmm5, tmm6",
                "tdpbf16ps tmm2, tmm4, tmm7",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "dec {rounds}",
                "jnz 2b",
                "tilerelease",
                shapes = in(reg) &raw const shapes,
                rounds = inout(reg) rounds.max(1) => _,
                options(nostack),
            );
        }
        (rounds * SUMS * LINES * LINES * 32 * 2) as f64
    }

    /// `vdpbf16ps`: two products per lane.
    fn words() -> Option<f64> {
        #[target_feature(enable = "avx512f,avx512bf16")]
        fn dots(rounds: usize) -> f64 {
            let small = _mm512_set1_ps(black_box(0.001));
            let [a, b] = [_mm512_cvtne2ps_pbh(small, small); 2];
            let mut sums: [__m512; CHAINS] =
                std::array::from_fn(|chain| _mm512_set1_ps(black_box(chain as f32)));
            for _ in 0..rounds {
                for sum in &mut sums {
                    *sum = _mm512_dpbf16_ps(*sum, a, b);
                }
            }
            black_box(sums.map(|sum| _mm512_reduce_add_ps(sum)));
            (rounds * CHAINS * LANES * 4) as f64
        }
        let has = cpu_level() >= CpuLevel::Avx512Bf16;
        #[expect(unsafe_code, reason = "the compiler cannot see what the processor has")]
        // SAFETY: the CPU has both instruction sets that `dots` uses, as checked above.
        has.then(|| per_s(|rounds| unsafe { dots(rounds) }))
    }

    /// `vpdpbusd`, or `vpmaddwd` and an addition where kernels multiply int8 in pairs.
    pub(crate) fn int8() -> Option<f64> {
        match cpu_level() {
            CpuLevel::Avx2 => pairs(),
            CpuLevel::Avx2Vnni => quads(),
            _ => bytes(),
        }
    }

    /// `vpmaddwd` and `vpaddd`: two products per lane of 32 bits.
    fn pairs() -> Option<f64> {
        const LANES: usize = 8;
        /// Sums of eight lanes: so many that no addition waits for the previous one, and few enough to leave registers
        /// for the products.
        const SUMS: usize = 12;

        #[target_feature(enable = "avx2")]
        fn dots(rounds: usize) -> f64 {
            let mut sums: [__m256i; SUMS] =
                std::array::from_fn(|sum| _mm256_set1_epi32(black_box(sum as i32)));
            let one = _mm256_set1_epi16(black_box(1));
            for _ in 0..rounds {
                for sum in &mut sums {
                    // A product of the sum itself cannot be moved out of the loop.
                    *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(*sum, one));
                }
            }
            black_box(sums);
            (rounds * SUMS * LANES * 4) as f64
        }
        let has = cpu_level() >= CpuLevel::Avx2;
        #[expect(unsafe_code, reason = "the compiler cannot see what the processor has")]
        // SAFETY: the CPU has the instructions that `dots` uses, as checked above.
        has.then(|| per_s(|rounds| unsafe { dots(rounds) }))
    }

    /// `vpdpbusd` of AVX-VNNI: four products per lane.
    fn quads() -> Option<f64> {
        const LANES: usize = 8;

        #[target_feature(enable = "avx2,avxvnni")]
        fn dots(rounds: usize) -> f64 {
            let [a, b] = black_box([1, 2]).map(|x| _mm256_set1_epi8(x));
            let mut sums: [__m256i; CHAINS] =
                std::array::from_fn(|chain| _mm256_set1_epi32(black_box(chain as i32)));
            for _ in 0..rounds {
                for sum in &mut sums {
                    *sum = _mm256_dpbusd_avx_epi32(*sum, a, b);
                }
            }
            black_box(sums);
            (rounds * CHAINS * LANES * 8) as f64
        }
        let has = cpu_level() >= CpuLevel::Avx2Vnni;
        #[expect(unsafe_code, reason = "the compiler cannot see what the processor has")]
        // SAFETY: the CPU has both instruction sets that `dots` uses, as checked above.
        has.then(|| per_s(|rounds| unsafe { dots(rounds) }))
    }

    /// `vpdpbusd` of AVX-512: four products per lane.
    fn bytes() -> Option<f64> {
        #[target_feature(enable = "avx512f,avx512vnni")]
        fn dots(rounds: usize) -> f64 {
            let [a, b] = black_box([1, 2]).map(|x| _mm512_set1_epi8(x));
            let mut sums: [__m512i; CHAINS] =
                std::array::from_fn(|chain| _mm512_set1_epi32(black_box(chain as i32)));
            for _ in 0..rounds {
                for sum in &mut sums {
                    *sum = _mm512_dpbusd_epi32(*sum, a, b);
                }
            }
            black_box(sums.map(|sum| _mm512_reduce_add_epi32(sum)));
            (rounds * CHAINS * LANES * 8) as f64
        }
        let has = cpu_level() >= CpuLevel::Avx512Vnni;
        #[expect(unsafe_code, reason = "the compiler cannot see what the processor has")]
        // SAFETY: the CPU has both instruction sets that `dots` uses, as checked above.
        has.then(|| per_s(|rounds| unsafe { dots(rounds) }))
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod dots {
    pub(crate) fn bf16() -> Option<f64> {
        None
    }

    pub(crate) fn int8() -> Option<f64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use acestep_model::kernel::CpuLevel;

    use super::*;

    /// A loop that the compiler had removed would be faster than any CPU: 64 lanes, two per cycle, at
    /// 6 GHz on every thread; or a product of two tiles of 1 KiB in 16 cycles.
    #[test]
    fn peaks_are_those_of_a_processor() {
        let Registers { f32_flop_per_s, bf16_flop_per_s, int8_op_per_s } = registers();
        let thread = f32_flop_per_s / threads() as f64;
        assert!((1e8..1e12).contains(&thread), "{thread} f32 operations a second");
        for narrow in [bf16_flop_per_s, int8_op_per_s].into_iter().flatten() {
            let most = if cpu_level() == CpuLevel::Amx { 1e13 } else { 4e12 };
            assert!((1e8..most).contains(&(narrow / threads() as f64)), "{narrow}");
        }
    }

    #[test]
    fn memory_is_read_at_the_speed_of_memory() {
        let bytes_per_s = bytes_per_s();
        assert!((1e8..5e12).contains(&bytes_per_s), "{bytes_per_s}");
    }

    #[test]
    fn operations_are_counted_per_second() {
        let work = |rounds: usize| {
            std::thread::sleep(Duration::from_millis(1));
            rounds as f64
        };
        // A sleep is never too short; other programs can make it longer.
        let found = per_s(work) / (threads() as f64 * 1024.0);
        assert!(found > 0.0 && found <= 1000.0, "{found} milliseconds in a second");
    }
}
