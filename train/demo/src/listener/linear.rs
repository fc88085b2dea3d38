//! Linear algebra for whitening.

/// The lower triangle `L` of a symmetric positive definite matrix `A = L L^T`, row by row.
pub(super) struct Cholesky {
    rows: Vec<Vec<f64>>,
}

impl Cholesky {
    /// Factors `matrix`. Squares on the diagonal are at least `1e-9`, in spite of rounding.
    pub(super) fn new(matrix: &[Vec<f64>]) -> Self {
        let mut rows: Vec<Vec<f64>> = Vec::with_capacity(matrix.len());
        for (i, source) in matrix.iter().enumerate() {
            let mut row = vec![0.0; i + 1];
            for j in 0..=i {
                let other: &[f64] = if j < i { &rows[j] } else { &row };
                let known: f64 = row.iter().zip(other).take(j).map(|(a, b)| a * b).sum();
                let rest = source[j] - known;
                row[j] = if j < i { rest / rows[j][j] } else { rest.max(1e-9).sqrt() };
            }
            rows.push(row);
        }
        Self { rows }
    }

    /// Returns `L^-1 x`, which has unit covariance if `x` has covariance `A`.
    pub(super) fn whitened(&self, x: &[f64]) -> Vec<f64> {
        let mut out: Vec<f64> = Vec::with_capacity(x.len());
        for (i, row) in self.rows.iter().enumerate() {
            let known: f64 = row.iter().zip(&out).map(|(a, b)| a * b).sum();
            out.push((x[i] - known) / row[i]);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `A = L L^T` with `L = [[2, 0], [1, 3]]`, so `L^-1 (4, 11) = (2, 3)`.
    #[test]
    fn a_known_matrix_is_factored() {
        let factor = Cholesky::new(&[vec![4.0, 2.0], vec![2.0, 10.0]]);
        assert_eq!(factor.whitened(&[4.0, 11.0]), vec![2.0, 3.0]);
    }
}
