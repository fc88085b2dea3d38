//! Data types of weights and of matrix products.
//!
//! On a CPU this type is only used for weights; everything except products with weights is f32. The
//! language model and the diffusion transformer take the most time and memory. On a CPU their
//! matrices may be int8 (`q8`); the other networks are bf16 then.
//!
//! bf16 has the range of f32 with an 8-bit mantissa; the networks were trained in it. f16 has an
//! 11-bit mantissa and ends at 65 504, which activations of these networks can exceed. So it is
//! used only on request. Norms, softmax and sums are always f32.

use std::str::FromStr;

use acestep_model::{Backend, Place};
use burn::tensor::DType;

use super::{
    BackendWork, Device,
    listing::{self, GpuAdapter, Listing},
};
pub use crate::error::dtype_name as name;
use crate::{Error, check::one_of, error::shortened, suggest::nearest};

/// Value of the setting `dtype`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dtype {
    /// The best type of the device: bf16 on CPUs and on NVIDIA GPUs that support it, otherwise f32.
    #[default]
    Auto,
    /// 32 bits.
    F32,
    /// 16 bits with the range of f32.
    Bf16,
    /// 16 bits, up to 65 504.
    F16,
    /// 8 bits, with a scale for each 32 values.
    Q8,
}

/// Types that a device supports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Supported {
    /// All types, f32 first.
    pub all: Vec<DType>,
    /// The choice of `auto`.
    pub best: DType,
}

/// The first compute capability with bf16: Ampere.
const BF16_SINCE: (u32, u32) = (8, 0);
/// The first compute capability with f16.
const F16_SINCE: (u32, u32) = (5, 3);

impl Supported {
    /// Returns the types of our kernels on Flex: weights in f32, bf16 and int8.
    pub fn cpu() -> Self {
        Self { all: vec![DType::F32, DType::BF16, DType::I8], best: DType::BF16 }
    }

    /// Returns the types of an NVIDIA GPU with this compute capability.
    pub fn cuda(capability: (u32, u32)) -> Self {
        let mut all = vec![DType::F32];
        if capability >= F16_SINCE {
            all.push(DType::F16);
        }
        let has_bf16 = capability >= BF16_SINCE;
        if has_bf16 {
            all.push(DType::BF16);
        }
        Self { all, best: if has_bf16 { DType::BF16 } else { DType::F32 } }
    }

    /// Returns the types of a Vulkan or Metal GPU. Some store and convert bf16, but none computes in
    /// it.
    pub fn wgpu(adapter: &GpuAdapter) -> Self {
        let types = [DType::F32, DType::F16];
        Self { all: types[..1 + usize::from(adapter.has_f16)].to_vec(), best: DType::F32 }
    }

    /// Returns the types of `device` in `listing`, without starting it; `None` if it is not there.
    pub fn listed(device: Device, listing: &Listing) -> Option<Self> {
        match device {
            Device::Cpu => Some(Self::cpu()),
            Device::Cuda(index) => {
                let card = listing.cuda.as_ref()?.gpus.get(index)?;
                Some(Self::cuda(card.capability))
            }
            Device::Wgpu(index) => listing.wgpu.as_ref()?.get(index).map(Self::wgpu),
        }
    }

    /// Returns the types of `device`. This starts a Vulkan or Metal GPU.
    ///
    /// # Errors
    /// [`Error::NoDevice`]
    pub fn of(device: Device) -> Result<Self, Error> {
        match device {
            Device::Cpu => Ok(Self::cpu()),
            Device::Cuda(index) => {
                device.check()?;
                let gpu = listing::cuda().and_then(|cuda| cuda.gpus.get(index).cloned());
                Ok(Self::cuda(gpu.map_or((0, 0), |gpu| gpu.capability)))
            }
            Device::Wgpu(_) => {
                Ok(Self { all: device.run(DType::F32, QueryTypes)?, best: DType::F32 })
            }
        }
    }
}

/// Queries the backend.
struct QueryTypes;

impl BackendWork for QueryTypes {
    type Output = Vec<DType>;

    fn run<B: Backend>(self, place: Place<B>) -> Vec<DType> {
        let types = [DType::F32, DType::F16, DType::BF16];
        types.into_iter().filter(|&dtype| B::supports_dtype(&place.device, dtype)).collect()
    }
}

impl Dtype {
    /// Resolves the type for `device`.
    ///
    /// # Errors
    /// [`Error::BadValue`] with the supported types; [`Error::NoDevice`].
    pub fn resolve(self, device: Device) -> Result<DType, Error> {
        match (self, device) {
            // Does not start the GPU.
            (Self::Auto | Self::F32, Device::Wgpu(_)) => Ok(DType::F32),
            _ => self.among(&Supported::of(device)?, device),
        }
    }

    /// Returns the type, or `None` for `auto`.
    pub fn named(self) -> Option<DType> {
        match self {
            Self::Auto => None,
            Self::F32 => Some(DType::F32),
            Self::Bf16 => Some(DType::BF16),
            Self::F16 => Some(DType::F16),
            Self::Q8 => Some(DType::I8),
        }
    }

    fn among(self, supported: &Supported, device: Device) -> Result<DType, Error> {
        let Some(wanted) = self.named() else { return Ok(supported.best) };
        if supported.all.contains(&wanted) {
            return Ok(wanted);
        }
        let names: Vec<_> = supported.all.iter().map(|&dtype| name(dtype)).collect();
        let why = format!("{device} computes in {}", one_of(&names));
        Err(Error::BadValue { field: "dtype", value: name(wanted).into(), why, near: None })
    }
}

impl FromStr for Dtype {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Ok(match text {
            "auto" => Self::Auto,
            "f32" => Self::F32,
            "bf16" => Self::Bf16,
            "f16" => Self::F16,
            "q8" => Self::Q8,
            _ => {
                let why = "expected auto, f32, bf16, f16 or q8".into();
                let near = nearest(text, ["auto", "f32", "bf16", "f16", "q8"]).map(str::to_owned);
                return Err(Error::BadValue { field: "dtype", value: shortened(text), why, near });
            }
        })
    }
}

/// Returns the type of the other networks if language model and diffusion transformer use `dtype`.
/// int8 would reduce their quality without a gain in speed.
pub fn of_others(dtype: DType) -> DType {
    if dtype == DType::I8 { DType::BF16 } else { dtype }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_is_bf16_on_processors_and_where_an_nvidia_card_has_it_and_f32_elsewhere() {
        let auto = |capability| {
            Dtype::Auto.among(&Supported::cuda(capability), Device::Cuda(0)).expect("a type")
        };
        assert_eq!(auto((9, 0)), DType::BF16);
        assert_eq!(auto((8, 0)), DType::BF16);
        assert_eq!(auto((7, 5)), DType::F32);
        assert_eq!(Dtype::Auto.resolve(Device::Cpu).expect("a type"), DType::BF16);
        assert_eq!(Dtype::Auto.resolve(Device::Wgpu(0)).expect("a type"), DType::F32);
    }

    #[test]
    fn a_type_that_the_device_lacks_is_refused_with_those_it_has() {
        let message = |dtype: Dtype, capability| {
            let refused = dtype.among(&Supported::cuda(capability), Device::Cuda(1));
            refused.expect_err("refused").to_string()
        };
        assert_eq!(
            message(Dtype::Bf16, (7, 5)),
            "`dtype: bf16` cannot be used: cuda:1 computes in f32 or f16"
        );
        assert!(message(Dtype::F16, (5, 2)).ends_with("cuda:1 computes in f32"));
        let error = Dtype::F16.resolve(Device::Cpu).expect_err("refused");
        assert_eq!(
            error.to_string(),
            "`dtype: f16` cannot be used: cpu computes in f32, bf16 or q8"
        );
    }

    #[test]
    fn a_type_is_read_as_it_is_written() {
        for dtype in [DType::F32, DType::BF16, DType::F16] {
            let read: Dtype = name(dtype).parse().expect("a type");
            let all = Supported::cuda((9, 0));
            assert_eq!(read.among(&all, Device::Cuda(0)).expect("it has all"), dtype);
        }
        for text in ["", "fp16", "F32", "f64", "int8"] {
            assert!(text.parse::<Dtype>().is_err(), "{text}");
        }
    }
}
