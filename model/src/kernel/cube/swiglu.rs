//! The activation of the feed-forward block: `silu(gate) up` in one pass.
//!
//! `silu(x) = x / (1 + e^-x)`, computed in f32 and rounded before the product, like the plain
//! operations.
//!
//! Limits: both inputs have one shape; their rows are made contiguous.
//!
//! Gain over the plain operations on Mesa lavapipe on two cores: 375 rows of 6144 values are 5.5
//! times as fast, or 2.4 times if Burn fuses the plain operations into one kernel.

use burn_cubecl::{CubeRuntime, tensor::CubeTensor};
use cubecl::{prelude::*, std::tensor::layout::linear::LinearView};

use super::rows::{common_vector, elementwise, empty};

/// # Shapes
/// - `gate`, `up`, output: `[rows, H]`, in any order in memory
pub(super) fn swiglu<R: CubeRuntime>(gate: CubeTensor<R>, up: CubeTensor<R>) -> CubeTensor<R> {
    let client = gate.client.clone();
    let output = empty(&gate, gate.meta.shape().clone());
    if output.meta.num_elements() == 0 {
        return output;
    }
    let vector = common_vector([&gate, &up, &output]);
    let units = output.meta.num_elements() / vector;
    let (count, dim) = elementwise(&client, units);
    let types = [gate.dtype.into(), up.dtype.into()];
    swiglu_kernel::launch::<R>(
        &client,
        count,
        dim,
        gate.required_address_type().max(up.required_address_type()),
        vector,
        gate.into_linear_view(),
        up.into_linear_view(),
        output.clone().into_linear_view(),
        types,
    );
    output
}

#[cube(launch, address_type = "dynamic")]
fn swiglu_kernel<T: Float, U: Float, N: Size>(
    gate: &LinearView<Vector<T, N>>,
    up: &LinearView<Vector<U, N>>,
    output: &mut LinearView<Vector<T, N>, ReadWrite>,
    #[define(T, U)] _types: [StorageType; 2],
) {
    let i = ABSOLUTE_POS;
    if !output.is_in_bounds(i) {
        terminate!();
    }
    let x = Vector::<f32, N>::cast_from(gate[i]);
    let one = Vector::<f32, N>::new(1.0f32);
    // CUDA C++ has no unary minus for a vector of eight.
    let minus = Vector::<f32, N>::new(0.0f32) - x;
    let open = Vector::<T, N>::cast_from(x / (one + Vector::exp(minus)));
    output[i] = open * Vector::<T, N>::cast_from(up[i]);
}
