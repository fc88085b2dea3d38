//! Shared helpers of the kernel tests: repeatable values, the backends, a comparison.
//!
//! A test writes its operation once, generic over the backend. It compares the result of a GPU (or
//! of a software Vulkan driver) with the CPU's, whose operations have their own tests.

use acestep_model::{Backend, kernel::variants::with_shuffles};
use burn::tensor::{DType, Tensor, TensorData, TensorPrimitive, ops::FloatTensor};
use burn_cubecl::CubeBackend;

/// The backend without fusion, where kernels run at once.
pub(super) type Plain = CubeBackend<burn_wgpu::WgpuRuntime, f32, i32, u32>;
/// The backend with fusion, which generates songs.
pub(super) type Recorded = burn_wgpu::Wgpu<f32, i32>;

/// Returns pseudorandom values in -1..1 that never change.
pub(super) fn values(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as f32 / u32::MAX as f32 * 2.0 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// Returns [`values`] as a tensor of `dtype`.
pub(super) fn random<B: Backend, const D: usize>(
    shape: [usize; D],
    seed: u32,
    dtype: DType,
    device: &B::Device,
) -> Tensor<B, D> {
    let values = TensorData::new(values(shape.iter().product(), seed), shape);
    // Converted here: CUDA launches no kernel for an empty tensor, and Burn's conversion asks it to.
    Tensor::<B, D>::from_data(values.convert_dtype(dtype), (device, dtype))
}

/// Returns [`random`] sound of the shape `[B, channels, S]`, whose last axis in memory is one of the
/// last two.
pub(super) fn sound<B: Backend>(
    [batch, channels, samples]: [usize; 3],
    channels_last: bool,
    seed: u32,
    dtype: DType,
    device: &B::Device,
) -> Tensor<B, 3> {
    match channels_last {
        true => random([batch, samples, channels], seed, dtype, device).swap_dims(1, 2),
        false => random([batch, channels, samples], seed, dtype, device),
    }
}

/// Returns a tensor's values in f32.
pub(super) fn read<B: Backend, const D: usize>(x: Tensor<B, D>) -> Vec<f32> {
    x.into_data().convert::<f32>().to_vec().expect("converted to f32")
}

/// Wraps a backend's tensor as Burn's.
pub(super) fn tensor<B: Backend, const D: usize>(x: FloatTensor<B>) -> Tensor<B, D> {
    Tensor::from_primitive(TensorPrimitive::Float(x))
}

/// Unwraps Burn's tensor to the backend's.
pub(super) fn primitive<B: Backend, const D: usize>(x: Tensor<B, D>) -> FloatTensor<B> {
    x.into_primitive().tensor()
}

/// An operation with its own inputs, on any backend.
pub(super) trait Operation {
    /// True if an input is empty: Burn cannot send such a tensor to a CUDA GPU.
    #[cfg_attr(not(feature = "cuda"), expect(dead_code, reason = "only CUDA asks"))]
    fn has_empty_input(&self) -> bool {
        false
    }

    /// Computes its result. Everything except the rounding of inputs and outputs is in f32 or
    /// better.
    fn run<B: Backend>(&self, dtype: DType, device: &B::Device) -> Vec<f32>;
}

/// Runs `operation` in f32 and f16, with and without fusion, and compares with the CPU.
///
/// Inputs are the same f16 or f32 values everywhere. A difference is measured relative to the
/// largest value of the result. `tolerance` is for f32; f16 may round its result once more.
pub(super) fn same_everywhere(name: &str, operation: &impl Operation, tolerance: f32) {
    let cpu = burn_flex::FlexDevice;
    let card = burn_wgpu::WgpuDevice::DefaultDevice;
    for (dtype, tolerance) in [(DType::F32, tolerance), (DType::F16, 2e-3)] {
        let expected = operation.run::<burn_flex::Flex>(dtype, &cpu);
        let plain = operation.run::<Plain>(dtype, &card);
        let recorded = operation.run::<Recorded>(dtype, &card);
        for (backend, got) in [("plain", plain), ("recorded", recorded)] {
            same(&format!("{name} {dtype:?} {backend}"), &expected, &got, tolerance);
        }
    }
    #[cfg(feature = "cuda")]
    super::cuda::same_on_cuda(name, operation, tolerance);
}

/// [`same_everywhere`] with plane shuffles, without fusion.
pub(super) fn same_with_shuffles(name: &str, operation: &impl Operation, tolerance: f32) {
    let (cpu, card) = (burn_flex::FlexDevice, burn_wgpu::WgpuDevice::DefaultDevice);
    let expected = operation.run::<burn_flex::Flex>(DType::F32, &cpu);
    let got = with_shuffles(|| operation.run::<Plain>(DType::F32, &card));
    same(&format!("{name} with shuffles"), &expected, &got, tolerance);
}

/// Compares two results; a difference is measured relative to the largest expected value.
pub(super) fn same(name: &str, expected: &[f32], got: &[f32], tolerance: f32) {
    assert_eq!(got.len(), expected.len(), "{name}");
    let largest = expected.iter().fold(0.0f32, |largest, x| largest.max(x.abs()));
    let worst = expected.iter().zip(got).map(|(a, b)| (a - b).abs());
    // `f32::max` would ignore NaN; in this order it is the largest.
    let worst = worst.max_by(f32::total_cmp).unwrap_or(0.0);
    assert!(
        worst <= tolerance * largest.max(1e-3),
        "{name}: off by {worst}, the largest value is {largest}"
    );
}
