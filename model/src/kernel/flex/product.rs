//! The matrix product of a few rows: every weight is read once, by all cores.
//!
//! Decoding multiplies one row a sequence with every weight of the network, so it is as fast as
//! memory is read. The general product packs and does not share such work out among cores.
//!
//! One row's sums do not depend on how many rows there are: a batch gives what its items give alone,
//! to the bit.

use burn::tensor::{DType, TensorMetadata};
use burn_flex::{Flex, FlexTensor};
use rayon::prelude::*;

use super::super::{primitive, reference, tensor};

/// From here on the general product is faster.
const MOST_ROWS: usize = 16;

/// Partial sums of one row: two registers of AVX-512, so that an addition need not wait for the one
/// before.
const LANES: usize = 32;

/// Outputs that a core takes at a time.
const CHUNK: usize = 32;

/// Below so many weights it is done before another core has woken up.
const WORTH_SHARING: usize = 1 << 16;

/// Kernel of [`super::super::Backend::product`], for f32 and few rows.
pub(super) fn product(x: FlexTensor, weight: FlexTensor) -> FlexTensor {
    let (rows, width) = (x.shape()[0], x.shape()[1]);
    let is_ours = (1..=MOST_ROWS).contains(&rows)
        && x.dtype() == DType::F32
        && weight.dtype() == DType::F32
        && weight.is_contiguous();
    if !is_ours {
        return primitive(reference::product::<Flex>(tensor(x), tensor(weight)));
    }
    let x = x.to_contiguous();
    let out = weight.shape()[0];
    let offset = weight.layout().start_offset();
    let weight = &weight.storage::<f32>()[offset..offset + out * width];
    let start = x.layout().start_offset();
    let x = &x.storage::<f32>()[start..start + rows * width];

    // `[out, rows]`, so that every core writes one piece.
    let mut sums = vec![0.0; out * rows];
    let arch = pulp::Arch::new();
    let fill = |(weight, sums): (&[f32], &mut [f32])| {
        arch.dispatch(|| fill(weight, x, width, rows, sums));
    };
    if out * width < WORTH_SHARING {
        fill((weight, &mut sums));
    } else {
        let pieces = weight.par_chunks(CHUNK * width).zip(sums.par_chunks_mut(CHUNK * rows));
        pieces.for_each(fill);
    }
    let values = if rows == 1 { sums } else { transposed(&sums, rows) };
    FlexTensor::from_data(burn::tensor::TensorData::new(values, [rows, out]))
}

/// `sums[o, r] = weight[o] . x[r]`.
#[inline(always)]
fn fill(weight: &[f32], x: &[f32], width: usize, rows: usize, sums: &mut [f32]) {
    for (weight, sums) in weight.chunks_exact(width).zip(sums.chunks_exact_mut(rows)) {
        let mut done = 0;
        while rows - done >= 4 {
            sums[done..done + 4].copy_from_slice(&dots::<4>(weight, &x[done * width..]));
            done += 4;
        }
        if rows - done >= 2 {
            sums[done..done + 2].copy_from_slice(&dots::<2>(weight, &x[done * width..]));
            done += 2;
        }
        if rows > done {
            sums[done..].copy_from_slice(&dots::<1>(weight, &x[done * width..]));
        }
    }
}

/// `R` dot products with one row of weights.
#[inline(always)]
fn dots<const R: usize>(weight: &[f32], x: &[f32]) -> [f32; R] {
    let width = weight.len();
    let rows: [&[f32]; R] = std::array::from_fn(|r| &x[r * width..(r + 1) * width]);
    let mut sums = [[0.0f32; LANES]; R];
    let (whole, rest) = weight.as_chunks::<LANES>();
    for (i, weight) in whole.iter().enumerate() {
        for (sums, row) in sums.iter_mut().zip(rows) {
            let x = &row[i * LANES..(i + 1) * LANES];
            for lane in 0..LANES {
                sums[lane] += weight[lane] * x[lane];
            }
        }
    }
    std::array::from_fn(|r| {
        let tail = &rows[r][width - rest.len()..];
        let tail = rest.iter().zip(tail).map(|(w, x)| w * x).sum::<f32>();
        folded(sums[r]) + tail
    })
}

/// The sum of all lanes, halved again and again.
#[inline(always)]
fn folded(mut lanes: [f32; LANES]) -> f32 {
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            lanes[lane] += lanes[lane + half];
        }
        half /= 2;
    }
    lanes[0]
}

/// `[out, rows]` to `[rows, out]`.
fn transposed(sums: &[f32], rows: usize) -> Vec<f32> {
    (0..rows).flat_map(|row| sums.iter().skip(row).step_by(rows).copied()).collect()
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Distribution, Tensor};

    use super::*;

    fn random(rows: usize, columns: usize) -> Tensor<Flex, 2> {
        Tensor::random([rows, columns], Distribution::Normal(0.0, 1.0), &Default::default())
    }

    fn values(x: Tensor<Flex, 2>) -> Vec<f32> {
        x.into_data().to_vec().expect("f32")
    }

    fn ours(x: &Tensor<Flex, 2>, weight: &Tensor<Flex, 2>) -> Tensor<Flex, 2> {
        tensor(product(primitive(x.clone()), primitive(weight.clone())))
    }

    #[test]
    fn it_is_the_reference_for_every_number_of_rows_and_odd_sizes() {
        for rows in [1, 2, 3, 4, 7, 16, 17] {
            for (out, width) in [(1, 1), (3, 33), (40, 64), (33, 100), (300, 1024)] {
                let (x, weight) = (random(rows, width), random(out, width));
                let expected = values(x.clone().matmul(weight.clone().transpose()));
                let got = ours(&x, &weight);
                assert_eq!(got.dims(), [rows, out]);
                for (a, b) in values(got).iter().zip(&expected) {
                    let allowed = 2e-6 * width as f32;
                    assert!((a - b).abs() < allowed, "{rows} {out} {width}: {a} {b}");
                }
            }
        }
    }

    #[test]
    fn views_are_read_where_they_lie() {
        let (x, weight) = (random(5, 96), random(50, 96));
        let part = ours(&x.clone().narrow(0, 2, 2), &weight.clone().narrow(0, 7, 20));
        let whole = ours(&x, &weight).narrow(0, 2, 2).narrow(1, 7, 20);
        assert_eq!(values(part), values(whole));
    }

    #[test]
    fn a_row_does_not_depend_on_its_company() {
        let (x, weight) = (random(11, 200), random(64, 200));
        let together = values(ours(&x, &weight));
        for row in 0..11 {
            let alone = values(ours(&x.clone().narrow(0, row, 1), &weight));
            assert_eq!(alone, together[row * 64..(row + 1) * 64], "row {row}");
        }
    }
}
