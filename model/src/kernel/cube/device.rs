//! Properties of a device that decide which kernel is used.

use burn::tensor::DType;
use burn_cubecl::{CubeRuntime, tensor::CubeTensor};
use cubecl::{
    Runtime,
    client::ComputeClient,
    config::{CubeClRuntimeConfig, autotune::AutotuneLevel},
    ir::{ElemType, FloatKind, Type},
};
use cubecl_common::config::RuntimeConfig;

/// True if autotuning is on.
pub(super) fn is_tuned() -> bool {
    !matches!(CubeClRuntimeConfig::get().autotune.level, AutotuneLevel::Minimal)
}

/// True if compiling a kernel takes longer than most of its work: nothing is tuned, and planes are
/// the vectors of a CPU, narrower than those of the GPUs that may be told not to tune.
pub(super) fn is_in_software<R: Runtime>(client: &ComputeClient<R>) -> bool {
    !is_tuned() && client.properties().hardware.plane_size_min < 32
}

/// True if Burn's fastest products would round the values of this tensor first.
pub(super) fn is_cut<R: CubeRuntime>(x: &CubeTensor<R>) -> bool {
    x.dtype == DType::F32 && knows_tf32(&x.client)
}

fn knows_tf32<R: CubeRuntime>(client: &ComputeClient<R>) -> bool {
    client.properties().supports_type(Type::scalar(ElemType::Float(FloatKind::TF32)))
}

/// True if products of this type are not left to Burn: this project has kernels for them, or
/// Burn's fastest ones would round f32.
pub(super) fn has_product<R: CubeRuntime>(client: &ComputeClient<R>, dtype: DType) -> bool {
    #[cfg(feature = "cuda")]
    if dtype == DType::BF16 && super::cuda::is_hopper(client) {
        return true;
    }
    dtype == DType::F32 && knows_tf32(client)
}
