//! Weight norm, folded into the weight once at load time.
//!
//! `w = g v / |v|`, the norm over every dimension but the first: per output channel for a
//! convolution, per input channel for a transposed one, whose first dimension is the input.
//!
//! Source: Salimans and Kingma 2016, arXiv:1602.07868; PyTorch `torch.nn.utils.weight_norm(dim=0)`.
//! Checkpoint: `X.weight_g` `[d, 1, 1]` and `X.weight_v` `[d, ..]` become `X.weight` `[d, ..]`.

use rayon::prelude::*;

/// The fewest values that are worth a second core.
const SHARED: usize = 1 << 15;

/// Scales `v` in place to the folded weight; `g` has one value per row.
///
/// Sums and quotients are in double precision, so that the folded weight is rounded once.
///
/// Returns `false` if a value is not finite, as in a row of zeros.
pub(crate) fn fold(g: &[f32], v: &mut [f32]) -> bool {
    if g.is_empty() {
        return v.is_empty();
    }
    let columns = (v.len() / g.len()).max(1);
    // ANCHOR: fold
    let of_row = |(&g, row): (&f32, &mut [f32])| {
        let norm = row.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt();
        let scale = f64::from(g) / norm;
        for x in &mut *row {
            *x = (f64::from(*x) * scale) as f32;
        }
        row.iter().all(|x| x.is_finite())
    };
    // ANCHOR_END: fold
    let rows = g.par_iter().zip(v.par_chunks_exact_mut(columns));
    rows.with_min_len(SHARED.div_ceil(columns)).map(of_row).reduce(|| true, |all, row| all & row)
}
