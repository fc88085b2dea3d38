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

/// Rows whose norms are summed side by side: an addition waits for the previous one of its row.
const ROWS: usize = 4;

/// Scales `v` in place to the folded weight; `g` has one value per row. The length of `v` is a multiple of
/// `g`'s: the caller has compared the shapes.
///
/// Sums and quotients are in double precision, so that the folded weight is rounded once.
///
/// Returns `false` if a value is not finite, as in a row of zeros.
pub(crate) fn fold(g: &[f32], v: &mut [f32]) -> bool {
    if g.is_empty() {
        return v.is_empty();
    }
    debug_assert_eq!(v.len() % g.len(), 0, "rows of one length");
    let columns = (v.len() / g.len()).max(1);
    let rows = g.par_chunks(ROWS).zip(v.par_chunks_mut(ROWS * columns));
    rows.with_min_len(SHARED.div_ceil(ROWS * columns))
        .map(|(g, rows)| match <&[f32; ROWS]>::try_from(g) {
            Ok(g) => fold_rows(g, rows, columns),
            Err(_) => {
                let rows = rows.chunks_mut(columns).zip(g);
                rows.fold(true, |all, (row, &g)| all & fold_rows(&[g], row, columns))
            }
        })
        .reduce(|| true, |all, rows| all & rows)
}

// ANCHOR: fold
/// [`fold`] for `R` rows.
fn fold_rows<const R: usize>(g: &[f32; R], v: &mut [f32], columns: usize) -> bool {
    let rows: [&[f32]; R] = std::array::from_fn(|row| &v[row * columns..][..columns]);
    let mut sums = [0.0; R];
    for column in 0..columns {
        for (sum, row) in sums.iter_mut().zip(rows) {
            let x = f64::from(row[column]);
            *sum += x * x;
        }
    }
    let mut is_finite = true;
    for (row, v) in v.chunks_mut(columns).enumerate() {
        // g / |v|
        let scale = f64::from(g[row]) / sums[row].sqrt();
        for x in v {
            *x = (f64::from(*x) * scale) as f32;
            is_finite &= x.is_finite();
        }
    }
    is_finite
}
// ANCHOR_END: fold

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of 3, 4, 0: norms 5, 10, .., so the folded row is `g` times 0.6, 0.8, 0.
    #[test]
    fn every_row_has_the_length_that_g_says_however_many_rows_there_are() {
        for rows in [1, 3, 4, 5, 11] {
            let g: Vec<f32> = (1..=rows).map(|row| row as f32 * 0.5).collect();
            let mut v: Vec<f32> =
                (1..=rows).flat_map(|row| [3.0, 4.0, 0.0].map(|x| x * row as f32)).collect();
            assert!(fold(&g, &mut v));
            let expected: Vec<f32> = g
                .iter()
                .flat_map(|g| [0.6, 0.8, 0.0].map(|x| (f64::from(*g) * x) as f32))
                .collect();
            for (v, expected) in v.iter().zip(expected) {
                assert!((v - expected).abs() <= 1e-7 * expected, "{v} is not {expected}");
            }
            v[3 * rows - 3..].fill(0.0);
            assert!(!fold(&g, &mut v), "a row of zeros has no direction");
        }
    }
}
