//! Weight norm, folded into the weight once at load time.
//!
//! `w = g v / |v|`, the norm over every dimension but the first: per output channel for a
//! convolution, per input channel for a transposed one, whose first dimension is the input.
//!
//! Source: Salimans and Kingma 2016, arXiv:1602.07868; PyTorch `torch.nn.utils.weight_norm(dim=0)`.
//! Checkpoint: `X.weight_g` `[d, 1, 1]` and `X.weight_v` `[d, ..]` become `X.weight` `[d, ..]`.

/// Scales `v` in place to the folded weight; `g` has one value per row.
///
/// Sums and quotients are in double precision, so that the folded weight is rounded once.
///
/// Returns `false` if a value is not finite, as in a row of zeros.
pub(crate) fn fold(g: &[f32], v: &mut [f32]) -> bool {
    if g.is_empty() {
        return v.is_empty();
    }
    let columns = v.len() / g.len();
    let mut finite = true;
    // ANCHOR: fold
    for (&g, row) in g.iter().zip(v.chunks_exact_mut(columns.max(1))) {
        let norm = row.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt();
        let scale = f64::from(g) / norm;
        for x in row {
            *x = (f64::from(*x) * scale) as f32;
            finite &= x.is_finite();
        }
    }
    // ANCHOR_END: fold
    finite
}
