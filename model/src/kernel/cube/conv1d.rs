//! Convolution as a matrix product.
//!
//! `columns[s, (k, in)] = x[in, s stride + k dilation - left]`, zero outside, then one product with
//! the weight, then the bias. The columns and the output are channels-last.
//!
//! Limits: no groups. Columns exist for only some samples at a time, at most [`COLUMNS`] bytes (or one
//! sample), so their memory does not grow with the length. The weight is transposed in every call.
//! If a device has matrix units for the type, Burn's implicit GEMM convolution is faster. Filters
//! of one tap are a product in Burn too. Both still use this kernel if Burn's would round f32 to
//! tf32 ([`is_cut`]), or if autotuning is off. A driver in software needs no columns:
//! [`plain_product::conv1d`] reads the samples of each tap where they are.
//!
//! Gain of the columns over Burn's convolution, which computes one output per unit, on Mesa lavapipe on
//! two cores: 128 to 128 channels of 4800 samples with seven taps are 2.5 times as fast at dilations 1
//! and 9; patches of two 1.3 times; one tap 0.9 times.

use burn::tensor::{Tensor as Values, TensorMetadata};
use burn_cubecl::{CubeRuntime, kernel::into_contiguous, tensor::CubeTensor};
use cubecl::prelude::*;

use super::{
    super::{ConvGeometry, primitive, tensor},
    Any,
    device::{is_cut, is_in_software, is_tuned},
    matrix::matmul,
    plain_product,
    rows::{common_vector, elementwise, empty},
};

/// Maximum bytes of columns at a time: half of the smallest tensor limit of any device.
pub(super) const COLUMNS: usize = 64 << 20;

/// True if [`conv1d`] handles this convolution.
pub(super) fn is_for<R: CubeRuntime>(
    x: &CubeTensor<R>,
    weight: &CubeTensor<R>,
    geometry: ConvGeometry,
) -> bool {
    let ([batch, input, samples], [output, _, taps]) = (x.shape().dims(), weight.shape().dims());
    // On Vulkan, matrix units take f16 and bf16 but not f32.
    let cmma = &x.client.properties().features.matmul.cmma;
    let matrix_units = cmma.iter().any(|config| config.a_type == x.dtype.into());
    // Burn autotunes its own variants, which is not always wanted and may round f32 to tf32.
    let pays = !is_tuned() || is_cut(x) || !matrix_units && taps > 1;
    pays && batch * input * samples * output != 0
        && geometry.groups == 1
        && geometry.outputs(samples, taps) > 0
}

/// # Shapes
/// - `x`: `[B, in, S]`, `weight`: `[out, in, k]`, `bias`: `[out]`
/// - output: `[B, out, S']`
pub(super) fn conv1d<R: CubeRuntime>(
    x: CubeTensor<R>,
    weight: CubeTensor<R>,
    bias: Option<CubeTensor<R>>,
    geometry: ConvGeometry,
) -> CubeTensor<R> {
    if is_in_software(&x.client) {
        return without_columns(x, weight, bias, geometry);
    }
    in_tiles(x, weight, bias, geometry, COLUMNS)
}

fn without_columns<R: CubeRuntime>(
    mut x: CubeTensor<R>,
    weight: CubeTensor<R>,
    bias: Option<CubeTensor<R>>,
    geometry: ConvGeometry,
) -> CubeTensor<R> {
    let [_, _, taps] = weight.shape().dims();
    x.meta.swap(1, 2); // [B, S, in]
    let weight = primitive(by_taps::<R>(weight));
    let mut output = plain_product::conv1d(x, weight, bias, taps, geometry);
    output.meta.swap(1, 2);
    output
}

/// Returns a filter `[out, in, k]` as `[1, k in, out]`.
fn by_taps<R: CubeRuntime>(weight: CubeTensor<R>) -> Values<Any<R>, 3> {
    let [channels, input, taps] = weight.shape().dims();
    let weight: Values<Any<R>, 3> = tensor(weight);
    weight.swap_dims(1, 2).reshape([1, channels, taps * input]).swap_dims(1, 2)
}

/// Convolution by columns, at most `bytes` of them at a time.
pub fn in_tiles<R: CubeRuntime>(
    mut x: CubeTensor<R>,
    weight: CubeTensor<R>,
    bias: Option<CubeTensor<R>>,
    geometry: ConvGeometry,
    bytes: usize,
) -> CubeTensor<R> {
    let ([batch, input, samples], [channels, _, taps]) = (x.shape().dims(), weight.shape().dims());
    let outputs = geometry.outputs(samples, taps);
    let dtype = x.dtype;
    let bias = bias.map(into_contiguous);

    let weight = by_taps::<R>(weight);
    x.meta.swap(1, 2); // [B, S, in]
    let mut output = empty(&x, [batch, outputs, channels]);

    let tile = (bytes / (taps * input * dtype.size())).max(1);
    for item in 0..batch {
        for start in (0..outputs).step_by(tile) {
            let count = tile.min(outputs - start);
            let columns = columns(&x, item, start..start + count, taps, geometry);
            let product = matmul(columns, primitive(weight.clone()));
            place(product, bias.clone(), &output, item * outputs + start);
        }
    }
    output.meta.swap(1, 2);
    output
}

/// Computes the columns of the outputs `range` of one item of `x`, `[B, S, in]`:
/// `[1, range, k in]`.
fn columns<R: CubeRuntime>(
    x: &CubeTensor<R>,
    item: usize,
    range: std::ops::Range<usize>,
    taps: usize,
    ConvGeometry { stride, padding: [left, _], dilation, .. }: ConvGeometry,
) -> CubeTensor<R> {
    let client = x.client.clone();
    let input = x.meta.shape()[2];
    let columns = empty(x, [1, range.len(), taps * input]);
    let vector = common_vector([x, &columns]);
    let units = range.len() * taps * input / vector;
    let (count, dim) = elementwise(&client, units);
    columns_kernel::launch::<R>(
        &client,
        count,
        dim,
        x.required_address_type().max(columns.required_address_type()),
        vector,
        x.clone().into_tensor_arg(),
        columns.clone().into_tensor_arg(),
        units,
        item,
        range.start,
        taps,
        stride,
        left,
        dilation,
        x.dtype.into(),
    );
    columns
}

#[cube(launch, address_type = "dynamic")]
#[allow(clippy::too_many_arguments, reason = "a kernel's inputs, and its launch")]
fn columns_kernel<T: Float, N: Size>(
    x: &Tensor<Vector<T, N>>,
    columns: &mut Tensor<Vector<T, N>>,
    units: usize,
    item: usize,
    first: usize,
    taps: usize,
    stride: usize,
    padding: usize,
    dilation: usize,
    #[define(T)] _type: StorageType,
) {
    if ABSOLUTE_POS >= units {
        terminate!();
    }
    let size = columns.vector_size();
    let channels = x.shape(2) / size;
    let channel = ABSOLUTE_POS % channels;
    let tap = ABSOLUTE_POS / channels % taps;
    let output = first + ABSOLUTE_POS / (channels * taps);
    let sample = output * stride + tap * dilation;
    let mut value = Vector::<T, N>::new(T::new(0.0));
    if sample >= padding && sample - padding < x.shape(1) {
        let start = item * x.stride(0) + (sample - padding) * x.stride(1);
        value = x[(start + channel * size * x.stride(2)) / size];
    }
    columns[ABSOLUTE_POS] = value;
}

/// Adds the bias to rows of a product and writes them to `output` from row `row` on.
fn place<R: CubeRuntime>(
    product: CubeTensor<R>,
    bias: Option<CubeTensor<R>>,
    output: &CubeTensor<R>,
    row: usize,
) {
    let client = output.client.clone();
    let [_, rows, channels] = product.meta.shape().dims();
    let vector = common_vector([&product, output].into_iter().chain(&bias));
    let units = rows * channels / vector;
    let (count, dim) = elementwise(&client, units);
    let step = product.meta.strides()[1] / vector;
    let types = [output.dtype.into(), bias.as_ref().map_or(output.dtype, |bias| bias.dtype).into()];
    place_kernel::launch::<R>(
        &client,
        count,
        dim,
        product.required_address_type().max(output.required_address_type()),
        vector,
        product.into_tensor_arg(),
        bias.map(CubeTensor::into_tensor_arg).into(),
        output.clone().into_tensor_arg(),
        units,
        step,
        row,
        types,
    );
}

#[cube(launch, address_type = "dynamic")]
#[allow(clippy::too_many_arguments, reason = "a kernel's inputs, and its launch")]
fn place_kernel<T: Float, B: Float, N: Size>(
    product: &Tensor<Vector<T, N>>,
    bias: &ComptimeOption<Tensor<Vector<B, N>>>,
    output: &mut Tensor<Vector<T, N>>,
    units: usize,
    step: usize,
    row: usize,
    #[define(T, B)] _types: [StorageType; 2],
) {
    if ABSOLUTE_POS >= units {
        terminate!();
    }
    let channels = output.shape(2) / output.vector_size();
    let channel = ABSOLUTE_POS % channels;
    let from = ABSOLUTE_POS / channels * step + channel;
    let mut sum = Vector::<f32, N>::cast_from(product[from]);
    #[comptime]
    match bias {
        ComptimeOption::Some(bias) => {
            sum += Vector::cast_from(bias[channel]);
        }
        ComptimeOption::None => {}
    }
    output[row * channels + ABSOLUTE_POS] = Vector::cast_from(sum);
}
