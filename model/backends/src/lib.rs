//! Burn's operations on GPUs, compiled once for all crates.
//!
//! Burn's matrix products, convolutions and reductions are generic over the device. Without this crate, each
//! crate that computes on a GPU compiles them again, which takes minutes. With `opt-level = 1` or less, the compiler
//! takes generic code from a crate that has it already. The program never calls these functions.

#[cfg(any(feature = "cuda", feature = "wgpu"))]
use burn::tensor::{
    Bool, DType, Int, Tensor, TensorData,
    activation::{gelu, log_softmax, sigmoid, silu, softmax},
    backend::Backend,
    module::{attention, conv_transpose1d, conv1d, embedding},
    ops::{ConvOptions, ConvTransposeOptions},
};

/// Computes one of each operation with Vulkan or Metal.
#[cfg(feature = "wgpu")]
pub fn wgpu(device: &burn_wgpu::WgpuDevice) -> Vec<TensorData> {
    operations::<burn_wgpu::Wgpu<f32, i32>>(device)
}

/// Computes one of each operation with CUDA.
#[cfg(feature = "cuda")]
pub fn cuda(device: &burn_cuda::CudaDevice) -> Vec<TensorData> {
    operations::<burn_cuda::Cuda<f32, i32>>(device)
}

/// Computes one of each operation that networks use, and returns the results.
#[cfg(any(feature = "cuda", feature = "wgpu"))]
fn operations<B: Backend>(device: &B::Device) -> Vec<TensorData> {
    let x = Tensor::<B, 3>::ones([1, 8, 8], device);
    let product = x.clone().matmul(x.clone().swap_dims(1, 2));
    let options = ConvOptions::new([1], [0], [1], 1);
    let filtered = conv1d(x.clone(), x.clone(), None, options);
    let options = ConvTransposeOptions::new([1], [0], [0], [1], 1);
    let spread = conv_transpose1d(x.clone(), x.clone(), None, options);
    let curves = [gelu(x.clone()), silu(x.clone()), sigmoid(x.clone())];
    let scores = [softmax(x.clone(), 2), log_softmax(x.clone(), 2)];
    let functions = [
        x.clone().exp(),
        x.clone().log(),
        x.clone().sin(),
        x.clone().cos(),
        x.clone().tanh(),
        x.clone().sqrt(),
        x.clone().abs(),
        x.clone().recip(),
        x.clone().powf_scalar(2.0),
    ];
    let q = x.clone().unsqueeze::<4>();
    let attended = attention(q.clone(), q.clone(), q, None, None, Default::default());
    let ids = Tensor::<B, 2, Int>::zeros([1, 2], device);
    let rows = embedding(x.clone().squeeze_dim::<2>(0), ids.clone());
    let visible: Tensor<B, 3, Bool> = x.clone().greater_elem(0.5);
    let masked = x.clone().mask_fill(visible.clone(), 1.0)
        + x.clone().mask_where(visible, rows.repeat_dim(1, 4));
    let parts = Tensor::cat(vec![masked.clone().narrow(1, 0, 4), masked.slice([0..1, 4..8])], 1);
    let reduced = [
        parts.clone().sum_dim(2),
        parts.clone().mean_dim(1),
        parts.clone().max_dim(2),
        parts.clone().min_dim(2),
    ];
    let chosen = parts.clone().argmax(2) + ids.clone().unsqueeze::<3>().sum_dim(2);
    let picked =
        parts.clone().select(1, ids.clone().reshape([2])).gather(2, chosen.clone().narrow(1, 0, 2));
    let narrow = parts.clone().cast(DType::F16).cast(DType::F32) * 2.0 - 1.0;
    let all = [product, filtered, spread, narrow, picked, x / 2.0]
        .into_iter()
        .chain(curves)
        .chain(scores)
        .chain(functions)
        .chain(reduced);
    let floats = all.map(Tensor::into_data);
    floats.chain([attended.into_data(), chosen.into_data(), ids.float().into_data()]).collect()
}
