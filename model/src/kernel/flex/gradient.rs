//! Gradients of norms and gates, in one pass.

use burn::tensor::TensorMetadata;
use burn_flex::FlexTensor;
use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::{WORTH_SHARING, contiguous, exp::exp, from_values, level};

/// Kernel of [`super::super::Backend::rms_norm_gradients`], for f32.
pub(super) fn rms_norm_gradients(
    x: FlexTensor,
    weight: FlexTensor,
    epsilon: f64,
    gradient: FlexTensor,
) -> [FlexTensor; 2] {
    let width = x.shape()[1];
    if width == 0 {
        return [gradient, weight];
    }
    let [x, weight] = [x, weight].map(contiguous);
    let mut gradient = contiguous(gradient);
    let (inputs, weight) = (x.storage::<f32>(), weight.storage::<f32>());
    let slopes = gradient.storage_mut::<f32>();
    // The number of pieces does not depend on the number of cores, so the sum is always the same.
    let piece = width * (WORTH_SHARING / width).max(1);
    let parts: Vec<Vec<f32>> = inputs
        .par_chunks(piece)
        .zip(slopes.par_chunks_mut(piece))
        .map(|(x, slope)| {
            let mut sums = vec![0.0; width];
            level::arch().dispatch(Norm { x, weight, epsilon, slope, of_weight: &mut sums });
            sums
        })
        .collect();
    let mut of_weight = vec![0.0; width];
    for part in parts {
        of_weight.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
    }
    [gradient, from_values(of_weight, [width])]
}

/// Replaces the gradients of rows by those of the input.
pub(super) struct Norm<'a> {
    pub(super) x: &'a [f32],
    pub(super) weight: &'a [f32],
    pub(super) epsilon: f64,
    pub(super) slope: &'a mut [f32],
    pub(super) of_weight: &'a mut [f32],
}

impl WithSimd for Norm<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { x, weight, epsilon, slope, of_weight } = self;
        let width = weight.len();
        for (x, slope) in x.chunks_exact(width).zip(slope.chunks_exact_mut(width)) {
            let (vectors, last) = S::as_simd_f32s(x);
            let (weights, last_weight) = S::as_simd_f32s(weight);
            let (slopes, last_slope) = S::as_simd_f32s(slope);
            let mut squares = simd.splat_f32s(0.0);
            let mut along = simd.splat_f32s(0.0);
            for ((&x, &weight), &slope) in vectors.iter().zip(weights).zip(slopes) {
                squares = simd.mul_add_f32s(x, x, squares);
                along = simd.mul_add_f32s(simd.mul_f32s(slope, weight), x, along);
            }
            let mut squares = simd.reduce_sum_f32s(squares);
            let mut along = simd.reduce_sum_f32s(along);
            for ((x, weight), slope) in last.iter().zip(last_weight).zip(last_slope) {
                squares += x * x;
                along += slope * weight * x;
            }
            let inverse = (squares / width as f32 + epsilon as f32).sqrt().recip();
            let pull = along / width as f32 * inverse * inverse;
            for (((x, weight), slope), sum) in x.iter().zip(weight).zip(slope).zip(&mut *of_weight)
            {
                *sum += *slope * x * inverse;
                *slope = inverse * (*slope * weight - x * pull);
            }
        }
    }
}

/// Kernel of [`super::super::Backend::swiglu_gradients`], for f32.
pub(super) fn swiglu_gradients(
    gate: FlexTensor,
    up: FlexTensor,
    gradient: FlexTensor,
) -> [FlexTensor; 2] {
    let shape = [gate.shape()[0], gate.shape()[1]];
    let [gate, up, gradient] = [gate, up, gradient].map(contiguous);
    let (gate, up) = (gate.storage::<f32>(), up.storage::<f32>());
    let slope = gradient.storage::<f32>();
    let mut of_gate = vec![0.0; gate.len()];
    let mut of_up = vec![0.0; gate.len()];
    let inputs = gate.par_chunks(WORTH_SHARING).zip(up.par_chunks(WORTH_SHARING));
    let outputs = of_gate.par_chunks_mut(WORTH_SHARING).zip(of_up.par_chunks_mut(WORTH_SHARING));
    inputs.zip(slope.par_chunks(WORTH_SHARING)).zip(outputs).for_each(
        |(((gate, up), slope), (of_gate, of_up))| {
            level::arch().dispatch(Gate { gate, up, slope, of_gate, of_up });
        },
    );
    [from_values(of_gate, shape), from_values(of_up, shape)]
}

struct Gate<'a> {
    gate: &'a [f32],
    up: &'a [f32],
    slope: &'a [f32],
    of_gate: &'a mut [f32],
    of_up: &'a mut [f32],
}

impl WithSimd for Gate<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (gates, last_gate) = S::as_simd_f32s(self.gate);
        let (ups, last_up) = S::as_simd_f32s(self.up);
        let (slopes, last_slope) = S::as_simd_f32s(self.slope);
        let (of_gates, last_of_gate) = S::as_mut_simd_f32s(self.of_gate);
        let (of_ups, last_of_up) = S::as_mut_simd_f32s(self.of_up);
        let all = gates.iter().zip(ups).zip(slopes).zip(of_gates.iter_mut().zip(of_ups));
        for (((&gate, &up), &slope), (of_gate, of_up)) in all {
            [*of_gate, *of_up] = gated(simd, gate, up, slope);
        }
        let [gate, up, slope] =
            [last_gate, last_up, last_slope].map(|last| simd.partial_load_f32s(last));
        let [of_gate, of_up] = gated(simd, gate, up, slope);
        simd.partial_store_f32s(last_of_gate, of_gate);
        simd.partial_store_f32s(last_of_up, of_up);
    }
}

#[inline(always)]
fn gated<S: Simd>(simd: S, gate: S::f32s, up: S::f32s, slope: S::f32s) -> [S::f32s; 2] {
    let one = simd.splat_f32s(1.0);
    let below = simd.add_f32s(one, exp(simd, simd.neg_f32s(gate)));
    let open = simd.div_f32s(one, below);
    let silu = simd.mul_f32s(gate, open);
    let rise = simd.mul_add_f32s(silu, simd.sub_f32s(one, open), open);
    [simd.mul_f32s(simd.mul_f32s(slope, up), rise), simd.mul_f32s(slope, silu)]
}

#[cfg(test)]
mod tests {
    use burn_flex::Flex;

    use super::{
        super::tests::{assert_close, at_every_level, random},
        *,
    };
    use crate::kernel::{primitive, reference, tensor};

    #[test]
    fn norms_are_the_reference() {
        at_every_level(|| {
            for (rows, width) in [(1, 1), (3, 40), (90, 257), (300, 1024)] {
                let (x, weight, gradient) =
                    (random([rows, width]), random([width]), random([rows, width]));
                let (of_x, of_weight) = reference::rms_norm_gradients::<Flex>(
                    x.clone(),
                    weight.clone(),
                    1e-6,
                    gradient.clone(),
                );
                let (x, weight) = (primitive(x), primitive(weight));
                let ours = rms_norm_gradients(x, weight, 1e-6, primitive(gradient));
                let [ours_x, ours_weight] = ours;
                assert_close::<2>(tensor(ours_x), of_x, 2e-5);
                assert_close::<1>(tensor(ours_weight), of_weight, 1e-4);
            }
        });
    }

    #[test]
    fn gates_are_the_reference_also_far_from_zero() {
        at_every_level(|| {
            for (rows, width) in [(1, 3), (7, 40), (90, 1024)] {
                let gate = random([rows, width]) * 30.0;
                let (up, gradient) = (random([rows, width]), random([rows, width]));
                let expected =
                    reference::swiglu_gradients::<Flex>(gate.clone(), up.clone(), gradient.clone());
                let ours = swiglu_gradients(primitive(gate), primitive(up), primitive(gradient));
                for (ours, expected) in ours.into_iter().zip(expected) {
                    assert_close::<2>(tensor(ours), expected, 3e-5);
                }
            }
        });
    }
}
