//! The innermost loops: some rows of a filter with a few vectors of samples.
//!
//! With 32 registers these are eight rows and three vectors, with 16 six rows and two: there, four rows
//! and three vectors need one register too many, and take more than twice as long.
//!
//! A core decodes few instructions in a cycle, and fewer while another program uses its second thread. With 16
//! registers, most instructions must be products and loads. So the loop has no bounds checks, and a turn takes
//! two taps.

use crate::kernel::flex::{level, prefetch};
use pulp::{Simd, WithSimd, bytemuck};

/// Maximum number of vectors of samples that are summed together.
const VECTORS: usize = 3;

/// The same with 16 registers.
const FEW_VECTORS: usize = 2;

/// Samples of a tile: three of the widest vectors, or a multiple of two or three narrower ones.
pub(super) const SAMPLES: usize = VECTORS * 16;

/// Maximum number of rows of a tile of vectors.
const MOST_IN_VECTORS: usize = 8;

/// The same with 16 registers.
const FEW_IN_VECTORS: usize = 6;

/// Maximum number of rows of any tile.
pub(super) const MOST_ROWS: usize = super::amx::LINES;

/// Sums of a tile, row by row.
pub(super) type Sums = [[f32; SAMPLES]; MOST_ROWS];

/// Returns the rows of a tile: their sums, the samples and a weight fit in registers.
pub(super) fn rows_at_once() -> usize {
    level::arch().dispatch(TileRows)
}

struct TileRows;

impl WithSimd for TileRows {
    type Output = usize;

    fn with_simd<S: Simd>(self, _simd: S) -> usize {
        if S::REGISTER_COUNT >= 32 { MOST_IN_VECTORS } else { FEW_IN_VECTORS }
    }
}

/// Rows of a filter in the order in which the loop reads them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Panel<'a> {
    /// 1, 2, 4, 6 or 8; 1 to 16 for [`super::amx`].
    pub(super) rows: usize,
    /// `[lines, taps, rows]`, or as [`super::amx`] reads them, in the [`Form`](super::Form) of the filter.
    pub(super) words: &'a [u32],
}

/// The lines of the input that a stretch of output needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window<'a> {
    /// `[lines, width]`, in the [`Form`](super::Form) of the filter; for [`super::amx`]
    /// `[samples, width]`.
    pub(super) words: &'a [u32],
    pub(super) width: usize,
    pub(super) taps: usize,
    /// Distance between taps in samples.
    pub(super) step: usize,
}

/// Computes the sums of a panel for the tile of `count` samples that begins at sample `start` of the
/// window. The sums of the samples after them may be anything.
pub(super) fn sums(
    panel: Panel<'_>,
    window: Window<'_>,
    (start, count): (usize, usize),
    to: &mut Sums,
) {
    level::arch().dispatch(Run { panel, window, start, count, to });
}

struct Run<'a> {
    panel: Panel<'a>,
    window: Window<'a>,
    start: usize,
    count: usize,
    to: &'a mut Sums,
}

impl WithSimd for Run<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let at_once = if S::REGISTER_COUNT >= 32 { VECTORS } else { FEW_VECTORS };
        let vectors = self.count.div_ceil(S::F32_LANES);
        let mut done = 0;
        while done < vectors {
            let part = done * S::F32_LANES;
            // A chunk of speech may be shorter than a tile, and its filters are the largest.
            done += match at_once.min(vectors - done) {
                1 => in_vectors::<S, 1>(simd, &mut self, part),
                2 => in_vectors::<S, 2>(simd, &mut self, part),
                _ => in_vectors::<S, VECTORS>(simd, &mut self, part),
            };
        }
    }
}

/// Computes `V` vectors from sample `part` of the tile on, and returns their number.
#[inline(always)]
fn in_vectors<S: Simd, const V: usize>(simd: S, run: &mut Run<'_>, part: usize) -> usize {
    let Run { panel, window, start, to, .. } = run;
    let of = (panel.words, *window, *start + part);
    match panel.rows {
        8 => keep::<S, 8, V>(tile(simd, of), to, part),
        6 => keep::<S, 6, V>(tile(simd, of), to, part),
        4 => keep::<S, 4, V>(tile(simd, of), to, part),
        2 => keep::<S, 2, V>(tile(simd, of), to, part),
        _ => keep::<S, 1, V>(tile(simd, of), to, part),
    }
    V
}

#[inline(always)]
fn keep<S: Simd, const R: usize, const V: usize>(
    sums: [[S::f32s; V]; R],
    to: &mut Sums,
    part: usize,
) {
    for (to, sums) in to.iter_mut().zip(&sums) {
        let sums: &[f32] = bytemuck::cast_slice(sums);
        to[part..part + sums.len()].copy_from_slice(sums);
    }
}

/// Computes `R` rows for `V` vectors of samples.
#[inline(always)]
#[expect(unsafe_code, reason = "bounds checks take up to a third of the time with 16 registers")]
fn tile<S: Simd, const R: usize, const V: usize>(
    simd: S,
    (weights, window, start): (&[u32], Window<'_>, usize),
) -> [[S::f32s; V]; R] {
    let Window { words, width, taps, step } = window;
    let samples = V * S::F32_LANES;
    let lines = words.len() / width;
    // Checked arithmetic, because the pointers below rely on it.
    let span = taps.checked_sub(1).and_then(|taps| taps.checked_mul(step));
    let end = span.and_then(|span| span.checked_add(start)?.checked_add(samples));
    assert!(end.is_some_and(|end| end <= width), "the window is too short");
    assert_eq!(weights.len(), lines * taps * R, "the weights of another window");
    // A loop over one tap costs more than the tap, so such lines are read as the taps of one line.
    let (lines, taps, step) = if taps == 1 { (1, lines, width) } else { (lines, taps, step) };
    let reached = (taps - 1) * step + samples - 1;
    let mut weights: *const f32 = weights.as_ptr().cast();
    let mut line: *const f32 = words.as_ptr().wrapping_add(start).cast();
    let mut sums = [[simd.splat_f32s(0.0); V]; R];
    for _ in 0..lines {
        if lines > 1 {
            // Lines are too far apart for the CPU to prefetch them by itself.
            let after_next = line.wrapping_add(2 * width);
            prefetch::line_at(after_next);
            prefetch::line_at(after_next.wrapping_add(reached));
        }
        let (mut x, end) = (line, weights.wrapping_add(taps / 2 * 2 * R));
        while weights != end {
            if V == 1 {
                // Few samples: it takes longer to read the weights than to multiply them.
                prefetch::line_at(weights.wrapping_byte_add(prefetch::DISTANCE));
            }
            // SAFETY: by the assertions, the line has samples and weights for each of its taps.
            unsafe {
                add(simd, x, weights, &mut sums);
                add(simd, x.add(step), weights.add(R), &mut sums);
            }
            (x, weights) = (x.wrapping_add(2 * step), weights.wrapping_add(2 * R));
        }
        if taps % 2 == 1 {
            // SAFETY: see above.
            unsafe { add(simd, x, weights, &mut sums) };
            weights = weights.wrapping_add(R);
        }
        line = line.wrapping_add(width);
    }
    sums
}

/// Adds the products of a tap.
///
/// # Safety
/// There must be `V` vectors of samples at `x` and `R` weights at `weights`.
#[inline(always)]
#[expect(unsafe_code, reason = "see `tile`")]
unsafe fn add<S: Simd, const R: usize, const V: usize>(
    simd: S,
    x: *const f32,
    weights: *const f32,
    sums: &mut [[S::f32s; V]; R],
) {
    // SAFETY: the caller promises the memory; a vector is only numbers, so any bits are valid.
    let (x, weights) =
        unsafe { (x.cast::<[S::f32s; V]>().read_unaligned(), *weights.cast::<[f32; R]>()) };
    // ANCHOR: tile
    for (sums, weight) in sums.iter_mut().zip(weights) {
        let weight = simd.splat_f32s(weight);
        for (sum, x) in sums.iter_mut().zip(x) {
            *sum = simd.mul_add_e_f32s(weight, x, *sum);
        }
    }
    // ANCHOR_END: tile
}
