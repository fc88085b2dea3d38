//! What the kernels' tests share: repeatable values, the backends, a comparison.
//!
//! A test writes its operation once, generic over the backend, and compares what a card gives (or a
//! Vulkan driver in software) with what the processor gives, whose operations have tests of their own.

use burn::tensor::{DType, Tensor, TensorData};
use burn_cubecl::CubeBackend;

use crate::Backend;

/// The backend without recording, where kernels run at once.
pub(super) type Plain = CubeBackend<burn_wgpu::WgpuRuntime, f32, i32, u32>;
/// The backend that songs are made with.
pub(super) type Recorded = burn_wgpu::Wgpu<f32, i32>;

/// Values in -1..1 that look random and never change.
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

/// [`values`] as a tensor of `dtype`.
pub(super) fn random<B: Backend, const D: usize>(
    shape: [usize; D],
    seed: u32,
    dtype: DType,
    device: &B::Device,
) -> Tensor<B, D> {
    let values = values(shape.iter().product(), seed);
    Tensor::<B, D>::from_data(TensorData::new(values, shape), device).cast(dtype)
}

/// A tensor's values in f32.
pub(super) fn read<B: Backend, const D: usize>(x: Tensor<B, D>) -> Vec<f32> {
    x.into_data().convert::<f32>().to_vec().expect("converted to f32")
}

/// An operation on values of its own, on any backend.
pub(super) trait Operation {
    /// Its result, with everything but the rounding of inputs and outputs in f32 or better.
    fn run<B: Backend>(&self, dtype: DType, device: &B::Device) -> Vec<f32>;
}

/// Runs `operation` in f32 and f16, recorded and not, and compares with the processor.
///
/// Inputs are the same f16 or f32 values everywhere. A difference is measured against the largest
/// value of the result; `tolerance` is for f32, and f16 may round its result once more.
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
}

std::thread_local! {
    static SHUFFLES: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Whether kernels of this thread may exchange values within a plane though CubeCL does not offer it.
pub(super) fn shuffles_in_software() -> bool {
    SHUFFLES.get()
}

/// Runs `test` as on a real card, where units of a plane read each other's values. CubeCL does not offer
/// that on a driver in software, which can do it all the same.
pub(super) fn with_shuffles<T>(test: impl FnOnce() -> T) -> T {
    SHUFFLES.set(true);
    let result = test();
    SHUFFLES.set(false);
    result
}

/// [`same_everywhere`] with values exchanged within planes, not recorded.
pub(super) fn same_with_shuffles(name: &str, operation: &impl Operation, tolerance: f32) {
    let (cpu, card) = (burn_flex::FlexDevice, burn_wgpu::WgpuDevice::DefaultDevice);
    let expected = operation.run::<burn_flex::Flex>(DType::F32, &cpu);
    let got = with_shuffles(|| operation.run::<Plain>(DType::F32, &card));
    same(&format!("{name} with shuffles"), &expected, &got, tolerance);
}

/// Compares two results; a difference is measured against the largest value expected.
pub(super) fn same(name: &str, expected: &[f32], got: &[f32], tolerance: f32) {
    assert_eq!(got.len(), expected.len(), "{name}");
    let largest = expected.iter().fold(0.0f32, |largest, x| largest.max(x.abs()));
    let worst = expected.iter().zip(got).map(|(a, b)| (a - b).abs());
    // NaN is larger than everything here: `max` would pass over it.
    let worst = worst.fold(0.0f32, |worst, d| if worst.is_nan() || d <= worst { worst } else { d });
    assert!(
        worst <= tolerance * largest.max(1e-3),
        "{name}: off by {worst}, the largest value is {largest}"
    );
}
