//! Transposed convolutions of a few channels in groups.
//!
//! Output `q stride + phase` of a channel is the bias and the sum over the channels of its group, and over
//! `m`, of `x[q - m] w[phase + m stride]`. So the outputs of a moment `q` lie side by side, as their taps
//! do, and a core computes whole channels. A filter without groups has a kernel of its own.

use burn::tensor::{DType, TensorMetadata};
use burn_flex::{Flex, FlexTensor};
use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::{
    super::{ConvGeometry, primitive, reference, tensor},
    WORTH_SHARING, contiguous, conv, from_values, level, zeros,
};

/// Kernel of [`super::super::Backend::conv_transpose1d`], for f32 and for weights of bf16.
pub(super) fn conv_transpose1d(
    x: FlexTensor,
    weight: FlexTensor,
    bias: Option<FlexTensor>,
    geometry: ConvGeometry,
) -> FlexTensor {
    let ConvGeometry { stride, padding: [left, _], dilation, groups } = geometry;
    if groups == 1 {
        return conv::conv_transpose1d(x, weight, bias, geometry);
    }
    let [batch, channels, samples] = [x.shape()[0], x.shape()[1], x.shape()[2]];
    let [own, taps] = [weight.shape()[1], weight.shape()[2]];
    let length = geometry.transposed_outputs(samples, taps);
    let is_f32 = std::iter::once(&x).chain(&bias).all(|of| of.dtype() == DType::F32);
    let is_empty = [batch, channels, samples, own, taps, length].contains(&0);
    if !is_f32 || dilation != 1 || is_empty {
        let (weight, bias) = (tensor(weight), bias.map(tensor));
        let y = reference::conv_transpose1d::<Flex>(tensor(x), weight, bias, geometry);
        return primitive(y);
    }
    // A narrow filter of groups is small.
    let weight = primitive::<Flex, 3>(tensor::<Flex, 3>(weight).cast(DType::F32));
    let (x, weight, bias) = (contiguous(x), contiguous(weight), bias.map(contiguous));
    let (x, weight) = (x.storage::<f32>(), weight.storage::<f32>());
    let bias = bias.as_ref().map(FlexTensor::storage::<f32>);
    let (inputs, outputs) = (channels / groups, groups * own);
    let mut out = zeros(batch * outputs * length);
    let arch = level::arch();
    let least = (WORTH_SHARING / length).max(1);
    let rows = out.par_chunks_mut(length).enumerate().with_min_len(least);
    rows.for_each(|(row, out)| {
        let (item, output) = (row / outputs, row % outputs);
        out.fill(bias.map_or(0.0, |bias| bias[output]));
        let (group, output) = (output / own, output % own);
        for input in group * inputs..(group + 1) * inputs {
            let x = &x[(item * channels + input) * samples..][..samples];
            let weight = &weight[(input * own + output) * taps..][..taps];
            arch.dispatch(Add { x, weight, out: &mut *out, stride, left });
        }
    });
    from_values(out, [batch, outputs, length])
}

/// The part of one input channel in one output channel.
struct Add<'a> {
    x: &'a [f32],
    weight: &'a [f32],
    out: &'a mut [f32],
    stride: usize,
    left: usize,
}

impl WithSimd for Add<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { x, weight, out, stride, left } = self;
        // Outputs of the first inputs may lie before the beginning, those of the last after the end.
        let taps = weight.len();
        for (index, &x) in x.iter().enumerate() {
            let start = index * stride;
            let skipped = left.saturating_sub(start);
            if skipped >= taps {
                continue;
            }
            let weight = &weight[skipped..];
            let to = out.get_mut(start + skipped - left..).unwrap_or_default();
            match weight.len() {
                4 => add::<4>(to, weight, x),
                8 => add::<8>(to, weight, x),
                16 => add::<16>(to, weight, x),
                _ => to.iter_mut().zip(weight).for_each(|(to, weight)| *to += x * weight),
            }
        }
    }
}

/// Adds `x weight`, of a number of taps that the compiler knows; fewer at the end of the output.
#[inline(always)]
fn add<const N: usize>(to: &mut [f32], weight: &[f32], x: f32) {
    if let (Some(to), Some(weight)) = (to.first_chunk_mut::<N>(), weight.first_chunk::<N>()) {
        to.iter_mut().zip(weight).for_each(|(to, weight)| *to += x * weight);
    } else {
        to.iter_mut().zip(weight).for_each(|(to, weight)| *to += x * weight);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_close, at_every_level, random};
    use super::*;

    /// Pairs of channels as in NanoCodec, whole groups, one channel each; outputs that are cut on either
    /// side, also more than a filter has; and a filter of bf16.
    #[test]
    fn it_is_the_reference_for_any_groups_and_ends() {
        at_every_level(|| {
            for ([inputs, own], groups, stride, taps, padding, samples) in [
                ([2, 1], 432, 8, 16, [0, 8], 3),
                ([2, 1], 27, 2, 4, [2, 2], 101),
                ([2, 1], 5, 4, 8, [4, 4], 40),
                ([1, 1], 4, 2, 4, [0, 0], 1),
                ([3, 2], 3, 3, 7, [5, 1], 9),
                ([1, 2], 2, 1, 3, [7, 0], 9),
                ([2, 1], 2, 8, 16, [20, 12], 6),
            ] {
                let x = random([2, inputs * groups, samples]);
                let weight = random([inputs * groups, own, taps]);
                let geometry = ConvGeometry { stride, padding, dilation: 1, groups };
                for bias in [None, Some(random([own * groups]))] {
                    let of = |dtype| {
                        let weight = weight.clone().cast(dtype);
                        let expected = reference::conv_transpose1d(
                            x.clone(),
                            weight.clone(),
                            bias.clone(),
                            geometry,
                        );
                        let bias = bias.clone().map(primitive);
                        let ours = conv_transpose1d(
                            primitive(x.clone()),
                            primitive(weight),
                            bias,
                            geometry,
                        );
                        assert_close::<3>(tensor(ours), expected, 1e-5);
                    };
                    of(DType::F32);
                    of(DType::BF16);
                }
            }
        });
    }
}
