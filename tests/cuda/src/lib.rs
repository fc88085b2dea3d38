//! A CUDA driver in software: kernels for NVIDIA GPUs run without one.
//!
//! A program loads this library in place of the driver's `libcuda.so`. It compiles its kernels with NVRTC as always;
//! this driver interprets the PTX, one warp after the other. It is slow, and it is strict: it refuses accesses outside
//! of an allocation or without alignment, copies data as late as a kernel may expect them, fills memory with NaN, and
//! reports threads that wait for ever.
//!
//! ```text
//! PTX -> ptx: statements -> decode: instructions -> launch: clusters of blocks -> execute: one warp
//! ```
//!
//! It has what CubeCL and the kernels of this project use. A call or an instruction beyond that is an error with its
//! name. Races between threads are not found.

#![cfg(target_pointer_width = "64")]
#![expect(
    clippy::needless_range_loop,
    reason = "a number of a thread or of an axis is an index into several arrays"
)]

mod convert;
mod decode;
mod driver;
mod execute;
mod instruction;
mod launch;
mod matrix;
mod mbarrier;
mod memory;
mod ptx;
mod tensor_map;
#[cfg(test)]
mod tests;
mod warp;
