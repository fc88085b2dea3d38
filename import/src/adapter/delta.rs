//! Arithmetic of adapters: the change of one weight.
//!
//! Everything is row-major and in f32; norms are summed in f64. Rows are distributed over the CPU
//! cores. One core computes a whole row, so the result does not depend on the number of cores.
//!
//! | kind | change of `W`, `[out, in]` |
//! |---|---|
//! | LoRA | `s B A` |
//! | LoKr | `s (w1 ⊗ w2)` |
//! | LoHa | `s (w1_a w1_b) ∘ (w2_a w2_b)` |
//! | difference | `u D` |
//! | DoRA of PEFT | `m (W + D) / |W + D| - W`, rows |
//! | DoRA of LyCORIS | `(W + D) (u m / (|W + D| + eps) + 1 - u) - W`, rows or columns |
//!
//! `s` is `alpha / rank` times the user's scale `u`. LyCORIS's DoRA applies `u` in its own formula
//! instead.
//!
//! Source: LoRA, Hu et al. 2021, arXiv:2106.09685; LoKr and LoHa, Yeh et al. 2023,
//! arXiv:2309.14859; DoRA, Liu et al. 2024, arXiv:2402.09353; PEFT `DoraLinearLayer`; LyCORIS
//! `apply_weight_decompose`.

use std::ops::Range;

use rayon::prelude::*;

/// LyCORIS's epsilon: the resolution of the weight's type (bf16 for the released weights). It is
/// added to a norm before the division by it.
pub(super) const LYCORIS_EPSILON: f64 = 7.8125e-3;

/// Returns `scale a b`, where `a` is `[rows, inner]` and `b` is `[inner, columns]`.
pub(super) fn product(a: &[f32], b: &[f32], inner: usize, columns: usize, scale: f32) -> Vec<f32> {
    let mut result = vec![0.0; a.len() / inner.max(1) * columns];
    if columns == 0 || inner == 0 {
        return result;
    }
    // ANCHOR: product
    result.par_chunks_mut(columns).zip(a.par_chunks(inner)).for_each(|(row, factors)| {
        for (&factor, other) in factors.iter().zip(b.chunks_exact(columns)) {
            // Rows of zeros are common: training initialises `B` with zeros.
            if factor != 0.0 {
                row.iter_mut().zip(other).for_each(|(x, &y)| *x += factor * y);
            }
        }
        row.iter_mut().for_each(|x| *x *= scale);
    });
    // ANCHOR_END: product
    result
}

/// Returns `rows` of `scale (first ⊗ second)`. `first` has `columns.0` columns, `second` has
/// `columns.1`.
pub(super) fn kronecker(
    first: &[f32],
    second: &[f32],
    columns: (usize, usize),
    rows: &Range<usize>,
    scale: f32,
) -> Vec<f32> {
    let width = columns.0 * columns.1;
    let mut result = vec![0.0; rows.len() * width];
    if width == 0 {
        return result;
    }
    let inner_rows = second.len() / columns.1;
    result.par_chunks_mut(width).zip(rows.clone()).for_each(|(values, row)| {
        let outer = &first[row / inner_rows * columns.0..][..columns.0];
        let inner = &second[row % inner_rows * columns.1..][..columns.1];
        for (block, &x) in values.chunks_exact_mut(columns.1).zip(outer) {
            block.iter_mut().zip(inner).for_each(|(value, &y)| *value = scale * (x * y));
        }
    });
    result
}

/// Computes `scale first ∘ second` in place, into `first`.
pub(super) fn hadamard(first: &mut [f32], second: &[f32], scale: f32) {
    first.iter_mut().zip(second).for_each(|(x, &y)| *x *= scale * y);
}

/// Variant of DoRA: how its magnitudes rescale the sum of weight and change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Lengths {
    /// PEFT: each row gets its length.
    Peft,
    /// LyCORIS: each row or column gets its length, blended by the user's scale.
    Lycoris {
        /// Columns instead of rows, or groups of adjacent columns: one group per length.
        of_columns: bool,
    },
}

/// Turns the change `delta` of `weight`, `[out, columns]`, into the change with DoRA's `magnitudes` at the
/// user's scale `user`.
pub(super) fn decompose(
    weight: &[f32],
    delta: &mut [f32],
    columns: usize,
    magnitudes: &[f32],
    how: Lengths,
    user: f64,
) {
    if columns == 0 {
        return;
    }
    match how {
        Lengths::Lycoris { of_columns: true } => {
            let group = columns / magnitudes.len().clamp(1, columns);
            let mut squares = vec![0.0_f64; magnitudes.len()];
            for (row, change) in weight.chunks_exact(columns).zip(delta.chunks_exact(columns)) {
                let groups = row.chunks(group).zip(change.chunks(group));
                for (square, (row, change)) in squares.iter_mut().zip(groups) {
                    *square += row
                        .iter()
                        .zip(change)
                        .map(|(&w, &d)| f64::from(w + d).powi(2))
                        .sum::<f64>();
                }
            }
            let factors: Vec<f64> = squares
                .iter()
                .zip(magnitudes)
                .map(|(&square, &length)| blended(length, square.sqrt(), user))
                .collect();
            let rows = delta.par_chunks_mut(columns).zip(weight.par_chunks(columns));
            rows.for_each(|(change, row)| {
                let groups = change.chunks_mut(group).zip(row.chunks(group));
                for ((change, row), &factor) in groups.zip(&factors) {
                    change.iter_mut().zip(row).for_each(|(d, &w)| *d = scaled(w, *d, factor));
                }
            });
        }
        _ => {
            let rows = delta.par_chunks_mut(columns).zip(weight.par_chunks(columns));
            rows.zip(magnitudes.par_iter()).for_each(|((change, row), &length)| {
                let square = |(&w, &d): (&f32, &f32)| f64::from(w + d).powi(2);
                let norm = row.iter().zip(&*change).map(square).sum::<f64>().sqrt();
                let factor = match how {
                    Lengths::Lycoris { .. } => blended(length, norm, user),
                    // A row of zeros has no direction, so it cannot get a length.
                    Lengths::Peft if norm == 0.0 => 1.0,
                    Lengths::Peft => f64::from(length) / norm,
                };
                change.iter_mut().zip(row).for_each(|(d, &w)| *d = scaled(w, *d, factor));
            });
        }
    }
}

fn blended(length: f32, norm: f64, user: f64) -> f64 {
    user * f64::from(length) / (norm + LYCORIS_EPSILON) + (1.0 - user)
}

/// Returns the change of `w` that gives `factor (w + d)`.
fn scaled(w: f32, d: f32, factor: f64) -> f32 {
    (f64::from(w + d) * factor - f64::from(w)) as f32
}

/// Returns the sum of the squares.
pub(super) fn energy(values: &[f32]) -> f64 {
    // Chunks of a fixed size make the sum the same on every machine.
    const PIECE: usize = 1 << 16;
    let piece = |values: &[f32]| values.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>();
    values.par_chunks(PIECE).map(piece).collect::<Vec<_>>().iter().sum()
}
