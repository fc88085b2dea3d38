//! Where to compute: the one place that turns a choice into a concrete backend.
//!
//! | module | what |
//! |---|---|
//! | [`listing`] | what this machine has, backend by backend |
//! | [`choice`] | which of it is taken |
//! | [`dtype`] | in what numbers |
//! | [`kernels`] | where compiled and tuned kernels are kept between runs |
//! | [`memory`] | what a request needs, stage by stage, and what there is |
//! | `trial` | work that may fail for lack of memory |
//! | [`panics`] | why it failed |

pub mod choice;
#[cfg(feature = "cuda")]
mod cuda;
pub mod dtype;
pub mod kernels;
pub mod listing;
pub mod memory;
pub mod panics;
pub(crate) mod trial;
#[cfg(all(feature = "wgpu", not(target_os = "macos")))]
mod vulkan;
#[cfg(feature = "wgpu")]
mod wgpu;

use std::{any::Any, fmt, str::FromStr};

use acestep_model::{Backend, Place};
use burn::tensor::DType;

pub use crate::error::Fault;
use crate::{Error, Notice, near::nearest};
pub use dtype::Dtype;
pub use listing::Listing;
pub use trial::free;

/// A device of one of the backends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Device {
    /// This machine's processor, by Flex.
    Cpu,
    /// A Vulkan or Metal card: its place in [`Listing::wgpu`], the best first.
    Wgpu(usize),
    /// An NVIDIA card, by the driver's number.
    Cuda(usize),
}

/// Work that is generic over the backend.
pub trait Job {
    /// What it gives.
    type Output;

    /// Does the work at `place`.
    fn run<B: Backend>(self, place: Place<B>) -> Self::Output;
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

/// Where something runs, as far as its failures and its memory are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Site {
    /// The device.
    pub device: Device,
    /// Its memory.
    pub room: memory::Room,
}

impl Site {
    /// What is behind a backend's device.
    pub fn of<B: Backend>(device: &B::Device) -> Self {
        let device = Device::behind::<B>(device);
        Self { device, room: memory::Room::of(device) }
    }
}

/// A device that is there, and the type of its numbers, which it can compute with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Engine {
    /// Where.
    pub device: Device,
    /// The type that weights are kept in.
    pub dtype: DType,
}

impl Engine {
    /// Runs `job` with the device's backend.
    ///
    /// # Errors
    /// [`Error::NoDevice`] if the backend is not built in or the device is absent.
    pub fn run<J: Job>(self, job: J) -> Result<J::Output, Error> {
        self.device.run(self.dtype, job)
    }
}

impl Engine {
    /// Bytes of the numbers of its networks.
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
    /// `cpu`, `cuda:0 in bf16`: f32 goes without saying.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.dtype {
            DType::F32 => self.device.fmt(f),
            dtype => write!(f, "{} in {}", self.device, dtype::name(dtype)),
        }
    }
}

impl Device {
    /// The device that `--device` names, if it is there; nothing is started.
    ///
    /// # Errors
    /// [`Error::BadValue`] for what is no device; [`Error::NoDevice`] with what there is instead.
    pub fn open(name: &str) -> Result<(Self, Vec<Notice>), Error> {
        let mut notices = Vec::new();
        let device = match name {
            "auto" => Self::auto(&mut notices)?,
            named => named.parse()?,
        };
        device.check()?;
        Ok((device, notices))
    }

    /// The best device of this build that can be used: see [`choice::best`].
    ///
    /// # Errors
    /// [`Error::NoDevice`] if none is.
    pub fn auto(notices: &mut Vec<Notice>) -> Result<Self, Error> {
        let mut listing = Listing { cpu: cfg!(feature = "cpu"), cuda: listing::cuda(), wgpu: None };
        if listing.cuda.as_ref().is_none_or(|cuda| cuda.best().is_none()) {
            // Not before: to list the other cards takes a while.
            listing.wgpu = listing::wgpu();
        }
        choice::best(&listing, notices)
    }

    /// Whether it is there and can be used, as far as can be told without starting it.
    ///
    /// # Errors
    /// [`Error::NoDevice`], which says what there is.
    pub fn check(self) -> Result<(), Error> {
        choice::check(self, &Listing::of(self))
    }

    /// Whether it is a card: its memory is its own, and what it has no memory for fails there, not
    /// here.
    pub fn is_card(self) -> bool {
        self != Self::Cpu
    }

    /// Which device a backend's device is. Of a backend that is none of ours nothing is known but
    /// that its panics are nobody's lack of memory: it counts as the processor.
    pub(crate) fn behind<B: Backend>(device: &B::Device) -> Self {
        let device: &dyn Any = device;
        #[cfg(feature = "cuda")]
        if let Some(card) = device.downcast_ref::<burn_cuda::CudaDevice>() {
            return Self::Cuda(card.index);
        }
        #[cfg(feature = "wgpu")]
        if let Some(card) = device.downcast_ref::<burn_wgpu::WgpuDevice>() {
            return Self::Wgpu(wgpu::index_of(card));
        }
        let _ = device;
        Self::Cpu
    }

    /// Runs `job` with this device's backend, its weights in `dtype`.
    ///
    /// # Errors
    /// [`Error::NoDevice`] if the backend is not built in or the device is absent.
    pub fn run<J: Job>(self, dtype: DType, job: J) -> Result<J::Output, Error> {
        self.check()?;
        match self {
            #[cfg(feature = "cpu")]
            Self::Cpu => {
                Ok(job.run::<burn_flex::Flex>(Place { device: burn_flex::FlexDevice, dtype }))
            }
            #[cfg(feature = "wgpu")]
            Self::Wgpu(index) => {
                let device = wgpu::device(index, self)?;
                Ok(job.run::<burn_wgpu::Wgpu<f32, i32>>(Place { device, dtype }))
            }
            #[cfg(feature = "cuda")]
            Self::Cuda(index) => {
                let device = burn_cuda::CudaDevice::new(index);
                Ok(job.run::<burn_cuda::Cuda<f32, i32>>(Place { device, dtype }))
            }
            #[cfg(not(all(feature = "cpu", feature = "wgpu", feature = "cuda")))]
            absent => {
                drop((job, dtype));
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

    /// Reads `cpu`, `wgpu`, `wgpu:1`, `cuda`, `cuda:1`, whether it is there or not.
    fn from_str(text: &str) -> Result<Self, Error> {
        let (name, index) = text.split_once(':').unwrap_or((text, "0"));
        let unknown = || Error::BadValue {
            flag: "device",
            value: text.into(),
            why: "expected auto, cpu, cuda, cuda:N, wgpu or wgpu:N".into(),
            near: near(text, name).map(str::to_owned),
        };
        // More cards than any machine has would overflow further down.
        let number = || index.parse::<u8>().map(usize::from).map_err(|_| unknown());
        match name {
            "cpu" if text == "cpu" => Ok(Self::Cpu),
            "wgpu" => Ok(Self::Wgpu(number()?)),
            "cuda" => Ok(Self::Cuda(number()?)),
            _ => Err(unknown()),
        }
    }
}

/// What of this build was probably meant by `text`, which has `name` before its colon.
fn near(text: &str, name: &str) -> Option<&'static str> {
    let near = nearest(text, ["auto"].into_iter().chain(BUILT_IN.iter().copied()));
    // Whoever wants a card means no processor, however alike the words are.
    let wants_card = name.eq_ignore_ascii_case("gpu");
    if wants_card && matches!(near, None | Some("cpu")) { Some("auto") } else { near }
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
        let device = Device::behind::<burn_flex::Flex>(&burn_flex::FlexDevice);
        assert_eq!(device, Device::Cpu);
        assert!(!device.is_card() && Device::Cuda(0).is_card() && Device::Wgpu(0).is_card());
    }

    #[test]
    fn an_engine_says_its_type_unless_it_is_f32() {
        let engine = |dtype| Engine { device: Device::Cuda(1), dtype }.to_string();
        assert_eq!(engine(DType::F32), "cuda:1");
        assert_eq!(engine(DType::BF16), "cuda:1 in bf16");
    }
}
