//! Devices of this machine, by backend.

use std::{fmt, path::PathBuf};

#[cfg(any(feature = "cuda", feature = "wgpu"))]
use std::sync::OnceLock;

use super::Device;

/// The devices of this machine that this build can use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listing {
    /// True if the CPU backend, Flex, is built in.
    pub cpu: bool,
    /// NVIDIA; `None` if not built in, or not queried.
    pub cuda: Option<Cuda>,
    /// Vulkan and Metal GPUs, the best first; `None` if not built in, or not queried.
    pub wgpu: Option<Vec<GpuAdapter>>,
}

/// NVIDIA GPUs, and the requirements of CUDA.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cuda {
    /// The driver's version, if reported.
    pub driver: Option<String>,
    /// The GPUs, in the driver's order.
    pub gpus: Vec<Gpu>,
    /// The reason if there are no GPUs, or none is usable.
    pub problem: Option<String>,
    /// True if the driver is installed but fails: there may be GPUs, but it lists none.
    pub driver_fails: bool,
    /// True if NVRTC, which compiles kernels, can be loaded.
    pub has_nvrtc: bool,
    /// The folder of CUDA's headers, which kernels are compiled with.
    pub headers: Option<PathBuf>,
}

/// An NVIDIA GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    /// The name.
    pub name: String,
    /// Compute capability, e.g. (9, 0).
    pub capability: (u32, u32),
    /// Total memory in bytes.
    pub total_bytes: u64,
    /// Free memory in bytes at the time of the query.
    pub free_bytes: u64,
    /// The reason why it is not usable, e.g. exclusive use by another program.
    pub problem: Option<String>,
}

/// A Vulkan or Metal GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuAdapter {
    /// The name.
    pub name: String,
    /// The kind.
    pub kind: GpuKind,
    /// Its number within its kind, which identifies it in the backend.
    pub number: usize,
    /// `Vulkan` or `Metal`.
    pub api: String,
    /// Driver and version.
    pub driver: String,
    /// Total memory in bytes, if reported; for an integrated GPU it includes memory shared with the
    /// CPU.
    pub total_bytes: Option<u64>,
    /// Free memory in bytes at the time of the query, if reported.
    pub free_bytes: Option<u64>,
    /// Maximum size of a tensor in bytes.
    pub largest_bytes: u64,
    /// True if it computes with f16.
    pub has_f16: bool,
    /// True if it has matrix units that kernels can use.
    pub has_matrix_units: bool,
}

/// Kinds of GPUs, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GpuKind {
    /// A GPU with its own memory.
    Discrete,
    /// A GPU in the CPU package.
    Integrated,
    /// A GPU of a virtual machine.
    Virtual,
    /// A software GPU, such as lavapipe.
    Software,
}

impl fmt::Display for GpuKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Discrete => "discrete GPU",
            Self::Integrated => "integrated GPU",
            Self::Virtual => "virtual GPU",
            Self::Software => "software, no GPU",
        })
    }
}

impl Listing {
    /// Queries everything that this build can use. The first call takes up to a second.
    pub fn query() -> Self {
        Self { cpu: cfg!(feature = "cpu"), cuda: cuda(), wgpu: wgpu() }
    }

    /// Queries only the backend of `device`.
    pub fn of(device: Device) -> Self {
        let nothing = Self { cpu: cfg!(feature = "cpu"), ..Self::default() };
        match device {
            Device::Cpu => nothing,
            Device::Cuda(_) => Self { cuda: cuda(), ..nothing },
            Device::Wgpu(_) => Self { wgpu: wgpu(), ..nothing },
        }
    }
}

impl Cuda {
    /// Returns the default GPU: the newest architecture, then the most free memory, then the first.
    pub fn best(&self) -> Option<usize> {
        if self.missing().is_some() {
            return None;
        }
        let usable = self.gpus.iter().enumerate().filter(|(_, gpu)| gpu.problem.is_none());
        let rank = |gpu: &Gpu| (gpu.capability.0, gpu.free_bytes);
        usable.rev().max_by_key(|(_, gpu)| rank(gpu)).map(|(number, _)| number)
    }

    /// Returns the reason why no GPU is usable, with a fix.
    pub fn missing(&self) -> Option<String> {
        if let Some(problem) = &self.problem {
            return Some(problem.clone());
        }
        if !self.has_nvrtc {
            return Some(
                "NVRTC (libnvrtc), which compiles kernels, cannot be loaded: install the CUDA \
                 toolkit, or add the folder of libnvrtc to LD_LIBRARY_PATH"
                    .into(),
            );
        }
        if self.headers.is_none() {
            return Some(
                "the headers of CUDA (include/cuda_fp16.h, include/crt/host_defines.h), which \
                 kernels are compiled with, are not found: install the CUDA toolkit, or set \
                 CUDA_PATH to the folder that holds `include`"
                    .into(),
            );
        }
        None
    }
}

/// Queries CUDA once; `None` if not built in.
#[cfg(feature = "cuda")]
pub(super) fn cuda() -> Option<Cuda> {
    static FOUND: OnceLock<Cuda> = OnceLock::new();
    Some(FOUND.get_or_init(super::cuda::query).clone())
}

/// Returns `None`: CUDA is not built in.
#[cfg(not(feature = "cuda"))]
pub(super) fn cuda() -> Option<Cuda> {
    None
}

/// Queries the Vulkan or Metal GPUs once; `None` if not built in.
#[cfg(feature = "wgpu")]
pub(super) fn wgpu() -> Option<Vec<GpuAdapter>> {
    static FOUND: OnceLock<Vec<GpuAdapter>> = OnceLock::new();
    Some(FOUND.get_or_init(super::wgpu::query).clone())
}

/// Returns `None`: wgpu is not built in.
#[cfg(not(feature = "wgpu"))]
pub(super) fn wgpu() -> Option<Vec<GpuAdapter>> {
    None
}
