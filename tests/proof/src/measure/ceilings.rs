//! Ceilings of a machine, and the minimum time of a task that follows from them.
//!
//! `floor = max(operations / peak of the arithmetic, bytes of weights / memory bandwidth)`. The
//! peak is the rate of the instruction that multiplies weights of a type:
//!
//! | weights | on the CPU | without that instruction | on a GPU |
//! |---|---|---|---|
//! | f32, f16 | f32 FMA | | a large product in that type |
//! | bf16 | bf16 dot | f32 FMA | the same |
//! | q8 | int8 dot, or bf16 dot where it is faster: AMX | f32 FMA | the same |
//! | f32 beside bf16 or q8, in a stage that stays in f32 | f32 FMA, or a third of the bf16 dot | f32 FMA | as the run |

use acestep_engine::Device;
use acestep_model::{Backend, Place};
use burn::tensor::DType;
use serde::{Deserialize, Serialize};

#[cfg(feature = "cpu")]
use super::silicon;
use super::{BenchStage, clock};

/// Rates that a stage is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ceilings {
    /// Operations per second.
    pub flop_per_s: f64,
    /// Bytes per second when reading or writing more than any cache holds.
    pub bytes_per_s: f64,
}

/// The minimum seconds of a task, and the ceiling that determines it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Floor {
    pub(crate) seconds: f64,
    pub(crate) binds: Binds,
}

/// The limit of a stage's speed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Binds {
    /// The operations.
    Arithmetic,
    /// Reading every weight once.
    Memory,
}

impl Ceilings {
    // ANCHOR: floor
    /// Returns the floor of `flop` operations with `bytes` of weights.
    pub(crate) fn floor(self, flop: f64, bytes: f64) -> Floor {
        let (arithmetic, memory) = (flop / self.flop_per_s, bytes / self.bytes_per_s);
        if arithmetic >= memory {
            Floor { seconds: arithmetic, binds: Binds::Arithmetic }
        } else {
            Floor { seconds: memory, binds: Binds::Memory }
        }
    }
    // ANCHOR_END: floor
}

impl Binds {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Arithmetic => "arithmetic",
            Self::Memory => "memory",
        }
    }
}

/// Storage type of weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weights {
    F32,
    F16,
    Bf16,
    /// One byte each, and a scale of four bytes per 32 weights.
    Q8,
}

impl Weights {
    /// Returns the type for a network in `dtype`; a type without networks counts as f32.
    pub(crate) fn of(dtype: DType) -> Self {
        match dtype {
            DType::F16 => Self::F16,
            DType::BF16 => Self::Bf16,
            DType::I8 => Self::Q8,
            _ => Self::F32,
        }
    }

    /// Returns the bytes of one weight.
    pub(crate) fn bytes(self) -> f64 {
        match self {
            Self::F32 => 4.0,
            Self::F16 | Self::Bf16 => 2.0,
            Self::Q8 => 1.0 + 4.0 / 32.0,
        }
    }
}

/// The multiplying instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Arithmetic {
    #[serde(rename = "f32 FMA")]
    F32,
    #[serde(rename = "bf16 dot")]
    Bf16,
    #[serde(rename = "int8 dot")]
    Int8,
    /// The backend's own product of large matrices.
    #[serde(rename = "large product")]
    Product,
}

/// Peak rates of all cores together, with register operands only.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Registers {
    /// f32 operations per second; a fused multiply-add counts as two.
    pub(crate) f32_flop_per_s: f64,
    /// The same for bf16 pairs summed in f32; `None` if the CPU has no AVX512-BF16.
    pub(crate) bf16_flop_per_s: Option<f64>,
    /// The same for bytes summed in 32 bits; `None` without an instruction for them.
    pub(crate) int8_op_per_s: Option<f64>,
}

impl Registers {
    /// Returns the peak for `weights`.
    #[cfg(any(feature = "cpu", test))]
    pub(crate) fn peak(self, weights: Weights) -> (Arithmetic, f64) {
        let narrow = match weights {
            Weights::F32 | Weights::F16 => None,
            Weights::Bf16 => self.bf16_flop_per_s.map(|peak| (Arithmetic::Bf16, peak)),
            Weights::Q8 => {
                let bf16 = self.bf16_flop_per_s.map(|peak| (Arithmetic::Bf16, peak));
                let int8 = self.int8_op_per_s.map(|peak| (Arithmetic::Int8, peak));
                int8.filter(|(_, peak)| bf16.is_none_or(|(_, other)| *peak >= other)).or(bf16)
            }
        };
        narrow.unwrap_or((Arithmetic::F32, self.f32_flop_per_s))
    }

    /// Returns the peak for f32 beside weights that are multiplied as `arithmetic`. Beside narrow weights, an f32 may be the sum
    /// of two bf16, whose products are three.
    pub(crate) fn peak_of_f32(self, beside: Arithmetic) -> f64 {
        let sums = self.bf16_flop_per_s.filter(|_| beside != Arithmetic::F32);
        self.f32_flop_per_s.max(sums.unwrap_or(0.0) / 3.0)
    }

    /// Returns the better of two measurements of one CPU.
    pub(crate) fn best(self, other: Self) -> Self {
        let most = |a: Option<f64>, b: Option<f64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.max(b)),
            (a, b) => a.or(b),
        };
        Self {
            f32_flop_per_s: self.f32_flop_per_s.max(other.f32_flop_per_s),
            bf16_flop_per_s: most(self.bf16_flop_per_s, other.bf16_flop_per_s),
            int8_op_per_s: most(self.int8_op_per_s, other.int8_op_per_s),
        }
    }
}

/// All ceilings of a machine; the used ones come first.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Peaks {
    /// The ceilings that the stages of this run are compared with.
    #[serde(flatten)]
    pub(crate) used: Ceilings,
    /// The instruction of their operations.
    pub(crate) arithmetic: Arithmetic,
    /// Operations per second of the backend's own product of large matrices: on the CPU in f32, on
    /// a GPU in the type of the run.
    pub(crate) product_flop_per_s: f64,
    /// The CPU's own peaks; `None` for a GPU.
    pub(crate) registers: Option<Registers>,
}

impl Peaks {
    /// Measures `device`, for networks at `place`.
    pub(crate) fn measure<B: Backend>(device: Device, place: &Place<B>) -> Self {
        #[cfg(feature = "cpu")]
        if device == Device::Cpu {
            let product = clock::product_ceiling(&Place::<B>::f32(place.device.clone()));
            let weights = Weights::of(place.dtype);
            return Self::of_processor(
                silicon::registers(),
                silicon::bytes_per_s(),
                product,
                weights,
            );
        }
        let _ = device;
        let used = clock::ceilings(place);
        let product_flop_per_s = used.flop_per_s;
        Self { used, arithmetic: Arithmetic::Product, product_flop_per_s, registers: None }
    }

    /// Returns the type of a stage's weights in a run in `dtype`, and the ceilings of the stage. On a GPU they are those of
    /// the run, which are at least as high as those of f32.
    pub(crate) fn of_stage(self, stage: &BenchStage, dtype: DType) -> (DType, Ceilings) {
        match (stage.is_in_f32, self.registers) {
            (false, _) => (dtype, self.used),
            (true, None) => (DType::F32, self.used),
            (true, Some(registers)) => {
                let flop_per_s = registers.peak_of_f32(self.arithmetic);
                (DType::F32, Ceilings { flop_per_s, ..self.used })
            }
        }
    }

    /// Returns the ceilings of a CPU, for `weights`.
    #[cfg(any(feature = "cpu", test))]
    pub(crate) fn of_processor(
        registers: Registers,
        bytes_per_s: f64,
        product_flop_per_s: f64,
        weights: Weights,
    ) -> Self {
        let (arithmetic, flop_per_s) = registers.peak(weights);
        let used = Ceilings { flop_per_s, bytes_per_s };
        Self { used, arithmetic, product_flop_per_s, registers: Some(registers) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two Zen 5 cores, measured once.
    const ZEN: Registers = Registers {
        f32_flop_per_s: 511e9,
        bf16_flop_per_s: Some(935e9),
        int8_op_per_s: Some(1917e9),
    };

    fn floor(registers: Registers, weights: Weights, flop: f64, numbers: f64) -> Floor {
        let peaks = Peaks::of_processor(registers, 42e9, 300e9, weights);
        peaks.used.floor(flop, numbers * weights.bytes())
    }

    #[test]
    fn the_floor_is_the_slower_of_arithmetic_and_memory() {
        let ceilings = Ceilings { flop_per_s: 100.0, bytes_per_s: 10.0 };
        let floor = |flop, bytes| ceilings.floor(flop, bytes);
        assert_eq!(floor(200.0, 10.0), Floor { seconds: 2.0, binds: Binds::Arithmetic });
        assert_eq!(floor(200.0, 50.0), Floor { seconds: 5.0, binds: Binds::Memory });
    }

    /// A step of the 2B transformer over 125 positions takes about 375 GFLOP with 1.4e9 weights.
    #[test]
    fn a_step_of_the_transformer_is_bound_by_arithmetic_in_every_type() {
        for (weights, seconds) in [
            (Weights::F32, 375.0 / 511.0),
            (Weights::F16, 375.0 / 511.0),
            (Weights::Bf16, 375.0 / 935.0),
            (Weights::Q8, 375.0 / 1917.0),
        ] {
            let found = floor(ZEN, weights, 375e9, 1.4e9);
            assert_eq!(found.binds, Binds::Arithmetic, "{weights:?}");
            assert!((found.seconds - seconds).abs() < 1e-9, "{weights:?}: {found:?}");
        }
    }

    /// One token of the 0.6B model: 0.5e9 weights, each read once and used for two operations.
    #[test]
    fn a_token_is_bound_by_memory_and_a_byte_a_weight_is_a_quarter_of_it() {
        let token = |weights| floor(ZEN, weights, 1e9, 0.5e9);
        for (weights, ms) in [
            (Weights::F32, 2000.0 / 42.0),
            (Weights::Bf16, 1000.0 / 42.0),
            (Weights::Q8, 562.5 / 42.0),
        ] {
            let found = token(weights);
            assert_eq!(found.binds, Binds::Memory, "{weights:?}");
            assert!((found.seconds * 1e3 - ms).abs() < 1e-3, "{weights:?}: {found:?}");
        }
    }

    #[test]
    fn a_processor_without_dots_multiplies_narrow_weights_in_f32() {
        let plain = Registers { bf16_flop_per_s: None, int8_op_per_s: None, ..ZEN };
        for weights in [Weights::Bf16, Weights::Q8] {
            assert_eq!(plain.peak(weights), (Arithmetic::F32, 511e9));
            let seconds = floor(plain, weights, 375e9, 1.4e9).seconds;
            assert!((seconds - 375.0 / 511.0).abs() < 1e-9, "{weights:?}");
        }
        assert_eq!(ZEN.peak(Weights::Bf16), (Arithmetic::Bf16, 935e9));
        assert_eq!(ZEN.peak(Weights::Q8), (Arithmetic::Int8, 1917e9));
    }

    /// AMX multiplies bf16 sixteen times as fast as FMA multiplies f32, Zen 5 not twice as fast.
    #[test]
    fn a_stage_in_f32_is_compared_with_f32_or_with_three_products_of_bf16() {
        static CODEC: BenchStage = BenchStage::new("codec", "A codec").in_f32();
        let amx = Registers {
            f32_flop_per_s: 340e9,
            bf16_flop_per_s: Some(5400e9),
            int8_op_per_s: Some(1300e9),
        };
        assert_eq!(amx.peak(Weights::Q8), (Arithmetic::Bf16, 5400e9));
        for (registers, weights, rate) in [
            (amx, Weights::Bf16, 1800e9),
            (amx, Weights::Q8, 1800e9),
            (amx, Weights::F32, 340e9),
            (ZEN, Weights::Bf16, 511e9),
        ] {
            let peaks = Peaks::of_processor(registers, 40e9, 300e9, weights);
            let expected = Ceilings { flop_per_s: rate, bytes_per_s: 40e9 };
            assert_eq!(peaks.of_stage(&CODEC, DType::BF16), (DType::F32, expected), "{weights:?}");
            static MODEL: BenchStage = BenchStage::new("model", "A model");
            assert_eq!(peaks.of_stage(&MODEL, DType::BF16), (DType::BF16, peaks.used));
        }
    }

    #[test]
    fn weights_have_the_size_of_their_type() {
        let bytes = |dtype| Weights::of(dtype).bytes();
        assert_eq!([DType::F32, DType::BF16, DType::F16].map(bytes), [4.0, 2.0, 2.0]);
        assert_eq!(Weights::Q8.bytes() * 32.0, 36.0);
    }
}
