//! The innermost loops for pairs of bf16, for CPUs with Intel AMX.
//!
//! One instruction multiplies 16 samples by 16 lines of words with those lines by 16 rows of the filter. A word
//! has the numbers of [`super::pairs`]. A tile is 16 lines of 64 bytes: the words of a sample are neighbours in a
//! window, and the words of a line are neighbours in a filter. So a line of a tile is a line of the cache for every
//! tap, except in a last panel of fewer than 16 rows. Loads across two lines take twice as long.
//!
//! Sums have another order than those of [`super::pairs`]. It depends neither on the window nor on
//! the place in it.
//!
//! Source: Intel, "Software Developer's Manual", volume 1, chapter 18; "Optimization Reference Manual", chapter
//! 20.

/// Lines of words that are multiplied together, and rows of a panel.
pub(super) const LINES: usize = 16;

/// Returns the number of words of a sample in a window of `lines` lines: whole tiles, and an odd number of them.
/// So neighbouring samples lie in different sets of the cache.
pub(super) fn width(lines: usize) -> usize {
    (lines.div_ceil(LINES) | 1) * LINES
}

#[cfg(target_arch = "x86_64")]
pub(super) use x86::{Tiles, is_here, keep_rests, pack};

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "the instructions are only in the processors that have them")]
mod x86 {
    use std::{
        arch::{
            asm,
            x86_64::{
                __m512, __m512i, _mm512_castsi512_ps, _mm512_setzero_si512, _mm512_slli_epi32,
                _mm512_sub_ps,
            },
        },
        marker::PhantomData,
        mem::transmute,
    };

    use super::{
        super::{
            pairs::{pairs_of, whole},
            tile::{Panel, SAMPLES, Sums, Window},
        },
        LINES,
    };
    use crate::kernel::flex::{
        amx::{LINE, Shapes},
        level::{self, CpuLevel},
        product::transpose::transpose,
    };

    /// Bytes between the weights that are read and those that are requested. Without requests the
    /// CPU reads half as many weights a second from memory.
    const AHEAD: usize = 8192;

    /// Tiles of samples.
    const TILES: usize = SAMPLES / LINES;

    /// Sums of some rows for [`SAMPLES`] samples, sample by sample.
    #[repr(C, align(64))]
    struct BySample([[f32; LINES]; SAMPLES]);

    /// True if the CPU has the instructions.
    pub(in super::super) fn is_here() -> bool {
        level::has(CpuLevel::Amx)
    }

    /// The tile registers of a thread, with shapes for panels of some rows. They are kept from panel to panel: setting
    /// them for each takes a tenth to a fifth of the time with 128 channels.
    #[derive(Debug, Default)]
    pub(in super::super) struct Tiles {
        /// The rows of a panel; 0 before the first.
        rows: usize,
        /// It must stay on its thread.
        thread: PhantomData<*const ()>,
    }

    impl Tiles {
        /// Sets the shapes for panels of `rows` rows, if they are others.
        fn set(&mut self, rows: usize) {
            assert!(is_here() && (1..=LINES).contains(&rows));
            if self.rows == rows {
                return;
            }
            self.rows = rows;
            // 0 to 2 are sums, 3 and 7 weights, 4 to 6 samples.
            let [few, all] = [(rows * size_of::<u32>()) as u8, LINE as u8];
            let shapes = Shapes::of([LINES as u8; 8], [few, few, few, few, all, all, all, few]);
            // SAFETY: the assertion above checked that the CPU has the instruction; the shapes are valid.
            unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const shapes, options(nostack)) }
        }

        /// Sets the shapes for a panel, and returns its number of blocks, of words in `parts` parts.
        ///
        /// # Panics
        /// If there are not as many words as are read.
        fn blocks(
            &mut self,
            panel: Panel<'_>,
            window: Window<'_>,
            start: usize,
            parts: usize,
        ) -> usize {
            let Window { words, width, taps, step } = window;
            self.set(panel.rows);
            assert!(taps > 0 && parts > 0);
            let block = taps * panel.rows * LINES * parts;
            let blocks = panel.words.len() / block;
            let last = start + (taps - 1) * step + SAMPLES - 1;
            assert!(blocks > 0 && panel.words.len() == blocks * block);
            assert!(last * width + blocks * LINES * parts <= words.len());
            blocks
        }

        /// [`super::super::tile::sums`] of a panel `[blocks of lines, taps, 16 lines, rows]` and a window
        /// `[samples, width]`.
        pub(in super::super) fn sums(
            &mut self,
            panel: Panel<'_>,
            window: Window<'_>,
            (start, count): (usize, usize),
            to: &mut Sums,
        ) {
            let Window { words, width, taps, step } = window;
            let (rows, blocks) = (panel.rows, self.blocks(panel, window, start, 1));
            let tile = to_next(width, count);
            let mut by_sample = BySample([[0.0; LINES]; SAMPLES]);
            // SAFETY: `blocks` set the shapes, and checked that the CPU has the instructions and that words and
            // weights are as many as are read; `by_sample` has as many lines as are written.
            unsafe {
                asm!(
                    "tilezero tmm0",
                    "tilezero tmm1",
                    "tilezero tmm2",
                    "2:",
                    "mov {tap}, {taps}",
                    "mov {x}, {block}",
                    "3:",
                    // Weights that will be read soon; beyond the last ones there is no harm.
                    ".irp line, 0, 64, 128, 192, 256, 320, 384, 448",
                    "prefetcht0 [{weights} + {ahead} + \\line]",
                    "prefetcht0 [{weights} + {ahead} + 512 + \\line]",
                    ".endr",
                    "tileloadd tmm3, [{weights} + {row}]",
                    "tileloadd tmm4, [{x} + {width}]",
                    "test {tile}, {tile}",
                    "jz 4f",
                    "lea {next}, [{x} + {tile}]",
                    "tileloadd tmm5, [{next} + {width}]",
                    "add {next}, {tile}",
                    "tileloadd tmm6, [{next} + {width}]",
                    "tdpbf16ps tmm1, tmm5, tmm3",
                    "tdpbf16ps tmm2, tmm6, tmm3",
                    "4:",
                    "tdpbf16ps tmm0, tmm4, tmm3",
                    // 16 lines of weights.
                    "lea {weights}, [{weights} + 8 * {row}]",
                    "lea {weights}, [{weights} + 8 * {row}]",
                    "add {x}, {step}",
                    "dec {tap}",
                    "jnz 3b",
                    "add {block}, 64",
                    "dec {blocks}",
                    "jnz 2b",
                    "mov {row}, 64",
                    "tilestored [{to} + {row}], tmm0",
                    "tilestored [{to} + {row} + 1024], tmm1",
                    "tilestored [{to} + {row} + 2048], tmm2",
                    tap = out(reg) _,
                    taps = in(reg) taps,
                    weights = inout(reg) panel.words.as_ptr() => _,
                    row = inout(reg) rows * size_of::<u32>() => _,
                    block = inout(reg) words.as_ptr().add(start * width) => _,
                    x = out(reg) _,
                    next = out(reg) _,
                    width = in(reg) width * 4,
                    tile = in(reg) tile,
                    step = in(reg) step * width * 4,
                    blocks = inout(reg) blocks => _,
                    to = in(reg) &raw mut by_sample,
                    ahead = const AHEAD,
                    options(nostack),
                );
                by_row(&by_sample, &mut to[..rows]);
            }
        }

        /// [`Self::sums`] of f32 that are the sums of two bf16, a larger one and its rest, without the products of
        /// two rests. A panel is `[blocks of lines, taps, larger or rest, 16 lines, rows]`; a sample of the
        /// window has first the larger ones.
        ///
        /// Source: Henry, Tang and Heinecke 2019, "Leveraging the bfloat16 Artificial Intelligence Datatype For
        /// Higher-Precision Computations", arXiv:1904.06376.
        pub(in super::super) fn sums_of_halves(
            &mut self,
            panel: Panel<'_>,
            window: Window<'_>,
            (start, count): (usize, usize),
            to: &mut Sums,
        ) {
            let Window { words, width, taps, step } = window;
            let (rows, blocks) = (panel.rows, self.blocks(panel, window, start, 2));
            let tile = to_next(width, count);
            let mut by_sample = BySample([[0.0; LINES]; SAMPLES]);
            // SAFETY: `blocks` set the shapes, and checked that the CPU has the instructions and that words and
            // weights are as many as are read; `by_sample` has as many lines as are written.
            unsafe {
                asm!(
                    "tilezero tmm0",
                    "tilezero tmm1",
                    "tilezero tmm2",
                    "2:",
                    "mov {tap}, {taps}",
                    "mov {x}, {block}",
                    "3:",
                    ".irp line, 0, 64, 128, 192, 256, 320, 384, 448",
                    "prefetcht0 [{weights} + {ahead} + \\line]",
                    "prefetcht0 [{weights} + {ahead} + 512 + \\line]",
                    "prefetcht0 [{weights} + {ahead} + 1024 + \\line]",
                    "prefetcht0 [{weights} + {ahead} + 1536 + \\line]",
                    ".endr",
                    "tileloadd tmm3, [{weights} + {row}]",
                    "lea {weights}, [{weights} + 8 * {row}]",
                    "lea {weights}, [{weights} + 8 * {row}]",
                    "tileloadd tmm7, [{weights} + {row}]",
                    "lea {weights}, [{weights} + 8 * {row}]",
                    "lea {weights}, [{weights} + 8 * {row}]",
                    "tileloadd tmm4, [{x} + {width}]",
                    "tdpbf16ps tmm0, tmm4, tmm3",
                    "test {tile}, {tile}",
                    "jz 4f",
                    "lea {next}, [{x} + {tile}]",
                    "tileloadd tmm5, [{next} + {width}]",
                    "add {next}, {tile}",
                    "tileloadd tmm6, [{next} + {width}]",
                    "tdpbf16ps tmm1, tmm5, tmm3",
                    "tdpbf16ps tmm2, tmm6, tmm3",
                    "tdpbf16ps tmm1, tmm5, tmm7",
                    "tdpbf16ps tmm2, tmm6, tmm7",
                    "lea {next}, [{x} + {rest}]",
                    "add {next}, {tile}",
                    "tileloadd tmm5, [{next} + {width}]",
                    "add {next}, {tile}",
                    "tileloadd tmm6, [{next} + {width}]",
                    "tdpbf16ps tmm1, tmm5, tmm3",
                    "tdpbf16ps tmm2, tmm6, tmm3",
                    "4:",
                    "lea {next}, [{x} + {rest}]",
                    "tdpbf16ps tmm0, tmm4, tmm7",
                    "tileloadd tmm4, [{next} + {width}]",
                    "tdpbf16ps tmm0, tmm4, tmm3",
                    "add {x}, {step}",
                    "dec {tap}",
                    "jnz 3b",
                    "add {block}, 64",
                    "dec {blocks}",
                    "jnz 2b",
                    tap = out(reg) _,
                    taps = in(reg) taps,
                    weights = inout(reg) panel.words.as_ptr() => _,
                    row = in(reg) rows * size_of::<u32>(),
                    block = inout(reg) words.as_ptr().add(start * width) => _,
                    x = out(reg) _,
                    next = out(reg) _,
                    width = in(reg) width * 4,
                    tile = in(reg) tile,
                    step = in(reg) step * width * 4,
                    rest = in(reg) blocks * LINES * 4,
                    blocks = inout(reg) blocks => _,
                    ahead = const AHEAD,
                    options(nostack),
                );
                asm!(
                    "tilestored [{to} + {line}], tmm0",
                    "tilestored [{to} + {line} + 1024], tmm1",
                    "tilestored [{to} + {line} + 2048], tmm2",
                    line = in(reg) LINE,
                    to = in(reg) &raw mut by_sample,
                    options(nostack),
                );
                by_row(&by_sample, &mut to[..rows]);
            }
        }
    }

    /// Returns the bytes from a tile of samples to the next; 0 if the first has all `count` samples.
    fn to_next(width: usize, count: usize) -> usize {
        if count <= LINES { 0 } else { width * size_of::<u32>() * LINES }
    }

    impl Drop for Tiles {
        fn drop(&mut self) {
            if self.rows > 0 {
                // SAFETY: the CPU has the instruction, or `set` would have panicked.
                unsafe { asm!("tilerelease", options(nostack, nomem)) }
            }
        }
    }

    /// Writes sums row by row.
    #[target_feature(enable = "avx512f")]
    fn by_row(from: &BySample, to: &mut [[f32; SAMPLES]]) {
        for (tile, from) in from.0.as_chunks::<LINES>().0.iter().enumerate() {
            // SAFETY: both types are 1024 bytes, and any bit pattern is valid.
            let mut block = unsafe { transmute::<[[f32; LINES]; LINES], [__m512i; LINES]>(*from) };
            transpose(&mut block);
            for (to, row) in to.iter_mut().zip(block) {
                // SAFETY: both types are 64 bytes, and any bit pattern is valid.
                to.as_chunks_mut().0[tile] = unsafe { transmute::<__m512i, [f32; LINES]>(row) };
            }
        }
        const { assert!(SAMPLES == TILES * LINES) };
    }

    /// Rounds 2 `N` lines and writes their words to words `first..` of the samples of a window, `width` words each.
    pub(in super::super) fn pack<const SAMPLES: usize, const N: usize>(
        lines: &[[f32; SAMPLES]],
        to: &mut [u32],
        width: usize,
        first: usize,
    ) {
        assert!(is_here() && lines.len() == 2 * N && SAMPLES.is_multiple_of(LINES));
        // SAFETY: the assertion above checked that the CPU has the instructions.
        unsafe { pack_lines::<SAMPLES, N>(lines, to, width, first) }
    }

    /// Replaces each number by what it loses as bf16.
    pub(in super::super) fn keep_rests<const SAMPLES: usize>(lines: &mut [[f32; SAMPLES]]) {
        assert!(is_here(), "blocks are made only where they can be multiplied");
        // SAFETY: the assertion above checked that the CPU has the instructions.
        unsafe { rests(lines.as_flattened_mut()) }
    }

    #[target_feature(enable = "avx512f,avx512bf16")]
    fn rests(numbers: &mut [f32]) {
        for numbers in numbers.as_chunks_mut::<LINES>().0 {
            let rounded = _mm512_castsi512_ps(_mm512_slli_epi32::<16>(whole(numbers)));
            // SAFETY: all types are 64 bytes, and any bit pattern is valid.
            unsafe {
                let exact = transmute::<[f32; LINES], __m512>(*numbers);
                *numbers = transmute::<__m512, [f32; LINES]>(_mm512_sub_ps(exact, rounded));
            }
        }
    }

    #[target_feature(enable = "avx512f,avx512bf16")]
    fn pack_lines<const SAMPLES: usize, const N: usize>(
        lines: &[[f32; SAMPLES]],
        to: &mut [u32],
        width: usize,
        first: usize,
    ) {
        for (chunk, to) in to.chunks_mut(LINES * width).enumerate() {
            let mut words = [_mm512_setzero_si512(); LINES];
            for (words, pair) in words.iter_mut().zip(lines.as_chunks::<2>().0) {
                let [low, high] = pair.each_ref().map(|line| &line.as_chunks().0[chunk]);
                *words = pairs_of(low, high);
            }
            transpose(&mut words);
            for (to, words) in to.chunks_exact_mut(width).zip(words) {
                // SAFETY: both types are 64 bytes, and any bit pattern is valid.
                let words = unsafe { transmute::<__m512i, [u32; LINES]>(words) };
                to[first..][..N].copy_from_slice(&words[..N]);
            }
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) use nowhere::{Tiles, is_here, keep_rests, pack};

#[cfg(not(target_arch = "x86_64"))]
mod nowhere {
    use super::super::tile::{Panel, Sums, Window};

    #[derive(Debug, Default)]
    pub(in super::super) struct Tiles(());

    impl Tiles {
        pub(in super::super) fn sums(
            &mut self,
            _: Panel<'_>,
            _: Window<'_>,
            _: (usize, usize),
            _: &mut Sums,
        ) {
            unreachable!("blocks are made only where they can be multiplied");
        }

        pub(in super::super) fn sums_of_halves(
            &mut self,
            _: Panel<'_>,
            _: Window<'_>,
            _: (usize, usize),
            _: &mut Sums,
        ) {
            unreachable!("blocks are made only where they can be multiplied");
        }
    }

    pub(in super::super) fn is_here() -> bool {
        false
    }

    pub(in super::super) fn pack<const SAMPLES: usize, const N: usize>(
        _: &[[f32; SAMPLES]],
        _: &mut [u32],
        _: usize,
        _: usize,
    ) {
        unreachable!("blocks are made only where they can be multiplied");
    }

    pub(in super::super) fn keep_rests<const SAMPLES: usize>(_: &mut [[f32; SAMPLES]]) {
        unreachable!("blocks are made only where they can be multiplied");
    }
}
