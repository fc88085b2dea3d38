//! The innermost loops: some rows of a filter over three vectors of samples.

use pulp::{Arch, Simd, WithSimd, bytemuck};

/// Vectors of samples that are summed beside each other.
const VECTORS: usize = 3;

/// The most samples of a tile, on any processor: windows are so much longer than what is asked of
/// them, rounded up.
pub(super) const MOST_SAMPLES: usize = VECTORS * 16;

/// Rows of a tile: with three vectors for each, their samples and a weight, all in registers.
pub(super) fn rows_at_once() -> usize {
    Arch::new().dispatch(Rows)
}

struct Rows;

impl WithSimd for Rows {
    type Output = usize;

    fn with_simd<S: Simd>(self, _simd: S) -> usize {
        if S::REGISTER_COUNT >= 32 { 8 } else { 4 }
    }
}

/// Some rows of a filter, as the loop reads them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Panel<'a> {
    /// 1, 2, 4 or 8.
    pub(super) rows: usize,
    /// `[inputs, taps, rows]`.
    pub(super) weights: &'a [f32],
}

/// Input channels as far as a stretch of output reaches, `[inputs, width]`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window<'a> {
    pub(super) values: &'a [f32],
    pub(super) width: usize,
    pub(super) taps: usize,
    /// Samples from one tap to the next.
    pub(super) step: usize,
}

/// Sums of a panel over `samples` samples; `store` is given a row of the panel, where in the stretch
/// it begins, and some of its sums.
pub(super) fn run(
    panel: Panel<'_>,
    window: Window<'_>,
    samples: usize,
    store: impl FnMut(usize, usize, &[f32]),
) {
    Arch::new().dispatch(Run { panel, window, samples, store });
}

struct Run<'a, F> {
    panel: Panel<'a>,
    window: Window<'a>,
    samples: usize,
    store: F,
}

impl<F: FnMut(usize, usize, &[f32])> WithSimd for Run<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { panel, window, samples, mut store } = self;
        for start in (0..samples).step_by(VECTORS * S::F32_LANES) {
            let mut keep = |row: usize, sums: &[S::f32s; VECTORS]| {
                let sums: &[f32] = bytemuck::cast_slice(sums);
                store(row, start, &sums[..sums.len().min(samples - start)]);
            };
            match panel.rows {
                8 => tile::<S, 8>(simd, panel.weights, window, start)
                    .iter()
                    .enumerate()
                    .for_each(|(row, sums)| keep(row, sums)),
                4 => tile::<S, 4>(simd, panel.weights, window, start)
                    .iter()
                    .enumerate()
                    .for_each(|(row, sums)| keep(row, sums)),
                2 => tile::<S, 2>(simd, panel.weights, window, start)
                    .iter()
                    .enumerate()
                    .for_each(|(row, sums)| keep(row, sums)),
                _ => tile::<S, 1>(simd, panel.weights, window, start)
                    .iter()
                    .enumerate()
                    .for_each(|(row, sums)| keep(row, sums)),
            }
        }
    }
}

/// `R` rows over three vectors of samples.
#[inline(always)]
fn tile<S: Simd, const R: usize>(
    simd: S,
    weights: &[f32],
    window: Window<'_>,
    start: usize,
) -> [[S::f32s; VECTORS]; R] {
    let Window { values, width, taps, step } = window;
    // ANCHOR: tile
    let mut sums = [[simd.splat_f32s(0.0); VECTORS]; R];
    let inputs = values.chunks_exact(width).zip(weights.chunks_exact(taps * R));
    for (input, weights) in inputs {
        for (tap, weights) in weights.chunks_exact(R).enumerate() {
            let (x, _) = S::as_simd_f32s(&input[start + tap * step..][..VECTORS * S::F32_LANES]);
            for (sums, &weight) in sums.iter_mut().zip(weights) {
                let weight = simd.splat_f32s(weight);
                for (sum, &x) in sums.iter_mut().zip(x) {
                    *sum = simd.mul_add_e_f32s(weight, x, *sum);
                }
            }
        }
    }
    // ANCHOR_END: tile
    sums
}
