//! Convolutions, and transposed ones.

use burn::tensor::Tensor;

use super::{Backend, ConvGeometry, Weight, assert_applies, nothing, primitive, tensor};

/// Convolution over the last axis.
///
/// # Shapes
/// - `x`: `[B, in, S]`
/// - `weight`: `[out, in / groups, k]`, `bias`: `[out]`
/// - output: `[B, out, (S + left + right - dilation (k - 1) - 1) / stride + 1]` for the padding
///   `[left, right]`
pub fn conv1d<B: Backend>(
    x: Tensor<B, 3>,
    weight: impl Into<Weight<B, 3>>,
    bias: Option<Tensor<B, 1>>,
    geometry: ConvGeometry,
) -> Tensor<B, 3> {
    let weight = weight.into();
    let others = bias.as_ref().map(Tensor::dtype);
    assert_applies::<B>("conv1d", x.dtype(), weight.dtype(), others);
    let ([batch, _, samples], [outputs, _, taps]) = (x.dims(), weight.dims());
    if let Some(nothing) = nothing(&x, [batch, outputs, geometry.outputs(samples, taps)]) {
        return nothing;
    }
    let (x, bias) = (primitive(x), bias.map(primitive));
    tensor(match weight {
        Weight::Plain(weight) => <B as Backend>::conv1d(x, primitive(weight), bias, geometry),
        Weight::Packed(weight) => B::packed_conv1d(x, weight, bias, geometry),
    })
}

/// Transposed convolution over the last axis: `out[s stride + k dilation - left] += x[s] w[k]`.
///
/// # Shapes
/// - `x`: `[B, in, S]`
/// - `weight`: `[in, out / groups, k]`, `bias`: `[out]`
/// - output: `[B, out, (S - 1) stride + dilation (k - 1) + 1 - left - right]` for the padding
///   `[left, right]`
pub fn conv_transpose1d<B: Backend>(
    x: Tensor<B, 3>,
    weight: impl Into<Weight<B, 3>>,
    bias: Option<Tensor<B, 1>>,
    geometry: ConvGeometry,
) -> Tensor<B, 3> {
    let weight = weight.into();
    let others = bias.as_ref().map(Tensor::dtype);
    assert_applies::<B>("conv_transpose1d", x.dtype(), weight.dtype(), others);
    let ([batch, _, samples], [_, outputs, taps]) = (x.dims(), weight.dims());
    let length = if samples == 0 { 0 } else { geometry.transposed_outputs(samples, taps) };
    if let Some(nothing) = nothing(&x, [batch, outputs * geometry.groups, length]) {
        return nothing;
    }
    let (x, bias) = (primitive(x), bias.map(primitive));
    tensor(match weight {
        Weight::Plain(weight) => {
            <B as Backend>::conv_transpose1d(x, primitive(weight), bias, geometry)
        }
        Weight::Packed(weight) => B::packed_conv_transpose1d(x, weight, bias, geometry),
    })
}
