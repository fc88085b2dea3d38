//! Small matrix products with sums in registers, for the gradients of attention.

use pulp::Simd;

/// Vectors of a row that are summed at once.
const VECTORS: usize = 2;

/// A matrix `[m, k]` whose elements are read one at a time.
#[derive(Clone, Copy)]
pub(super) enum Left<'a> {
    /// Its rows, with their stride.
    Head(&'a [f32], usize),
    /// Its columns, with their stride; each is padded to whole vectors.
    Columns(&'a [f32], usize),
}

/// Computes `to += a b`. `b` is `[k, n]` and `to` is `[m, n]`; `n` is a multiple of the vector
/// length.
#[inline(always)]
pub(super) fn add_product<S: Simd>(
    simd: S,
    a: Left<'_>,
    b: &[f32],
    to: &mut [f32],
    sizes: [usize; 3],
) {
    // These sums, a row of `b` and an element of `a` all fit in registers.
    if S::REGISTER_COUNT >= 32 {
        add_tiles::<S, 8>(simd, a, b, to, sizes);
    } else {
        add_tiles::<S, 4>(simd, a, b, to, sizes);
    }
}

/// Computes tiles of `R` rows, one after the other.
#[inline(always)]
fn add_tiles<S: Simd, const R: usize>(
    simd: S,
    a: Left<'_>,
    b: &[f32],
    to: &mut [f32],
    [m, k, n]: [usize; 3],
) {
    let (b, to) = (S::as_simd_f32s(b).0, S::as_mut_simd_f32s(to).0);
    let n = n / S::F32_LANES;
    for first in (0..m).step_by(R) {
        let count = R.min(m - first);
        for at in (0..n).step_by(VECTORS) {
            match n - at {
                1 => add_tile::<S, R, 1>(simd, a, [first, count, k], &b[at..], to, [n, at]),
                _ => add_tile::<S, R, VECTORS>(simd, a, [first, count, k], &b[at..], to, [n, at]),
            }
        }
    }
}

/// Computes one tile: `V` vectors at `at` of the rows `first..` of `to`; a row has `n` vectors.
#[inline(always)]
fn add_tile<S: Simd, const R: usize, const V: usize>(
    simd: S,
    a: Left<'_>,
    [first, count, k]: [usize; 3],
    b: &[S::f32s],
    to: &mut [S::f32s],
    [n, at]: [usize; 2],
) {
    let mut sums = [[simd.splat_f32s(0.0); V]; R];
    match a {
        Left::Head(values, stride) => {
            // The last row is repeated for missing ones; their sums are dropped.
            let row = |index: usize| &values[(first + index.min(count - 1)) * stride..][..k];
            let rows: [&[f32]; R] = std::array::from_fn(row);
            for (depth, b) in b.chunks(n).take(k).enumerate() {
                for (sums, row) in sums.iter_mut().zip(&rows) {
                    let weight = simd.splat_f32s(row[depth]);
                    for (sum, &b) in sums.iter_mut().zip(&b[..V]) {
                        *sum = simd.mul_add_e_f32s(weight, b, *sum);
                    }
                }
            }
        }
        Left::Columns(values, stride) => {
            for (column, b) in values.chunks_exact(stride).zip(b.chunks(n)).take(k) {
                for (sums, &weight) in sums.iter_mut().zip(&column[first..][..R]) {
                    let weight = simd.splat_f32s(weight);
                    for (sum, &b) in sums.iter_mut().zip(&b[..V]) {
                        *sum = simd.mul_add_e_f32s(weight, b, *sum);
                    }
                }
            }
        }
    }
    for (sums, to) in sums[..count].iter().zip(to[first * n..].chunks_exact_mut(n)) {
        for (to, &sum) in to[at..].iter_mut().zip(sums) {
            *to = simd.add_f32s(*to, sum);
        }
    }
}
