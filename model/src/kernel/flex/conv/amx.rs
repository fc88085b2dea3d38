//! The innermost loops for pairs of bf16, for CPUs with Intel AMX.
//!
//! One instruction multiplies 16 rows by 16 lines of words with those lines by 16 samples. The words
//! of a window are those of [`super::pairs`]; weights are packed in blocks of 16 lines.
//!
//! Sums have another order than those of [`super::pairs`]. It depends neither on the window nor on
//! the place in it.
//!
//! Source: Intel, "Software Developer's Manual", volume 1, chapter 18.

/// Lines of words that are multiplied together, and rows of a panel.
pub(super) const LINES: usize = 16;

#[cfg(target_arch = "x86_64")]
pub(super) use x86::{is_here, sums};

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "the instructions are only in the processors that have them")]
mod x86 {
    use std::arch::asm;

    use super::{
        super::tile::{Panel, SAMPLES, Sums, Window},
        LINES,
    };
    use crate::kernel::flex::{
        amx::{LINE, Shapes},
        level::{self, CpuLevel},
    };

    /// Bytes between the weights that are read and those that are requested. Without requests the
    /// CPU reads half as many weights a second from memory.
    const AHEAD: usize = 8192;

    /// True if [`sums`] may be called.
    pub(in super::super) fn is_here() -> bool {
        level::has(CpuLevel::Amx)
    }

    /// [`super::super::tile::sums`] of a panel `[blocks of lines, taps, rows, 16 lines]`.
    pub(in super::super) fn sums(
        panel: Panel<'_>,
        window: Window<'_>,
        start: usize,
        to: &mut Sums,
    ) {
        let Window { words, width, taps, step } = window;
        let rows = panel.rows;
        let blocks = panel.words.len() / (taps * rows * LINES);
        let last = (blocks * LINES).saturating_sub(1) * width + start;
        let is_whole = blocks > 0
            && taps > 0
            && panel.words.len() == blocks * taps * rows * LINES
            && last + (taps - 1) * step + SAMPLES <= words.len();
        assert!(is_here() && is_whole && (1..=LINES.min(to.len())).contains(&rows));
        // 0 to 2 are sums, 3 weights, 4 to 6 samples.
        let [few, all] = [rows as u8, LINES as u8];
        let shapes = Shapes::of([few, few, few, few, all, all, all, all]);
        // SAFETY: the assertion above checked that the CPU has the instructions and that words and
        // weights are as many as are read; `to` has as many rows as are written.
        unsafe {
            asm!(
                "ldtilecfg [{tap}]",
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
                "tileloadd tmm3, [{weights} + {stride}]",
                "tileloadd tmm4, [{x} + {width}]",
                "tileloadd tmm5, [{x} + {width} + 64]",
                "tileloadd tmm6, [{x} + {width} + 128]",
                "tdpbf16ps tmm0, tmm3, tmm4",
                "tdpbf16ps tmm1, tmm3, tmm5",
                "tdpbf16ps tmm2, tmm3, tmm6",
                "add {weights}, {size}",
                "add {x}, {step}",
                "dec {tap}",
                "jnz 3b",
                "add {block}, {lines}",
                "dec {blocks}",
                "jnz 2b",
                "mov {stride}, {row}",
                "tilestored [{to} + {stride}], tmm0",
                "tilestored [{to} + {stride} + 64], tmm1",
                "tilestored [{to} + {stride} + 128], tmm2",
                "tilerelease",
                taps = in(reg) taps,
                // The shapes, then a counter.
                tap = inout(reg) &raw const shapes => _,
                weights = inout(reg) panel.words.as_ptr() => _,
                stride = inout(reg) LINE => _,
                size = in(reg) rows * LINE,
                block = inout(reg) words.as_ptr().add(start) => _,
                x = out(reg) _,
                width = in(reg) width * 4,
                step = in(reg) step * 4,
                lines = in(reg) LINES * width * 4,
                blocks = inout(reg) blocks => _,
                to = in(reg) to.as_mut_ptr(),
                row = const SAMPLES * 4,
                ahead = const AHEAD,
                options(nostack),
            );
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) use nowhere::{is_here, sums};

#[cfg(not(target_arch = "x86_64"))]
mod nowhere {
    use super::super::tile::{Panel, Sums, Window};

    pub(in super::super) fn is_here() -> bool {
        false
    }

    pub(in super::super) fn sums(_: Panel<'_>, _: Window<'_>, _: usize, _: &mut Sums) {
        unreachable!("blocks are made only where they can be multiplied");
    }
}
