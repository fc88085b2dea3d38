//! Transposed convolution as a matrix product and an overlap-add.
//!
//! Each input frame gives `k` output samples of every channel: `columns[s, (k, out)] = x[s] W`, one
//! product. Output sample `t` then sums its `k / stride` columns,
//! `columns[s, t + left - s stride]`, and the bias, in f32, and is written once. The columns and
//! the output are channels-last.
//!
//! Limits: no dilation, no groups. Columns exist for only some frames at a time, at most [`COLUMNS`] bytes (or
//! one frame), so their memory does not grow with the length.
//!
//! Gain over Burn, which tries a direct kernel and its own columns and keeps the faster, on Mesa
//! lavapipe on two cores: 256 to 128 channels by 4 are 1.1 times as fast, 128 to 128 by 2 1.5
//! times. It also saves memory: Burn's columns cover the whole length.

use burn::tensor::{Tensor as Values, TensorMetadata};
use burn_cubecl::{CubeRuntime, kernel::into_contiguous, tensor::CubeTensor};
use cubecl::prelude::*;

use super::{
    super::{ConvGeometry, primitive, reference, tensor},
    Any,
    conv1d::COLUMNS,
    matrix::matmul,
    rows::{common_vector, elementwise, empty},
};

/// Transposed convolution as a product and an overlap-add, on devices with a faster kernel too.
///
/// # Shapes
/// - `x`: `[B, in, S]`, `weight`: `[in, out, k]`, `bias`: `[out]`
/// - output: `[B, out, S']`
pub fn conv_transpose1d<R: CubeRuntime>(
    x: CubeTensor<R>,
    weight: CubeTensor<R>,
    bias: Option<CubeTensor<R>>,
    geometry: ConvGeometry,
) -> CubeTensor<R> {
    in_tiles(x, weight, bias, geometry, COLUMNS)
}

/// [`conv_transpose1d`] with at most `bytes` of columns.
pub fn in_tiles<R: CubeRuntime>(
    x: CubeTensor<R>,
    weight: CubeTensor<R>,
    bias: Option<CubeTensor<R>>,
    geometry: ConvGeometry,
    bytes: usize,
) -> CubeTensor<R> {
    let ([batch, _, frames], [input, channels, taps]) = (x.shape().dims(), weight.shape().dims());
    let ConvGeometry { stride, padding: [padding, _], dilation, groups } = geometry;
    let samples = geometry.transposed_outputs(frames, taps);
    if dilation != 1 || groups != 1 || batch * frames * channels * samples == 0 {
        return primitive(reference::conv_transpose1d::<Any<R>>(
            tensor(x),
            tensor(weight),
            bias.map(tensor),
            geometry,
        ));
    }
    let (client, dtype) = (x.client.clone(), x.dtype);
    let output = empty(&x, [batch, samples, channels]);
    let bias = bias.map(into_contiguous);

    let x: Values<Any<R>, 3> = tensor(x);
    let x = x.swap_dims(1, 2); // [B, S, in]
    let weight: Values<Any<R>, 3> = tensor(weight);
    let weight = weight.swap_dims(1, 2).reshape([1, input, taps * channels]);

    // A sample also needs the earlier frames that overlap it.
    let before = taps.div_ceil(stride) - 1;
    let tile = (bytes / (taps * channels * dtype.size())).saturating_sub(before).max(1);
    for item in 0..batch {
        for start in (0..frames).step_by(tile) {
            let end = (start + tile).min(frames);
            let from = start.saturating_sub(before);
            let part = x.clone().narrow(0, item, 1).narrow(1, from, end - from);
            let columns = matmul(primitive(part), primitive(weight.clone()));
            // Samples whose newest frame is in this tile.
            let first = (start * stride).max(padding) - padding;
            let last = if end == frames {
                samples
            } else {
                ((end * stride).max(padding) - padding).min(samples)
            };
            if first >= last {
                continue;
            }
            let vector = common_vector([&columns, &output].into_iter().chain(&bias));
            let units = (last - first) * channels / vector;
            let (count, dim) = elementwise(&client, units);
            let row = columns.meta.strides()[1] / vector;
            overlap_add_kernel::launch::<R>(
                &client,
                count,
                dim,
                columns.required_address_type().max(output.required_address_type()),
                vector,
                columns.into_tensor_arg(),
                bias.clone().map(CubeTensor::into_tensor_arg).into(),
                output.clone().into_tensor_arg(),
                units,
                first,
                item * samples,
                from,
                frames,
                row,
                padding,
                taps,
                stride,
                [dtype.into(), bias.as_ref().map_or(dtype, |bias| bias.dtype).into()],
            );
        }
    }
    let mut output = output;
    output.meta.swap(1, 2);
    output
}

#[cube(launch, address_type = "dynamic")]
#[allow(clippy::too_many_arguments, reason = "a kernel's inputs, and its launch")]
fn overlap_add_kernel<T: Float, B: Float, N: Size>(
    columns: &Tensor<Vector<T, N>>,
    bias: &ComptimeOption<Tensor<Vector<B, N>>>,
    output: &mut Tensor<Vector<T, N>>,
    units: usize,
    first: usize,
    item: usize,
    from: usize,
    frames: usize,
    row: usize,
    padding: usize,
    #[comptime] taps: usize,
    #[comptime] stride: usize,
    #[define(T, B)] _types: [StorageType; 2],
) {
    if ABSOLUTE_POS >= units {
        terminate!();
    }
    let channels = output.shape(2) / output.vector_size();
    let channel = ABSOLUTE_POS % channels;
    let sample = first + ABSOLUTE_POS / channels;
    let place = sample + padding;
    let newest = place / stride;

    let mut sum = Vector::<f32, N>::new(0.0f32);
    #[comptime]
    match bias {
        ComptimeOption::Some(bias) => sum = Vector::cast_from(bias[channel]),
        ComptimeOption::None => {}
    }
    #[unroll]
    for age in 0..comptime!(taps.div_ceil(stride)) {
        // Only existing frames, and only those that overlap the sample.
        if newest >= age && newest - age < frames {
            let tap = place - (newest - age) * stride;
            if tap < taps {
                let column = columns[(newest - age - from) * row + tap * channels + channel];
                sum += Vector::<f32, N>::cast_from(column);
            }
        }
    }
    output[(item + sample) * channels + channel] = Vector::cast_from(sum);
}
