//! Gradients of the snake, in one pass over its input.

use burn::tensor::TensorMetadata;
use burn_flex::FlexTensor;
use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::{Curve, FAR, contiguous, from_values, level, reduced_sine};

/// Kernel of [`super::super::super::Backend::snake_gradients`], for f32.
pub(in super::super) fn snake_gradients(
    x: FlexTensor,
    alpha: FlexTensor,
    beta: FlexTensor,
    gradient: FlexTensor,
) -> [FlexTensor; 3] {
    let [_, channels, samples] = x.shape().dims();
    let length = samples.max(1);
    let curves = Curve::of_channels(alpha, beta);
    let (x, mut gradient) = (contiguous(x), contiguous(gradient));
    let values = x.storage::<f32>();
    let slopes = gradient.storage_mut::<f32>();
    let rows = values.par_chunks(length).zip(slopes.par_chunks_mut(length)).enumerate();
    let sums: Vec<[f32; 2]> = rows
        .map(|(index, (x, slope))| {
            let curve = curves[index % channels];
            level::arch().dispatch(Pass { curve, x, slope })
        })
        .collect();
    let of_channels = |which: usize| {
        let of_channel = |channel: usize| -> f32 {
            sums.iter().skip(channel).step_by(channels).map(|sums| sums[which]).sum()
        };
        from_values((0..channels).map(of_channel).collect(), [1, channels, 1])
    };
    let [of_alpha, of_beta] = [0, 1].map(of_channels);
    [gradient, of_alpha, of_beta]
}

/// Replaces the gradient of a channel by its input's; returns those of `alpha` and `beta`.
struct Pass<'a> {
    curve: Curve,
    x: &'a [f32],
    slope: &'a mut [f32],
}

impl WithSimd for Pass<'_> {
    type Output = [f32; 2];

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> [f32; 2] {
        let Self { curve, x, slope } = self;
        let zero = simd.splat_f32s(0.0);
        let mut sums = [zero; 2];
        let (values, last_values) = S::as_simd_f32s(x);
        let (slopes, last_slopes) = S::as_mut_simd_f32s(slope);
        for (slope, &x) in slopes.iter_mut().zip(values) {
            *slope = pass(simd, curve, x, *slope, &mut sums);
        }
        if !last_values.is_empty() {
            let x = simd.partial_load_f32s(last_values);
            let slope = simd.partial_load_f32s(last_slopes);
            let passed = pass(simd, curve, x, slope, &mut sums);
            simd.partial_store_f32s(last_slopes, passed);
        }
        let Curve { frequency, amplitude } = curve;
        // `b c^2` is `c - 1e-9 c^2`.
        let of_beta = amplitude - 1e-9 * amplitude * amplitude;
        let [of_alpha, squares] = sums.map(|sum| simd.reduce_sum_f32s(sum));
        [of_alpha * frequency * amplitude, -squares * of_beta]
    }
}

/// Returns the gradient for a vector of inputs; accumulates `g x sin(2 a x)` and `g sin^2(a x)`.
#[inline(always)]
fn pass<S: Simd>(
    simd: S,
    Curve { frequency, amplitude }: Curve,
    x: S::f32s,
    slope: S::f32s,
    sums: &mut [S::f32s; 2],
) -> S::f32s {
    let angle = simd.mul_f32s(x, simd.splat_f32s(frequency));
    // Beyond `FAR` an f32 angle does not determine its sine, so the angle is clamped.
    let far = simd.splat_f32s(FAR);
    let angle = simd.max_f32s(simd.min_f32s(angle, far), simd.splat_f32s(-FAR));
    let [sine, u] = reduced_sine(simd, angle);
    let mut cosine = simd.splat_f32s(COSINE[5]);
    for term in [COSINE[4], COSINE[3], COSINE[2], COSINE[1], COSINE[0]] {
        cosine = simd.mul_add_f32s(cosine, u, simd.splat_f32s(term));
    }
    // The reduction changes the signs of sine and cosine together, so their product is right.
    let half = simd.mul_f32s(sine, cosine);
    let double = simd.add_f32s(half, half);
    sums[0] = simd.mul_add_f32s(simd.mul_f32s(slope, x), double, sums[0]);
    sums[1] = simd.mul_add_f32s(simd.mul_f32s(slope, sine), sine, sums[1]);
    let steepness = simd.splat_f32s(frequency * amplitude);
    simd.mul_add_f32s(simd.mul_f32s(slope, steepness), double, slope)
}

/// Taylor coefficients of `cos(r)` in powers of `r^2`; the error is 5e-7 up to pi / 2.
const COSINE: [f32; 6] = [1.0, -0.5, 1.0 / 24.0, -1.0 / 720.0, 1.0 / 40_320.0, -1.0 / 3_628_800.0];

#[cfg(test)]
mod tests {
    use burn_flex::Flex;

    use super::{
        super::super::tests::{assert_close, at_every_level, random},
        *,
    };
    use crate::kernel::{primitive, reference, tensor};

    #[test]
    fn it_is_the_reference() {
        at_every_level(|| {
            for (batch, channels, samples) in [(1, 1, 1), (2, 3, 5), (3, 8, 1203)] {
                let x = random([batch, channels, samples]) * 3.0;
                let gradient = random([batch, channels, samples]);
                let (alpha, beta) =
                    (random([1, channels, 1]) * 0.5, random([1, channels, 1]) * 0.5);
                let all = [&x, &alpha, &beta, &gradient].map(|of| of.clone());
                let [a, b, c, d] = all;
                let expected = reference::snake_gradients::<Flex>(a, b, c, d);
                let [alpha, beta] = [alpha, beta].map(primitive);
                let ours = snake_gradients(primitive(x), alpha, beta, primitive(gradient));
                for (ours, expected) in ours.into_iter().zip(expected) {
                    assert_close(tensor(ours), expected, 2e-4);
                }
            }
        });
    }
}
