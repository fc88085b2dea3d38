//! Convolutions of each channel with its own filter.

use burn::tensor::{DType, bf16};
use burn_flex::FlexTensor;
use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::{
    super::{super::ConvGeometry, WORTH_SHARING, contiguous, from_values},
    dims,
};

/// Computes a convolution with as many groups as channels and outputs; `None` if it has another
/// type or geometry.
pub(super) fn conv1d(
    x: &FlexTensor,
    weight: &FlexTensor,
    bias: Option<&FlexTensor>,
    geometry: ConvGeometry,
) -> Option<FlexTensor> {
    let ([batch, channels, samples], [outputs, inputs, taps]) = (dims(x), dims(weight));
    let length = geometry.outputs(samples, taps);
    let is_depthwise = (inputs, outputs, geometry.groups) == (1, channels, channels);
    let is_f32 = [Some(x), bias].into_iter().flatten().all(|of| of.dtype() == DType::F32);
    if !is_depthwise || !is_f32 || geometry.stride != 1 || length * channels * taps == 0 {
        return None;
    }
    let weights: Vec<f32> = match weight.dtype() {
        DType::F32 => contiguous(weight.clone()).storage::<f32>().to_vec(),
        DType::BF16 => {
            let weight = contiguous(weight.clone());
            weight.storage::<bf16>().iter().map(|weight| weight.to_f32()).collect()
        }
        _ => return None,
    };
    let (x, bias) = (contiguous(x.clone()), bias.map(|bias| contiguous(bias.clone())));
    let (x, bias) = (x.storage::<f32>(), bias.as_ref().map(FlexTensor::storage::<f32>));
    let mut out = vec![0.0; batch * channels * length];
    let least = (WORTH_SHARING / (length * taps)).max(1);
    let all = out.par_chunks_mut(length).zip(x.par_chunks(samples)).with_min_len(least);
    all.enumerate().for_each(|(index, (out, x))| {
        let channel = index % channels;
        out.fill(bias.map_or(0.0, |bias| bias[channel]));
        let weights = &weights[channel * taps..][..taps];
        Arch::new().dispatch(Channel { x, weights, geometry, out });
    });
    Some(from_values(out, [batch, channels, length]))
}

/// One channel; adds to `out`.
struct Channel<'a> {
    x: &'a [f32],
    weights: &'a [f32],
    geometry: ConvGeometry,
    out: &'a mut [f32],
}

impl WithSimd for Channel<'_> {
    type Output = ();

    // Tap by tap, so that every sum has its terms in one order wherever a sound is cut.
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { x, weights, geometry: ConvGeometry { padding: [left, _], dilation, .. }, out } =
            self;
        for (tap, &weight) in weights.iter().enumerate() {
            // Outputs before the first and after the last input that the tap meets.
            let at = tap * dilation;
            let first = left.saturating_sub(at).min(out.len());
            let from = (first + at).saturating_sub(left).min(x.len());
            let count = (out.len() - first).min(x.len() - from);
            let (to, from) = (&mut out[first..first + count], &x[from..from + count]);
            for i in 0..count {
                to[i] += weight * from[i];
            }
        }
    }
}
