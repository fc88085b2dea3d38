//! Where to compute: the one place that turns a choice into a concrete backend.

use std::{fmt, str::FromStr};

use acestep_model::Backend;

use crate::Error;

/// A device of one of the backends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Device {
    /// This machine's processor, by Flex.
    Cpu,
    /// A Vulkan or Metal card, by number.
    Wgpu(usize),
    /// An NVIDIA card, by number.
    Cuda(usize),
}

/// Work that is generic over the backend.
pub trait Job {
    /// What it gives.
    type Output;

    /// Does the work on `device`.
    fn run<B: Backend>(self, device: B::Device) -> Self::Output;
}

/// The backends of this build, in the order in which `auto` takes them.
pub const BUILT_IN: &[&str] = &[
    #[cfg(feature = "cuda")]
    "cuda",
    #[cfg(feature = "cpu")]
    "cpu",
    #[cfg(feature = "wgpu")]
    "wgpu",
];

impl Device {
    /// The best device of this build that is present.
    ///
    /// # Errors
    /// [`Error::NoDevice`] if none is.
    pub fn auto() -> Result<Self, Error> {
        if cfg!(feature = "cuda") && nvidia_driver_is_present() {
            return Ok(Self::Cuda(0));
        }
        // A wgpu device cannot be looked for without starting it, so it has to be asked for.
        if cfg!(feature = "cpu") {
            return Ok(Self::Cpu);
        }
        if cfg!(feature = "wgpu") {
            return Ok(Self::Wgpu(0));
        }
        Err(Error::NoDevice { device: "auto".into(), why: "no backend was built in".into() })
    }

    /// Runs `job` with this device's backend in f32.
    ///
    /// # Errors
    /// [`Error::NoDevice`] if the backend is not built in or its driver is absent.
    pub fn run<J: Job>(self, job: J) -> Result<J::Output, Error> {
        match self {
            #[cfg(feature = "cpu")]
            Self::Cpu => Ok(job.run::<burn_flex::Flex>(burn_flex::FlexDevice)),
            #[cfg(feature = "wgpu")]
            Self::Wgpu(index) => {
                if index > 0 {
                    let why = "this version knows only the default adapter, wgpu:0".into();
                    return Err(Error::NoDevice { device: self.to_string(), why });
                }
                let device = burn_wgpu::WgpuDevice::DefaultDevice;
                Ok(job.run::<burn_wgpu::Wgpu<f32, i32>>(device))
            }
            #[cfg(feature = "cuda")]
            Self::Cuda(index) => {
                if !nvidia_driver_is_present() {
                    let why = "no NVIDIA driver is loaded on this machine".into();
                    return Err(Error::NoDevice { device: self.to_string(), why });
                }
                Ok(job.run::<burn_cuda::Cuda<f32, i32>>(burn_cuda::CudaDevice::new(index)))
            }
            #[cfg(not(all(feature = "cpu", feature = "wgpu", feature = "cuda")))]
            absent => {
                drop(job);
                let why = format!("this build has only {}", BUILT_IN.join(", "));
                Err(Error::NoDevice { device: absent.to_string(), why })
            }
        }
    }
}

/// Touching CUDA without a driver panics deep inside, so it is looked for first.
fn nvidia_driver_is_present() -> bool {
    let marks = ["/proc/driver/nvidia/version", "/dev/dxg", r"C:\Windows\System32\nvcuda.dll"];
    marks.iter().any(|mark| std::path::Path::new(mark).exists())
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

    /// Reads `auto`, `cpu`, `wgpu`, `wgpu:1`, `cuda`, `cuda:1`.
    fn from_str(text: &str) -> Result<Self, Error> {
        let unknown = || Error::BadValue {
            flag: "device",
            value: text.into(),
            why: "expected auto, cpu, cuda, cuda:N or wgpu".into(),
        };
        let (name, index) = text.split_once(':').unwrap_or((text, "0"));
        let number = || index.parse::<usize>().map_err(|_| unknown());
        match name {
            "auto" if text == "auto" => Self::auto(),
            "cpu" if text == "cpu" => Ok(Self::Cpu),
            "wgpu" => Ok(Self::Wgpu(number()?)),
            "cuda" => Ok(Self::Cuda(number()?)),
            _ => Err(unknown()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_read_as_it_is_written() {
        for text in ["cpu", "wgpu:1", "cuda:0"] {
            assert_eq!(text.parse::<Device>().expect("a device").to_string(), text);
        }
        assert_eq!("cuda".parse::<Device>().expect("a device"), Device::Cuda(0));
        for text in ["gpu", "cpu:1", "cuda:x", "cuda:-1", ""] {
            assert!(text.parse::<Device>().is_err(), "{text}");
        }
    }
}
