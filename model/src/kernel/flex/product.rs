//! The matrix product of few rows, by all cores: Flex's own shares it out only when there are many.
//!
//! Up to [`MOST_ROWS`], as in decoding, every weight is read once and it is as fast as memory is. One
//! row's sums do not depend on how many rows there are: a batch gives what its items give alone, to
//! the bit. Some more rows, as of a prompt or a short song, are cut into a product for each core.

use burn::tensor::{DType, Tensor, TensorMetadata};
use burn_flex::{Flex, FlexTensor};
use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::{
    super::{primitive, reference, tensor},
    from_values,
};

/// Rows up to which weights are not packed.
const MOST_ROWS: usize = 16;

/// Rows up to which Flex uses a single core for a weight-first product.
const FEW_ROWS: usize = 512;

/// Outputs that a core takes at a time.
const CHUNK: usize = 32;

/// Below so many weights it is done before another core has woken up.
const WORTH_SHARING: usize = 1 << 16;

/// Kernel of [`super::super::Backend::product`].
pub(super) fn product(x: FlexTensor, weight: FlexTensor) -> FlexTensor {
    let is_f32 = x.dtype() == DType::F32 && weight.dtype() == DType::F32;
    match x.shape()[0] {
        1..=MOST_ROWS if is_f32 && weight.is_contiguous() => streamed(x, weight),
        1..=FEW_ROWS if is_f32 => shared(x, weight),
        _ => primitive(reference::product::<Flex>(tensor(x), tensor(weight))),
    }
}

/// The reference's product, a part of the weight for each core.
fn shared(x: FlexTensor, weight: FlexTensor) -> FlexTensor {
    let (rows, width, out) = (x.shape()[0], x.shape()[1], weight.shape()[0]);
    let cores = rayon::current_num_threads().min(out * width * rows / WORTH_SHARING).max(1);
    let part = out.div_ceil(cores);
    let starts: Vec<usize> = (0..out).step_by(part).collect();
    let parts: Vec<FlexTensor> = starts
        .into_par_iter()
        .map(|start| {
            let weight: Tensor<Flex, 2> = tensor(weight.narrow(0, start, part.min(out - start)));
            let x: Tensor<Flex, 2> = tensor(x.clone());
            primitive(weight.matmul(x.transpose())) // [part, rows]
        })
        .collect();

    // Turned here, in blocks: a turned view would be copied number by number by whoever reads it.
    let mut values = vec![0.0; rows * out];
    values.par_chunks_mut(BLOCK * out).enumerate().for_each(|(block, values)| {
        for (index, from) in parts.iter().enumerate() {
            let to = index * part;
            turn(from.storage::<f32>(), rows, block * BLOCK, &mut values[to..], out);
        }
    });
    from_values(values, [rows, out])
}

/// Rows and columns that are turned at a time: a line of the cache holds 16 numbers.
const BLOCK: usize = 16;

/// Writes columns `first..` of `from`, which has `columns` of them, as rows of `to`, `stride` apart.
fn turn(from: &[f32], columns: usize, first: usize, to: &mut [f32], stride: usize) {
    let count = BLOCK.min(columns - first);
    for (block, from) in from.chunks(BLOCK * columns).enumerate() {
        for column in 0..count {
            let from = from.iter().skip(first + column).step_by(columns);
            let to = &mut to[column * stride + block * BLOCK..];
            to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
        }
    }
}

/// Up to [`MOST_ROWS`] rows, in f32, against weights in the order of memory.
fn streamed(x: FlexTensor, weight: FlexTensor) -> FlexTensor {
    let (rows, width) = (x.shape()[0], x.shape()[1]);
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
        arch.dispatch(Piece { weight, x, width, rows, sums });
    };
    if out * width < WORTH_SHARING {
        fill((weight, &mut sums));
    } else {
        let pieces = weight.par_chunks(CHUNK * width).zip(sums.par_chunks_mut(CHUNK * rows));
        pieces.for_each(fill);
    }
    let values = if rows == 1 { sums } else { transposed(&sums, rows) };
    from_values(values, [rows, out])
}

/// Some rows of the weight: `sums[o, r] = weight[o] . x[r]`.
struct Piece<'a> {
    weight: &'a [f32],
    x: &'a [f32],
    width: usize,
    rows: usize,
    sums: &'a mut [f32],
}

/// Weight rows that are taken together: as many sums run beside each other, so that an addition need
/// not wait for the one before, and `x` is loaded once for all of them.
const TOGETHER: usize = 4;

impl WithSimd for Piece<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { weight, x, width, rows, sums } = self;
        let (fours, rest) = (weight.chunks(TOGETHER * width), sums.chunks_mut(TOGETHER * rows));
        for (weight, sums) in fours.zip(rest) {
            if weight.len() == TOGETHER * width {
                block::<S, TOGETHER>(simd, weight, x, width, rows, sums);
            } else {
                for (weight, sums) in weight.chunks(width).zip(sums.chunks_mut(rows)) {
                    block::<S, 1>(simd, weight, x, width, rows, sums);
                }
            }
        }
    }
}

/// `W` rows of the weight against all rows of `x`.
#[inline(always)]
fn block<S: Simd, const W: usize>(
    simd: S,
    weight: &[f32],
    x: &[f32],
    width: usize,
    rows: usize,
    sums: &mut [f32],
) {
    let mut done = 0;
    while done < rows {
        let x = &x[done * width..];
        let sums = &mut sums[done..];
        done += match rows - done {
            1 => tile::<S, W, 1>(simd, weight, x, width, rows, sums),
            2 | 3 => tile::<S, W, 2>(simd, weight, x, width, rows, sums),
            _ => tile::<S, W, 4>(simd, weight, x, width, rows, sums),
        };
    }
}

/// `W` rows of the weight against the first `R` rows of `x`; gives `R`.
///
/// Each sum runs over the width in the same order whatever `W` and `R` are.
#[inline(always)]
fn tile<S: Simd, const W: usize, const R: usize>(
    simd: S,
    weight: &[f32],
    x: &[f32],
    width: usize,
    stride: usize,
    sums: &mut [f32],
) -> usize {
    let weights: [_; W] = std::array::from_fn(|row| vectors::<S>(weight, row, width));
    let inputs: [_; R] = std::array::from_fn(|row| vectors::<S>(x, row, width));
    // ANCHOR: tile
    let mut partial = [[simd.splat_f32s(0.0); R]; W];
    for i in 0..width / S::F32_LANES {
        for (partial, weight) in partial.iter_mut().zip(&weights) {
            for (partial, input) in partial.iter_mut().zip(&inputs) {
                *partial = simd.mul_add_f32s(weight.0[i], input.0[i], *partial);
            }
        }
    }
    // ANCHOR_END: tile
    for (w, weight) in weights.iter().enumerate() {
        for (r, input) in inputs.iter().enumerate() {
            let tail: f32 = weight.1.iter().zip(input.1).map(|(w, x)| w * x).sum();
            sums[w * stride + r] = simd.reduce_sum_f32s(partial[w][r]) + tail;
        }
    }
    R
}

/// One row as whole vectors, and the rest.
#[inline(always)]
fn vectors<S: Simd>(values: &[f32], row: usize, width: usize) -> (&[S::f32s], &[f32]) {
    let (whole, rest) = S::as_simd_f32s(&values[row * width..(row + 1) * width]);
    // The length in the words of the loop that reads it, so that it need not check.
    (&whole[..width / S::F32_LANES], rest)
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
        for rows in [1, 2, 3, 4, 7, 16, 17, 100, 513] {
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
