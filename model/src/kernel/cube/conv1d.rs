//! Convolution as one matrix product, without laying out its columns.
//!
//! With channels together in memory and zeros before and after, the `k in` values that an output
//! needs follow each other, so the rows of the product are windows of one buffer that overlap: row
//! `s` starts `stride in` values after row `s - 1`. Where taps are `d` samples apart, the buffer holds
//! the samples `0, d, 2 d, ..` first, then `1, d + 1, ..`: neighbours there are `d` apart in the song.
//! One kernel lays the buffer out, one puts the samples back in order and adds the bias.
//!
//! Limits: a stride or a dilation, not both. For runtimes without matrix units: with them, Burn's own
//! convolution is a product that gathers its columns as it goes.

use burn::tensor::{Tensor as Values, TensorMetadata};
use burn_cubecl::{
    BoolElement, CubeBackend, CubeRuntime, FloatElement, IntElement, kernel::into_contiguous,
    ops::numeric::empty_device_contiguous_dtype, tensor::CubeTensor,
};
use cubecl::{calculate_cube_count_elemwise, prelude::*, zspace::metadata::Metadata};

use super::{
    super::{Geometry, primitive, tensor},
    matrix::matmul,
    rows::common_vector,
};

/// Whether [`conv1d`] does this convolution.
pub(super) fn is_for<R: CubeRuntime>(
    x: &CubeTensor<R>,
    weight: &CubeTensor<R>,
    geometry: Geometry,
) -> bool {
    let ([batch, input, samples], [output, _, taps]) = (x.shape().dims(), weight.shape().dims());
    let Geometry { stride, padding, dilation } = geometry;
    let matrix_units = !x.client.properties().features.matmul.cmma.is_empty();
    !matrix_units
        && (stride == 1 || dilation == 1)
        && batch * input * samples * output != 0
        && samples + 2 * padding > dilation * (taps - 1)
}

/// # Shapes
/// - `x`: `[B, in, S]`, `weight`: `[out, in, k]`, `bias`: `[out]`
/// - output: `[B, out, (S + 2 padding - dilation (k - 1) - 1) / stride + 1]`
pub(super) fn conv1d<R, F, I, BT>(
    x: CubeTensor<R>,
    weight: CubeTensor<R>,
    bias: Option<CubeTensor<R>>,
    geometry: Geometry,
) -> CubeTensor<R>
where
    R: CubeRuntime,
    F: FloatElement,
    I: IntElement,
    BT: BoolElement,
{
    let ([batch, input, samples], [channels, _, taps]) = (x.shape().dims(), weight.shape().dims());
    let Geometry { stride, padding, dilation } = geometry;
    let outputs = (samples + 2 * padding - dilation * (taps - 1) - 1) / stride + 1;
    let (client, device, dtype) = (x.client.clone(), x.device.clone(), x.dtype);

    // Places of one group, a whole number of strides.
    let places = (samples + 2 * padding).div_ceil(dilation).next_multiple_of(stride);
    let mut x = x;
    x.meta.swap(1, 2); // [B, S, in]
    let buffer = if padding == 0 && dilation == 1 && places == samples && x.is_contiguous() {
        x
    } else {
        let shape = [batch * dilation, places, input].into();
        let buffer = empty_device_contiguous_dtype(client.clone(), device.clone(), shape, dtype);
        let vector = common_vector(&[&x, &buffer]);
        let units = batch * dilation * places * input / vector;
        let dim = CubeDim::new(&client, units);
        gather_kernel::launch::<R>(
            &client,
            calculate_cube_count_elemwise(&client, units, dim),
            dim,
            x.required_address_type().max(buffer.required_address_type()),
            vector,
            x.into_tensor_arg(),
            buffer.clone().into_tensor_arg(),
            units,
            padding,
            dilation,
            dtype.into(),
        );
        buffer
    };

    // Windows of all groups; those that reach into the next group are nobody's.
    let windows = (batch * dilation * places - taps) / stride + 1;
    let windows = CubeTensor::new(
        client.clone(),
        buffer.handle,
        Metadata::new([windows, taps * input], [stride * input, 1]),
        device.clone(),
        dtype,
    );
    let weight: Values<CubeBackend<R, F, I, BT>, 3> = tensor(weight);
    let weight = weight.swap_dims(1, 2).reshape([channels, taps * input]);
    let product = matmul(windows, primitive(weight.transpose()));

    let shape = [batch, outputs, channels].into();
    let mut output = empty_device_contiguous_dtype(client.clone(), device, shape, dtype);
    let bias = bias.map(into_contiguous);
    let vector = match &bias {
        Some(bias) => common_vector(&[&product, &output, bias]),
        None => common_vector(&[&product, &output]),
    };
    let units = batch * outputs * channels / vector;
    let dim = CubeDim::new(&client, units);
    let row = product.meta.strides()[0] / vector;
    scatter_kernel::launch::<R>(
        &client,
        calculate_cube_count_elemwise(&client, units, dim),
        dim,
        product.required_address_type().max(output.required_address_type()),
        vector,
        product.into_tensor_arg(),
        bias.clone().map(CubeTensor::into_tensor_arg).into(),
        output.clone().into_tensor_arg(),
        units,
        row,
        places / stride,
        dilation,
        [dtype.into(), bias.as_ref().map_or(dtype, |bias| bias.dtype).into()],
    );
    output.meta.swap(1, 2);
    output
}

/// Samples in the order of their groups, zeros around them.
#[cube(launch, address_type = "dynamic")]
fn gather_kernel<T: Float, N: Size>(
    x: &Tensor<Vector<T, N>>,
    buffer: &mut Tensor<Vector<T, N>>,
    units: usize,
    padding: usize,
    dilation: usize,
    #[define(T)] _type: StorageType,
) {
    if ABSOLUTE_POS >= units {
        terminate!();
    }
    let size = buffer.vector_size();
    let channels = buffer.shape(2) / size;
    let channel = ABSOLUTE_POS % channels;
    let place = ABSOLUTE_POS / channels % buffer.shape(1);
    let group = ABSOLUTE_POS / (channels * buffer.shape(1));
    let sample = place * dilation + group % dilation;
    let mut value = Vector::<T, N>::new(T::new(0.0));
    if sample >= padding && sample - padding < x.shape(1) {
        let start = group / dilation * x.stride(0) + (sample - padding) * x.stride(1);
        value = x[(start + channel * size * x.stride(2)) / size];
    }
    buffer[ABSOLUTE_POS] = value;
}

/// Outputs in the order of the song, with the bias.
#[cube(launch, address_type = "dynamic")]
#[allow(clippy::too_many_arguments, reason = "a kernel's inputs, and its launch")]
fn scatter_kernel<T: Float, B: Float, N: Size>(
    product: &Tensor<Vector<T, N>>,
    bias: &ComptimeOption<Tensor<Vector<B, N>>>,
    output: &mut Tensor<Vector<T, N>>,
    units: usize,
    row: usize,
    windows: usize,
    dilation: usize,
    #[define(T, B)] _types: [StorageType; 2],
) {
    if ABSOLUTE_POS >= units {
        terminate!();
    }
    let channels = output.shape(2) / output.vector_size();
    let channel = ABSOLUTE_POS % channels;
    let sample = ABSOLUTE_POS / channels % output.shape(1);
    let item = ABSOLUTE_POS / (channels * output.shape(1));
    let window = (item * dilation + sample % dilation) * windows + sample / dilation;
    let mut sum = Vector::<f32, N>::cast_from(product[window * row + channel]);
    #[comptime]
    match bias {
        ComptimeOption::Some(bias) => sum = sum + Vector::cast_from(bias[channel]),
        ComptimeOption::None => {}
    }
    output[ABSOLUTE_POS] = Vector::cast_from(sum);
}

#[cfg(all(test, feature = "wgpu", feature = "cpu"))]
mod tests {
    use burn::tensor::DType;

    use super::super::testing::{Operation, random, read, same_everywhere};
    use crate::{
        Backend,
        kernel::{self, Geometry},
    };

    struct Convolution {
        batch: usize,
        channels: [usize; 2],
        samples: usize,
        taps: usize,
        geometry: Geometry,
        bias: bool,
        channels_last: bool,
    }

    impl Operation for Convolution {
        fn run<B: Backend>(&self, dtype: DType, device: &B::Device) -> Vec<f32> {
            let &Self { batch, channels: [input, output], samples, taps, .. } = self;
            let x = if self.channels_last {
                random::<B, 3>([batch, samples, input], 1, dtype, device).swap_dims(1, 2)
            } else {
                random::<B, 3>([batch, input, samples], 1, dtype, device)
            };
            let weight = random::<B, 3>([output, input, taps], 2, dtype, device);
            let bias = self.bias.then(|| random::<B, 1>([output], 3, dtype, device));
            let y = kernel::conv1d(x, weight, bias, self.geometry);
            let Geometry { stride, padding, dilation } = self.geometry;
            let outputs = (samples + 2 * padding - dilation * (taps - 1) - 1) / stride + 1;
            assert_eq!(y.dims(), [batch, output, outputs]);
            read(y)
        }
    }

    /// The networks' filters: wide and dilated, one tap, patches, and those that shorten.
    #[test]
    fn every_filter_of_the_networks() {
        let cases = [
            (7, 1, 3, 1),
            (7, 1, 9, 3),
            (7, 1, 27, 9),
            (1, 1, 0, 1),
            (2, 2, 0, 1),
            (4, 2, 1, 1),
            (20, 10, 5, 1),
            (3, 1, 1, 1),
            (3, 1, 0, 2),
        ];
        for (index, (taps, stride, padding, dilation)) in cases.into_iter().enumerate() {
            for channels_last in [false, true] {
                let case = Convolution {
                    batch: 1 + index % 2,
                    channels: [[16, 24], [6, 5], [64, 2]][index % 3],
                    samples: [40, 31, 20][index % 3],
                    taps,
                    geometry: Geometry { stride, padding, dilation },
                    bias: index % 4 != 1,
                    channels_last,
                };
                let name = format!("conv1d k {taps} s {stride} d {dilation}, {channels_last}");
                same_everywhere(&name, &case, 1e-5);
            }
        }
    }
}
