//! Convolutions as products of shifted rows.

use burn::tensor::{DType, TensorMetadata};
use burn_cubecl::{CubeRuntime, kernel::into_contiguous, ops::permute, tensor::CubeTensor};

use super::{After, Problem, compute, flat, readable};
use crate::kernel::{
    ConvGeometry,
    cube::{cuda::is_hopper, rows::empty},
};

/// True if the kernel for Hopper supports these: `x`: `[B, in, S]`.
pub fn takes_conv<R: CubeRuntime>(
    x: &CubeTensor<R>,
    weight: &CubeTensor<R>,
    geometry: ConvGeometry,
    is_transposed: bool,
) -> bool {
    let ([_, input, samples], [first, second, taps]) = (x.shape().dims(), weight.shape().dims());
    let output = if is_transposed { second } else { first };
    let ConvGeometry { stride, dilation, groups, .. } = geometry;
    let fits = if is_transposed {
        dilation == 1 && taps.is_multiple_of(stride) && output.is_multiple_of(8)
    } else {
        let is_patches = is_patches(geometry, taps) && samples.is_multiple_of(stride);
        is_patches || stride == 1 && geometry.outputs(samples, taps) > 0
    };
    is_hopper(&x.client)
        && [x, weight].into_iter().all(|x| x.dtype == DType::BF16)
        && input.is_multiple_of(8)
        && groups == 1
        && fits
        && x.meta.num_elements() * weight.meta.num_elements() > 0
}

/// True if a filter reads adjacent pieces without overlap. It is then a product of rows that are
/// `k` times as long.
fn is_patches(geometry: ConvGeometry, taps: usize) -> bool {
    geometry == ConvGeometry { stride: taps, ..Default::default() }
}

/// # Shapes
/// - `x`: `[B, in, S]`, `weight`: `[out, in, k]`, `bias`: `[out]`
/// - output: `[B, out, S']`, channels last in memory
pub(in super::super::super) fn conv1d<R: CubeRuntime>(
    x: CubeTensor<R>,
    weight: CubeTensor<R>,
    bias: Option<CubeTensor<R>>,
    geometry: ConvGeometry,
) -> CubeTensor<R> {
    conv1d_and(x, weight, geometry, After::bias(bias))
}

/// True if a snake can follow a convolution with this number of channels.
pub(in super::super::super) fn takes_snake<R: CubeRuntime>(
    weight: &CubeTensor<R>,
    wave: &[CubeTensor<R>; 2],
) -> bool {
    weight.meta.shape()[0].is_multiple_of(8) && wave.iter().all(|part| part.dtype == DType::BF16)
}

/// Computes [`conv1d`], then the snake of the result.
pub(in super::super::super) fn conv1d_snake<R: CubeRuntime>(
    x: CubeTensor<R>,
    weight: CubeTensor<R>,
    bias: Option<CubeTensor<R>>,
    geometry: ConvGeometry,
    wave: [CubeTensor<R>; 2],
) -> CubeTensor<R> {
    let snake = Some(wave.map(into_contiguous));
    conv1d_and(x, weight, geometry, After { snake, ..After::bias(bias) })
}

/// Computes [`conv1d`] that keeps the length, plus `residual`, and the snake of the sum. Returns
/// both.
pub(in super::super::super) fn conv1d_add_snake<R: CubeRuntime>(
    residual: CubeTensor<R>,
    x: CubeTensor<R>,
    weight: CubeTensor<R>,
    bias: Option<CubeTensor<R>>,
    geometry: ConvGeometry,
    wave: [CubeTensor<R>; 2],
) -> [CubeTensor<R>; 2] {
    let residual = into_contiguous(permute(residual, &[0, 2, 1])); // [B, S, out]
    let both = empty(&x, residual.meta.shape().clone());
    let after = After {
        residual: Some(residual),
        snake: Some(wave.map(into_contiguous)),
        both: Some(both.clone()),
        ..After::bias(bias)
    };
    let sum = conv1d_and(x, weight, geometry, after);
    [sum, permute(both, &[0, 2, 1])]
}

/// # Shapes
/// - `x`: `[B, in, S]`, `weight`: `[out, in, k]`
/// - output: `[B, out, S']`, channels last in memory
fn conv1d_and<R: CubeRuntime>(
    x: CubeTensor<R>,
    weight: CubeTensor<R>,
    geometry: ConvGeometry,
    after: After<R>,
) -> CubeTensor<R> {
    let ([batch, channels, samples], [columns, _, taps]) =
        (x.shape().dims(), weight.shape().dims());
    let ConvGeometry { padding: [left, _], dilation, .. } = geometry;
    let weight = into_contiguous(permute(weight, &[0, 2, 1])); // [out, k, in]
    let weight = flat(weight, [columns, taps * channels]);
    let x = permute(x, &[0, 2, 1]); // [B, S, in]
    let (x, rows, channels, taps) = if is_patches(geometry, taps) {
        let rows = samples / taps;
        let x = flat(into_contiguous(x), [batch, rows, taps * channels]);
        (x, rows, taps * channels, 1)
    } else {
        (x, geometry.outputs(samples, taps), channels, taps)
    };
    let x = readable(x);
    let y = empty(&x, [batch, rows, columns]);
    let (shift, step) = (-(left as i32), dilation as i32);
    let problem = Problem { taps, shift, step, ..Problem::of([batch, rows, channels], columns) };
    compute(&x, &weight, &after, &y, problem);
    permute(y, &[0, 2, 1])
}

/// # Shapes
/// - `x`: `[B, in, S]`, `weight`: `[in, out, k]`, `bias`: `[out]`
/// - output: `[B, out, S']`, channels last in memory
pub(in super::super::super) fn conv_transpose1d<R: CubeRuntime>(
    x: CubeTensor<R>,
    weight: CubeTensor<R>,
    bias: Option<CubeTensor<R>>,
    geometry: ConvGeometry,
) -> CubeTensor<R> {
    let ([batch, channels, frames], [_, outputs, k]) = (x.shape().dims(), weight.shape().dims());
    let ConvGeometry { stride, padding: [left, _], .. } = geometry;
    let samples = geometry.transposed_outputs(frames, k);
    let taps = k / stride;
    let x = readable(permute(x, &[0, 2, 1])); // [B, S, in]
    // Sample `t stride + p` depends on frame `t - tap` through filter tap `tap stride + p`.
    let weight = into_contiguous(permute(weight, &[2, 1, 0])); // [k, out, in]
    let weight = flat(weight, [taps, stride * outputs, channels]);
    let columns = stride * outputs;
    let weight = flat(into_contiguous(permute(weight, &[1, 0, 2])), [columns, taps * channels]);
    let y = empty(&x, [batch, samples, outputs]);
    // The last frames extend beyond their own samples.
    let rows = frames + taps - 1;
    let problem = Problem {
        taps,
        step: -1,
        period: outputs,
        item_size: samples * outputs,
        offset: -((left * outputs) as i64),
        ..Problem::of([batch, rows, channels], columns)
    };
    compute(&x, &weight, &After::bias(bias), &y, problem);
    permute(y, &[0, 2, 1])
}
