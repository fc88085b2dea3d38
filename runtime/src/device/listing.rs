//! What this machine has, backend by backend.

use std::{fmt, path::PathBuf};

#[cfg(any(feature = "cuda", feature = "wgpu"))]
use std::sync::OnceLock;

use super::Device;

/// The devices of this machine that this build could use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listing {
    /// Whether the processor can be computed with: Flex is built in.
    pub cpu: bool,
    /// NVIDIA; `None` = not built in, or not looked for.
    pub cuda: Option<Cuda>,
    /// Cards of Vulkan or Metal, the best first; `None` = not built in, or not looked for.
    pub wgpu: Option<Vec<Adapter>>,
}

/// What CUDA finds, and what it needs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cuda {
    /// The driver's version, where it says it.
    pub driver: Option<String>,
    /// The cards, by the driver's numbers.
    pub cards: Vec<Card>,
    /// Why there are none, or why none can be used.
    pub problem: Option<String>,
    /// Whether the driver is installed, and fails: there may be cards, but it shows none.
    pub driver_fails: bool,
    /// Whether NVRTC, which compiles kernels, can be loaded.
    pub has_nvrtc: bool,
    /// The folder of CUDA's headers, which kernels are compiled with.
    pub headers: Option<PathBuf>,
}

/// An NVIDIA card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Card {
    /// What it is called.
    pub name: String,
    /// Compute capability, e.g. (9, 0).
    pub capability: (u32, u32),
    /// Its memory in bytes.
    pub total_bytes: u64,
    /// What of it was free when it was looked at.
    pub free_bytes: u64,
    /// Why it cannot be used, e.g. as another program has it for itself.
    pub problem: Option<String>,
}

/// A card of Vulkan or Metal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adapter {
    /// What it is called.
    pub name: String,
    /// What it is.
    pub kind: AdapterKind,
    /// Its number among those of its kind: what the backend finds it by.
    pub number: usize,
    /// `Vulkan` or `Metal`.
    pub api: String,
    /// Driver and version.
    pub driver: String,
    /// Its memory in bytes, where the driver says it: of an integrated card what it shares with the
    /// processor too.
    pub total_bytes: Option<u64>,
    /// What of it was free when it was looked at, where the driver says it.
    pub free_bytes: Option<u64>,
    /// The most bytes that one tensor can have.
    pub largest_bytes: u64,
    /// Whether it computes with f16.
    pub has_f16: bool,
    /// Whether it has matrix units that kernels can use.
    pub has_matrix_units: bool,
}

/// What a card is, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AdapterKind {
    /// A card with memory of its own.
    Discrete,
    /// A part of the processor.
    Integrated,
    /// A card lent to a virtual machine.
    Virtual,
    /// A program that acts as a card, such as lavapipe.
    Software,
}

impl fmt::Display for AdapterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Discrete => "discrete card",
            Self::Integrated => "integrated card",
            Self::Virtual => "virtual card",
            Self::Software => "software, no card",
        })
    }
}

impl Listing {
    /// Looks for everything that this build can use. The first call takes up to a second.
    pub fn look() -> Self {
        Self { cpu: cfg!(feature = "cpu"), cuda: cuda(), wgpu: wgpu() }
    }

    /// Looks only for what `device` is one of.
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
    /// The card that is taken unless another is asked for: the newest kind, of those the one with
    /// most free memory, of those the first.
    pub fn best(&self) -> Option<usize> {
        if self.missing().is_some() {
            return None;
        }
        let usable = self.cards.iter().enumerate().filter(|(_, card)| card.problem.is_none());
        let rank = |card: &Card| (card.capability.0, card.free_bytes);
        usable.rev().max_by_key(|(_, card)| rank(card)).map(|(number, _)| number)
    }

    /// What stands in the way of every card, with what to do.
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
                "the headers of CUDA (include/cuda_fp16.h), which kernels are compiled with, are \
                 not found: install the CUDA toolkit, or set CUDA_PATH to the folder that holds \
                 `include`"
                    .into(),
            );
        }
        None
    }
}

/// What CUDA finds, looked for once; `None` = not built in.
#[cfg(feature = "cuda")]
pub(super) fn cuda() -> Option<Cuda> {
    static FOUND: OnceLock<Cuda> = OnceLock::new();
    Some(FOUND.get_or_init(super::cuda::look).clone())
}

/// What CUDA finds; `None` = not built in.
#[cfg(not(feature = "cuda"))]
pub(super) fn cuda() -> Option<Cuda> {
    None
}

/// The cards of Vulkan or Metal, looked for once; `None` = not built in.
#[cfg(feature = "wgpu")]
pub(super) fn wgpu() -> Option<Vec<Adapter>> {
    static FOUND: OnceLock<Vec<Adapter>> = OnceLock::new();
    Some(FOUND.get_or_init(super::wgpu::look).clone())
}

/// The cards of Vulkan or Metal; `None` = not built in.
#[cfg(not(feature = "wgpu"))]
pub(super) fn wgpu() -> Option<Vec<Adapter>> {
    None
}
