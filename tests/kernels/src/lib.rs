//! Tests of single kernels for GPUs. The file of a kernel in `model/src/kernel/cube` has its tests
//! here, under the same name.
//!
//! They are not beside their source because they compile all of Burn for two kinds of GPU. The crate
//! of the networks is fully optimised in tests, and that would take a quarter of an hour there.

#[cfg(all(test, feature = "wgpu"))]
mod on_gpu;
