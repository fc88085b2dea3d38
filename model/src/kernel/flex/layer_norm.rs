//! Layer norm in three passes over a row in the cache; plain operations take nine over all rows.

use burn::tensor::TensorMetadata;
use burn_flex::FlexTensor;
use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::{WORTH_SHARING, contiguous, level};

/// Kernel of [`super::super::Backend::layer_norm`], for f32.
pub(super) fn layer_norm(
    x: FlexTensor,
    weight: FlexTensor,
    bias: Option<FlexTensor>,
    epsilon: f64,
) -> FlexTensor {
    let width = x.shape()[1];
    if width == 0 {
        return x;
    }
    let (mut x, weight, bias) = (contiguous(x), contiguous(weight), bias.map(contiguous));
    let weight = weight.storage::<f32>();
    let bias = bias.as_ref().map(FlexTensor::storage::<f32>);
    let arch = level::arch();
    let norm = |x: &mut [f32]| arch.dispatch(Rows { x, weight, bias, epsilon });
    // Whole rows for each core. A shared input is copied, which costs less than the norm.
    let piece = width * (WORTH_SHARING / width).max(1);
    let values = x.storage_mut::<f32>();
    match values.len() <= piece {
        true => norm(values),
        false => values.par_chunks_mut(piece).for_each(norm),
    }
    x
}

/// Rows to normalise in place.
struct Rows<'a> {
    x: &'a mut [f32],
    weight: &'a [f32],
    bias: Option<&'a [f32]>,
    epsilon: f64,
}

impl WithSimd for Rows<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { x, weight, bias, epsilon } = self;
        let width = weight.len();
        for x in x.chunks_exact_mut(width) {
            let mean = sum(simd, x, 0.0, false) / width as f32;
            let variance = sum(simd, x, mean, true) / width as f32;
            let inverse = (variance + epsilon as f32).sqrt().recip();
            for (x, weight) in x.iter_mut().zip(weight) {
                *x = (*x - mean) * inverse * weight;
            }
            if let Some(bias) = bias {
                x.iter_mut().zip(bias).for_each(|(x, bias)| *x += bias);
            }
        }
    }
}

/// Sums side by side. The CPU adds them at once; and each of few numbers rounds less, which matters where a
/// vector holds one number.
const SUMS: usize = 8;

/// Returns the sum of `x - mean`, or of its squares.
#[inline(always)]
fn sum<S: Simd>(simd: S, x: &[f32], mean: f32, squared: bool) -> f32 {
    let (vectors, rest) = S::as_simd_f32s(x);
    let mean_of = simd.splat_f32s(mean);
    let mut partial = [simd.splat_f32s(0.0); SUMS];
    let (whole, last) = vectors.as_chunks::<SUMS>();
    for vectors in whole {
        for i in 0..SUMS {
            partial[i] = added(simd, partial[i], simd.sub_f32s(vectors[i], mean_of), squared);
        }
    }
    for (i, &vector) in last.iter().enumerate() {
        partial[i] = added(simd, partial[i], simd.sub_f32s(vector, mean_of), squared);
    }
    let mut total = partial[0];
    for &partial in &partial[1..] {
        total = simd.add_f32s(total, partial);
    }
    let mut sum = simd.reduce_sum_f32s(total);
    for &x in rest {
        let centred = x - mean;
        sum += if squared { centred * centred } else { centred };
    }
    sum
}

#[inline(always)]
fn added<S: Simd>(simd: S, sum: S::f32s, centred: S::f32s, squared: bool) -> S::f32s {
    match squared {
        true => simd.mul_add_f32s(centred, centred, sum),
        false => simd.add_f32s(sum, centred),
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Tensor;
    use burn_flex::Flex;

    use super::{
        super::tests::{assert_close, at_every_level, random},
        *,
    };
    use crate::kernel::{primitive, reference, tensor};

    /// Rows with a mean far from zero too, with and without a bias.
    #[test]
    fn it_is_the_reference() {
        at_every_level(|| {
            for (rows, width) in [(1, 1), (3, 40), (5, 131), (300, 768)] {
                let x = random([rows, width]) + 4.0;
                let (weight, bias) = (random([width]), random([width]));
                for bias in [None, Some(bias)] {
                    let expected =
                        reference::layer_norm(x.clone(), weight.clone(), bias.clone(), 1e-5);
                    let ours = |x: Tensor<Flex, 2>| {
                        let bias = bias.clone().map(primitive);
                        tensor(layer_norm(primitive(x), primitive(weight.clone()), bias, 1e-5))
                    };
                    // With a shared input, and as a view.
                    assert_close::<2>(ours(x.clone()), expected.clone(), 1e-5);
                    let turned = x.clone().transpose().mul_scalar(1.0).transpose();
                    assert_close::<2>(ours(turned), expected, 1e-5);
                }
            }
        });
    }
}
