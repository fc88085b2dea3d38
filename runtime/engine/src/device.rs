//! Devices: the only place that turns a choice into a concrete backend.
//!
//! | module | what |
//! |---|---|
//! | [`listing`] | the devices of this machine, by backend |
//! | [`choice`] | the device to use |
//! | [`dtype`] | the type of weights |
//! | [`kernels`] | the folder that keeps compiled and tuned kernels between runs |
//! | [`memory`] | the memory that each stage of a request needs, and the available memory |
//! | [`recovery`] | work that may fail for lack of memory |
//! | `work` | work that is generic over the backend |
//! | [`panics`] | the reason of a failure |

pub mod choice;
#[cfg(feature = "cuda")]
mod cuda;
pub mod dtype;
pub mod kernels;
pub mod listing;
pub mod memory;
pub mod panics;
pub mod recovery;
#[cfg(all(feature = "wgpu", not(target_os = "macos")))]
mod vulkan;
#[cfg(feature = "wgpu")]
mod wgpu;
mod work;

use std::{any::Any, fmt, str::FromStr};

#[doc(hidden)]
pub use acestep_model::{Backend, Place};
use burn::tensor::DType;

pub use crate::error::GpuFault;
use crate::{Error, Notice, suggest::nearest};
pub use dtype::Dtype;
pub use listing::Listing;
pub use recovery::free;
pub use work::BackendWork;

/// A device of one of the backends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Device {
    /// The CPU of this machine, with the Flex backend.
    Cpu,
    /// A GPU with Vulkan or Metal: its index in [`Listing::wgpu`], the best first.
    Wgpu(usize),
    /// An NVIDIA GPU, by the driver's number.
    Cuda(usize),
}

/// The backends of this build, in the order in which `auto` takes them.
pub const BUILT_IN: &[&str] = &[
    #[cfg(feature = "cuda")]
    "cuda",
    #[cfg(feature = "wgpu")]
    "wgpu",
    #[cfg(feature = "cpu")]
    "cpu",
];

/// A device and its memory; they decide how failures are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceTarget {
    /// The device.
    pub device: Device,
    /// Its memory.
    pub memory: memory::MemoryInfo,
}

impl DeviceTarget {
    /// The target of a backend's device.
    pub fn of<B: Backend>(device: &B::Device) -> Self {
        let device = Device::of_backend::<B>(device);
        Self { device, memory: memory::MemoryInfo::of(device) }
    }
}

/// An available device, and a type of weights that it supports.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Engine {
    /// The device.
    pub device: Device,
    /// The type of the weights.
    pub dtype: DType,
}

impl Engine {
    /// Runs `work` with the device's backend.
    ///
    /// # Errors
    /// [`Error::NoDevice`] if the backend is not built in or the device is absent.
    pub fn run<W: BackendWork>(self, work: W) -> Result<W::Output, Error> {
        self.device.run(self.dtype, work)
    }

    /// Bytes per number of its networks.
    pub fn widths(self) -> memory::Widths {
        match self.device {
            #[cfg(feature = "cpu")]
            Device::Cpu => memory::Widths::at(&Place::<burn_flex::Flex> {
                device: burn_flex::FlexDevice,
                dtype: self.dtype,
            }),
            _ => memory::Widths::all(self.dtype),
        }
    }
}

impl fmt::Display for Engine {
    /// Writes `cpu`, or `cuda:0 in bf16`; f32 is not mentioned.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.dtype {
            DType::F32 => self.device.fmt(f),
            dtype => write!(f, "{} in {}", self.device, dtype::name(dtype)),
        }
    }
}

impl Device {
    /// The device that the setting `device` names, if it is available. It is not started.
    ///
    /// # Errors
    /// [`Error::BadValue`] for an unknown name; [`Error::NoDevice`] with the available devices.
    pub fn open(name: &str) -> Result<(Self, Vec<Notice>), Error> {
        let mut notices = Vec::new();
        let device = match name {
            "auto" => Self::auto(&mut notices)?,
            named => named.parse()?,
        };
        device.check()?;
        Ok((device, notices))
    }

    /// The best usable device of this build: see [`choice::best`].
    ///
    /// # Errors
    /// [`Error::NoDevice`] if there is none.
    pub fn auto(notices: &mut Vec<Notice>) -> Result<Self, Error> {
        let mut listing = Listing { cpu: cfg!(feature = "cpu"), cuda: listing::cuda(), wgpu: None };
        if listing.cuda.as_ref().is_none_or(|cuda| cuda.best().is_none()) {
            // Only if it is needed, because listing these GPUs takes a while.
            listing.wgpu = listing::wgpu();
        }
        choice::best(&listing, notices)
    }

    /// Checks that the device is available and usable, as far as possible without starting it.
    ///
    /// # Errors
    /// [`Error::NoDevice`] with the available devices.
    pub fn check(self) -> Result<(), Error> {
        choice::check(self, &Listing::of(self))
    }

    /// True for a GPU: it has its own memory, and a lack of it is an error of the device.
    pub fn is_gpu(self) -> bool {
        self != Self::Cpu
    }

    /// The device of a backend's device. An unknown backend counts as the CPU, because its panics
    /// are never out-of-memory errors.
    pub fn of_backend<B: Backend>(device: &B::Device) -> Self {
        let device: &dyn Any = device;
        #[cfg(feature = "cuda")]
        if let Some(gpu) = device.downcast_ref::<burn_cuda::CudaDevice>() {
            return Self::Cuda(gpu.index);
        }
        #[cfg(feature = "wgpu")]
        if let Some(gpu) = device.downcast_ref::<burn_wgpu::WgpuDevice>() {
            return Self::Wgpu(wgpu::index_of(gpu));
        }
        let _ = device;
        Self::Cpu
    }

    /// Runs `work` with this device's backend, its weights in `dtype`.
    ///
    /// # Errors
    /// [`Error::NoDevice`] if the backend is not built in or the device is absent.
    pub fn run<W: BackendWork>(self, dtype: DType, work: W) -> Result<W::Output, Error> {
        self.check()?;
        match self {
            #[cfg(feature = "cpu")]
            Self::Cpu => {
                Ok(work.run::<burn_flex::Flex>(Place { device: burn_flex::FlexDevice, dtype }))
            }
            #[cfg(feature = "wgpu")]
            Self::Wgpu(index) => {
                let device = wgpu::device(index, self)?;
                Ok(work.run::<burn_wgpu::Wgpu<f32, i32>>(Place { device, dtype }))
            }
            #[cfg(feature = "cuda")]
            Self::Cuda(index) => {
                let device = burn_cuda::CudaDevice::new(index);
                Ok(work.run::<burn_cuda::Cuda<f32, i32>>(Place { device, dtype }))
            }
            #[cfg(not(all(feature = "cpu", feature = "wgpu", feature = "cuda")))]
            absent => {
                drop((work, dtype));
                Err(choice::not_built_in(absent))
            }
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Wgpu(index) => write!(f, "wgpu:{index}"),
            Self::Cuda(index) => write!(f, "cuda:{index}"),
        }
    }
}

impl FromStr for Device {
    type Err = Error;

    /// Reads `cpu`, `wgpu`, `wgpu:1`, `cuda` or `cuda:1`; the device may be absent.
    fn from_str(text: &str) -> Result<Self, Error> {
        let (name, index) = text.split_once(':').unwrap_or((text, "0"));
        let unknown = || Error::BadValue {
            field: "device",
            value: text.into(),
            why: "expected auto, cpu, cuda, cuda:N, wgpu or wgpu:N".into(),
            near: near(text, name).map(str::to_owned),
        };
        // No machine has more GPUs, and larger numbers would overflow later.
        let number = || index.parse::<u8>().map(usize::from).map_err(|_| unknown());
        match name {
            "cpu" if text == "cpu" => Ok(Self::Cpu),
            "wgpu" => Ok(Self::Wgpu(number()?)),
            "cuda" => Ok(Self::Cuda(number()?)),
            _ => Err(unknown()),
        }
    }
}

/// The device name of this build that `text` probably means; `name` is the part before its colon.
fn near(text: &str, name: &str) -> Option<&'static str> {
    let near = nearest(text, ["auto"].into_iter().chain(BUILT_IN.iter().copied()));
    // "gpu" is similar to "cpu", but the user wants a GPU.
    let wants_gpu = name.eq_ignore_ascii_case("gpu");
    if wants_gpu && matches!(near, None | Some("cpu")) { Some("auto") } else { near }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_read_as_it_is_written() {
        for text in ["cpu", "wgpu:1", "cuda:0", "cuda:255"] {
            assert_eq!(text.parse::<Device>().expect("a device").to_string(), text);
        }
        assert_eq!("cuda".parse::<Device>().expect("a device"), Device::Cuda(0));
        for text in ["gpu", "auto", "cpu:1", "cuda:x", "cuda:-1", "cuda:256", "wgpu:", ""] {
            assert!(text.parse::<Device>().is_err(), "{text}");
        }
        assert_eq!(near("gpu", "gpu"), Some(if cfg!(feature = "wgpu") { "wgpu" } else { "auto" }));
        assert_eq!(near("gpu:0", "gpu"), Some("auto"));
        assert_eq!(near("atuo", "atuo"), Some("auto"));
    }

    #[test]
    fn the_device_behind_a_backend_is_found() {
        let device = Device::of_backend::<burn_flex::Flex>(&burn_flex::FlexDevice);
        assert_eq!(device, Device::Cpu);
        assert!(!device.is_gpu() && Device::Cuda(0).is_gpu() && Device::Wgpu(0).is_gpu());
    }

    #[test]
    fn an_engine_says_its_type_unless_it_is_f32() {
        let engine = |dtype| Engine { device: Device::Cuda(1), dtype }.to_string();
        assert_eq!(engine(DType::F32), "cuda:1");
        assert_eq!(engine(DType::BF16), "cuda:1 in bf16");
    }
}
