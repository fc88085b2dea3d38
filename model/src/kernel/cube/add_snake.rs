//! The end of one residual unit and the beginning of the next: a sum, and its snake.
//!
//! `s = x + y`, kept finite in f16, and `s + sin^2(e^alpha s) / (e^beta + 1e-9)` of the rounded
//! `s`. Each input is read once. The sum, to which the next unit adds, is not read again.
//!
//! Limits: both outputs keep the memory order of `x`; `y` may have any order, but the same order is
//! fastest.
//!
//! Gain on Mesa lavapipe on two cores, 128 channels of 4800 samples and 512 of 600, channels last:
//! 4.3 and 6.3 times as fast as the plain operations, or 2.3 and 2.1 times if Burn fuses them; 1.8
//! and 1.4 times as fast as a sum and then [`super::snake`].

use burn::tensor::DType;
use burn_cubecl::{CubeRuntime, kernel::into_contiguous, tensor::CubeTensor};
use cubecl::{prelude::*, std::tensor::layout::linear::LinearView};

use super::{
    rows::{common_vector, elementwise, empty},
    snake::snake_of,
};

/// # Shapes
/// - `x`, `y`, outputs: `[B, channels, S]`, `alpha`, `beta`: `[1, channels, 1]`
pub(super) fn add_snake<R: CubeRuntime>(
    mut x: CubeTensor<R>,
    mut y: CubeTensor<R>,
    alpha: CubeTensor<R>,
    beta: CubeTensor<R>,
) -> [CubeTensor<R>; 2] {
    let client = x.client.clone();
    let channels = x.meta.shape()[1];
    // From here on the last axis is the one that is contiguous in `x`.
    let channels_last = x.meta.strides()[1] == 1 && channels > 1;
    if channels_last {
        x.meta.swap(1, 2);
        y.meta.swap(1, 2);
    }
    let shape = x.meta.shape().clone();
    let [sum, output] = [0, 1].map(|_| empty(&x, shape.clone()));
    let results = [sum.clone(), output.clone()].map(|mut result| {
        if channels_last {
            result.meta.swap(1, 2);
        }
        result
    });
    if output.meta.num_elements() == 0 {
        return results;
    }
    let (alpha, beta) = (into_contiguous(alpha), into_contiguous(beta));
    let vector = common_vector([&x, &y, &output]);
    let units = output.meta.num_elements() / vector;
    let (count, dim) = elementwise(&client, units);
    let types = [x.dtype.into(), alpha.dtype.into(), beta.dtype.into()];
    let bounded = x.dtype == DType::F16;
    add_snake_kernel::launch::<R>(
        &client,
        count,
        dim,
        x.required_address_type().max(y.required_address_type()),
        vector,
        x.into_linear_view(),
        y.into_linear_view(),
        alpha.into_tensor_arg(),
        beta.into_tensor_arg(),
        sum.into_linear_view(),
        output.into_linear_view(),
        shape[2] / vector,
        channels,
        channels_last,
        bounded,
        types,
    );
    results
}

#[cube(launch, address_type = "dynamic")]
#[allow(clippy::too_many_arguments, reason = "a kernel's inputs, and its launch")]
fn add_snake_kernel<T: Float, A: Float, B: Float, N: Size>(
    x: &LinearView<Vector<T, N>>,
    y: &LinearView<Vector<T, N>>,
    alpha: &Tensor<A>,
    beta: &Tensor<B>,
    sum: &mut LinearView<Vector<T, N>, ReadWrite>,
    output: &mut LinearView<Vector<T, N>, ReadWrite>,
    row: usize,
    channels: usize,
    #[comptime] channels_last: bool,
    #[comptime] bounded: bool,
    #[define(T, A, B)] _types: [StorageType; 3],
) {
    let i = ABSOLUTE_POS;
    if !output.is_in_bounds(i) {
        terminate!();
    }
    let mut added = Vector::<f32, N>::cast_from(x[i]) + Vector::<f32, N>::cast_from(y[i]);
    if comptime!(bounded) {
        // NaN fails both comparisons and stays.
        let most = Vector::<f32, N>::new(65_504.0f32);
        #[unroll]
        for j in 0..added.size() {
            if added[j] > most[j] {
                added[j] = most[j];
            }
            if added[j] < -most[j] {
                added[j] = -most[j];
            }
        }
    }
    let added = Vector::<T, N>::cast_from(added);
    sum[i] = added;
    let value = Vector::<f32, N>::cast_from(added);
    output[i] = Vector::cast_from(snake_of(value, alpha, beta, i, row, channels, channels_last));
}
