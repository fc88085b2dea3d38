//! Snake in one pass, for channels-last and channels-first tensors.
//!
//! `y = x + sin^2(e^alpha x) / (e^beta + 1e-9)`, all in f32. The output keeps the memory order of
//! the input: a convolution returns channels-last tensors, and the next one needs that order.
//!
//! Limits: one frequency and one amplitude per channel; any tensor layout that a linear view
//! supports.
//!
//! Gain over the plain operations on Mesa lavapipe on two cores: 128 channels of 4800 samples and
//! 512 of 600 are between 4.2 and 9.6 times as fast, or 1.4 to 2.5 times if Burn fuses them.

use burn_cubecl::{CubeRuntime, kernel::into_contiguous, tensor::CubeTensor};
use cubecl::{prelude::*, std::tensor::layout::linear::LinearView};

use super::rows::{common_vector, elementwise, empty};

/// # Shapes
/// - `x`, output: `[B, channels, S]`, `alpha`, `beta`: `[1, channels, 1]`
pub(super) fn snake<R: CubeRuntime>(
    mut x: CubeTensor<R>,
    alpha: CubeTensor<R>,
    beta: CubeTensor<R>,
) -> CubeTensor<R> {
    let client = x.client.clone();
    let channels = x.meta.shape()[1];
    // From here on the last axis is the contiguous one.
    let channels_last = x.meta.strides()[1] == 1 && channels > 1;
    if channels_last {
        x.meta.swap(1, 2);
    }
    let shape = x.meta.shape().clone();
    let output = empty(&x, shape.clone());
    let mut result = output.clone();
    if channels_last {
        result.meta.swap(1, 2);
    }
    if output.meta.num_elements() == 0 {
        return result;
    }
    let (alpha, beta) = (into_contiguous(alpha), into_contiguous(beta));
    let vector = common_vector([&x, &output]);
    let units = output.meta.num_elements() / vector;
    let (count, dim) = elementwise(&client, units);
    let types = [x.dtype.into(), alpha.dtype.into(), beta.dtype.into()];
    snake_kernel::launch::<R>(
        &client,
        count,
        dim,
        x.required_address_type(),
        vector,
        x.into_linear_view(),
        alpha.into_tensor_arg(),
        beta.into_tensor_arg(),
        output.into_linear_view(),
        shape[2] / vector,
        channels,
        channels_last,
        types,
    );
    result
}

#[cube(launch, address_type = "dynamic")]
#[allow(clippy::too_many_arguments, reason = "a kernel's inputs, and its launch")]
fn snake_kernel<T: Float, A: Float, B: Float, N: Size>(
    x: &LinearView<Vector<T, N>>,
    alpha: &Tensor<A>,
    beta: &Tensor<B>,
    output: &mut LinearView<Vector<T, N>, ReadWrite>,
    row: usize,
    channels: usize,
    #[comptime] channels_last: bool,
    #[define(T, A, B)] _types: [StorageType; 3],
) {
    let i = ABSOLUTE_POS;
    if !output.is_in_bounds(i) {
        terminate!();
    }
    let value = Vector::<f32, N>::cast_from(x[i]);
    output[i] = Vector::cast_from(snake_of(value, alpha, beta, i, row, channels, channels_last));
}

/// Computes the snake of vector `i` of a tensor whose rows have `row` vectors. A row is one
/// channel, or one value of every channel.
#[cube]
pub(super) fn snake_of<A: Float, B: Float, N: Size>(
    value: Vector<f32, N>,
    alpha: &Tensor<A>,
    beta: &Tensor<B>,
    i: usize,
    row: usize,
    channels: usize,
    #[comptime] channels_last: bool,
) -> Vector<f32, N> {
    let mut a = Vector::<f32, N>::empty();
    let mut b = Vector::<f32, N>::empty();
    if comptime!(channels_last) {
        let first = i % row * value.size();
        #[unroll]
        for j in 0..value.size() {
            a[j] = f32::cast_from(alpha[first + j]);
            b[j] = f32::cast_from(beta[first + j]);
        }
    } else {
        let channel = i / row % channels;
        a = Vector::new(f32::cast_from(alpha[channel]));
        b = Vector::new(f32::cast_from(beta[channel]));
    }
    let sine = Vector::sin(value * Vector::exp(a));
    let amplitude = Vector::exp(b) + Vector::new(1e-9f32);
    value + sine * sine / amplitude
}
