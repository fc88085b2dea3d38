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
use cubecl::{calculate_cube_count_elemwise, prelude::*};

use super::{
    super::{ConvGeometry, primitive, reference, tensor},
    Any,
    conv1d::COLUMNS,
    matrix::matmul,
    rows::{common_vector, empty},
};

/// # Shapes
/// - `x`: `[B, in, S]`, `weight`: `[in, out, k]`, `bias`: `[out]`
/// - output: `[B, out, S']`
pub(super) fn conv_transpose1d<R: CubeRuntime>(
    x: CubeTensor<R>,
    weight: CubeTensor<R>,
    bias: Option<CubeTensor<R>>,
    geometry: ConvGeometry,
) -> CubeTensor<R> {
    in_tiles(x, weight, bias, geometry, COLUMNS)
}

/// [`conv_transpose1d`] with at most `bytes` of columns.
fn in_tiles<R: CubeRuntime>(
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
            let dim = CubeDim::new(&client, units);
            let row = columns.meta.strides()[1] / vector;
            overlap_add_kernel::launch::<R>(
                &client,
                calculate_cube_count_elemwise(&client, units, dim),
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

#[cfg(all(test, feature = "wgpu", feature = "cpu"))]
mod tests {
    use burn::tensor::{DType, Tensor};
    use burn_wgpu::WgpuRuntime;

    use super::super::testing::{Operation, Plain, random, read, same_everywhere, sound};
    use super::*;
    use crate::{Backend, kernel};

    struct Transposed {
        batch: usize,
        channels: [usize; 2],
        frames: usize,
        taps: usize,
        stride: usize,
        padding: [usize; 2],
        bias: bool,
        channels_last: bool,
    }

    impl Transposed {
        fn geometry(&self) -> ConvGeometry {
            ConvGeometry { stride: self.stride, padding: self.padding, ..Default::default() }
        }

        fn inputs<B: Backend>(
            &self,
            dtype: DType,
            device: &B::Device,
        ) -> (Tensor<B, 3>, Tensor<B, 3>, Option<Tensor<B, 1>>) {
            let &Self { batch, channels: [input, output], frames, taps, .. } = self;
            let shape = [batch, input, frames];
            let x = sound::<B>(shape, self.channels_last, 1, dtype, device);
            let weight = random::<B, 3>([input, output, taps], 2, dtype, device);
            (x, weight, self.bias.then(|| random::<B, 1>([output], 3, dtype, device)))
        }
    }

    impl Operation for Transposed {
        fn run<B: Backend>(&self, dtype: DType, device: &B::Device) -> Vec<f32> {
            let (x, weight, bias) = self.inputs::<B>(dtype, device);
            read(kernel::conv_transpose1d(x, weight, bias, self.geometry()))
        }
    }

    /// Oobleck's five strides and the patches of the transformer, with fewer channels.
    fn cases() -> Vec<Transposed> {
        let both = [(20, 10, 5), (12, 6, 3), (8, 4, 2), (4, 2, 1), (2, 2, 0), (7, 3, 2)];
        let both = both.map(|(taps, stride, padding)| (taps, stride, [padding; 2]));
        // As in a stream: no sample before the first frame, none after the last.
        let trimmed = [(8, 4, [0, 4]), (16, 4, [12, 4])];
        both.into_iter()
            .chain(trimmed)
            .enumerate()
            .map(|(index, (taps, stride, padding))| Transposed {
                batch: 1 + index % 2,
                channels: [[24, 16], [24, 16], [6, 5]][index % 3],
                frames: [9, 1, 14, 12][index % 4],
                taps,
                stride,
                padding,
                bias: index != 2,
                channels_last: index % 3 == 1,
            })
            .collect()
    }

    #[test]
    fn every_stride_of_the_networks() {
        for case in cases() {
            let name = format!("conv_transpose1d k {} s {}", case.taps, case.stride);
            same_everywhere(&name, &case, 1e-5);
        }
    }

    /// Tiles join without errors, down to one frame each.
    #[test]
    fn tiles_are_one_whole() {
        let device = burn_wgpu::WgpuDevice::DefaultDevice;
        for case in cases() {
            let run = |frames: usize| {
                let (x, weight, bias) = case.inputs::<Plain>(DType::F32, &device);
                let bytes = frames * case.taps * case.channels[1] * size_of::<f32>();
                let y = in_tiles::<WgpuRuntime>(
                    primitive(x),
                    primitive(weight),
                    bias.map(primitive),
                    case.geometry(),
                    bytes,
                );
                read::<Plain, 3>(tensor(y))
            };
            let whole = run(100);
            for frames in [1, 3, 4] {
                let worst = whole.iter().zip(run(frames)).map(|(a, b)| (a - b).abs());
                let worst = worst.fold(0.0, f32::max);
                assert!(worst < 1e-5, "k {}, {frames} frames a tile: {worst}", case.taps);
            }
        }
    }
}
