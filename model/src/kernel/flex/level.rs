//! Levels of vector instructions: found once, and lowered to test or time a lower one.
//!
//! A kernel never asks the CPU itself. So one machine runs every level up to its own.
//!
//! | level | instructions | kernels that begin with it |
//! |---|---|---|
//! | `portable` | those of every CPU | |
//! | `avx2` | AVX2, FMA, F16C | vectors of 8 numbers; int8 in pairs |
//! | `avx2-vnni` | AVX-VNNI too | products of int8 |
//! | `avx512` | AVX-512 F, BW, CD, DQ, VL | vectors of 16 numbers |
//! | `avx512-vnni` | AVX512-VNNI too | products of int8 |
//! | `avx512-bf16` | AVX512-BF16 too | products, attention, convolutions of bf16 |
//! | `amx` | AMX-BF16 too, on Linux | products of many rows, attention and convolutions of bf16; many rows with int8 |
//! | `neon` | those of every 64-bit ARM CPU | vectors of 4 numbers; few rows with int8 in int16 |
//! | `dotprod` | dot products of bytes too | products of int8 |
//! | `bf16` | matrix products of bf16 too | many rows with bf16 |
//! | `i8mm` | matrix products of bytes too | many rows with int8 |
//!
//! Burn's own products choose their instructions themselves. Kernels only use them for types and
//! shapes that no kernel supports.

use std::{fmt, str::FromStr, sync::OnceLock};

use pulp::Arch;
use thiserror::Error;

/// A level of vector instructions. They are in the order of speed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CpuLevel {
    /// Instructions that every CPU of the architecture has.
    Portable,
    /// AVX2, FMA and F16C.
    Avx2,
    /// AVX-VNNI besides.
    Avx2Vnni,
    /// AVX-512 F, BW, CD, DQ and VL.
    Avx512,
    /// AVX512-VNNI besides.
    Avx512Vnni,
    /// AVX512-BF16 besides.
    Avx512Bf16,
    /// AMX-BF16 besides.
    Amx,
    /// Vectors of ARM's 64-bit CPUs.
    Neon,
    /// Dot products of bytes.
    Dotprod,
    /// Dot products and matrix products of bf16.
    Bf16,
    /// Matrix products of bytes.
    I8mm,
}

/// A level that this CPU does not have.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{text}` is no level of this CPU, which has {}", names(&CpuLevel::here()))]
pub struct NoSuchLevel {
    /// The text.
    pub text: String,
}

/// Returns the names of levels as a list.
fn names(levels: &[CpuLevel]) -> String {
    levels.iter().map(|level| level.name()).collect::<Vec<_>>().join(", ")
}

impl CpuLevel {
    /// All levels of all architectures, the lowest first.
    const ALL: [Self; 11] = [
        Self::Portable,
        Self::Avx2,
        Self::Avx2Vnni,
        Self::Avx512,
        Self::Avx512Vnni,
        Self::Avx512Bf16,
        Self::Amx,
        Self::Neon,
        Self::Dotprod,
        Self::Bf16,
        Self::I8mm,
    ];

    /// Returns the levels of this CPU, the lowest first.
    pub fn here() -> Vec<Self> {
        Self::ALL.into_iter().filter(|level| level.is_here()).collect()
    }

    /// Returns the highest level of this CPU.
    pub fn highest() -> Self {
        Self::here().pop().unwrap_or(Self::Portable)
    }

    /// Returns the name, as a user writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx2Vnni => "avx2-vnni",
            Self::Avx512 => "avx512",
            Self::Avx512Vnni => "avx512-vnni",
            Self::Avx512Bf16 => "avx512-bf16",
            Self::Amx => "amx",
            Self::Neon => "neon",
            Self::Dotprod => "dotprod",
            Self::Bf16 => "bf16",
            Self::I8mm => "i8mm",
        }
    }

    /// True if this CPU has the level.
    fn is_here(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        return match self {
            Self::Portable => true,
            Self::Avx2 => pulp::x86::V3::try_new().is_some(),
            Self::Avx2Vnni => Self::Avx2.is_here() && is_x86_feature_detected!("avxvnni"),
            Self::Avx512 => pulp::x86::V4::try_new().is_some(),
            Self::Avx512Vnni => Self::Avx512.is_here() && is_x86_feature_detected!("avx512vnni"),
            Self::Avx512Bf16 => {
                Self::Avx512Vnni.is_here() && is_x86_feature_detected!("avx512bf16")
            }
            Self::Amx => Self::Avx512Bf16.is_here() && super::amx::exists(),
            Self::Neon | Self::Dotprod | Self::Bf16 | Self::I8mm => false,
        };
        #[cfg(target_arch = "aarch64")]
        return match self {
            Self::Portable => true,
            Self::Neon => pulp::aarch64::Neon::try_new().is_some(),
            Self::Dotprod => {
                Self::Neon.is_here() && std::arch::is_aarch64_feature_detected!("dotprod")
            }
            Self::Bf16 => {
                Self::Dotprod.is_here() && std::arch::is_aarch64_feature_detected!("bf16")
            }
            Self::I8mm => Self::Bf16.is_here() && std::arch::is_aarch64_feature_detected!("i8mm"),
            _ => false,
        };
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        return self == Self::Portable;
    }

    /// Returns the vectors of the generic kernels.
    pub fn arch(self) -> Arch {
        #[cfg(target_arch = "x86_64")]
        if self < Self::Avx2 {
            return Arch::Scalar;
        } else if self < Self::Avx512
            && let Some(vectors) = pulp::x86::V3::try_new()
        {
            return Arch::V3(vectors);
        }
        #[cfg(target_arch = "aarch64")]
        if self < Self::Neon {
            return Arch::Scalar;
        }
        Arch::new()
    }
}

impl fmt::Display for CpuLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for CpuLevel {
    type Err = NoSuchLevel;

    fn from_str(text: &str) -> Result<Self, NoSuchLevel> {
        let found = Self::here().into_iter().find(|level| level.name() == text);
        found.ok_or_else(|| NoSuchLevel { text: text.to_owned() })
    }
}

/// The level in use, with its vectors.
static CHOSEN: OnceLock<(CpuLevel, Arch)> = OnceLock::new();

/// Returns the level that kernels use.
pub fn cpu_level() -> CpuLevel {
    chosen().0
}

/// Lowers the level that kernels use, before the first kernel runs. Returns the level in use: a later
/// call changes nothing.
///
/// # Panics
/// If this CPU does not have the level: its kernels have instructions that the CPU does not know.
pub fn lower_cpu_level(level: CpuLevel) -> CpuLevel {
    assert!(level.is_here(), "this CPU does not have the level {}", level.name());
    CHOSEN.get_or_init(|| (level, level.arch())).0
}

fn chosen() -> (CpuLevel, Arch) {
    #[cfg(test)]
    if let Some(tested) = tests::TESTED.get() {
        return tested;
    }
    *CHOSEN.get_or_init(|| {
        let level = CpuLevel::highest();
        (level, level.arch())
    })
}

/// True if the level in use is `level` or a higher one.
pub(super) fn has(level: CpuLevel) -> bool {
    cpu_level() >= level
}

/// Returns the vectors of the generic kernels.
pub(super) fn arch() -> Arch {
    chosen().1
}

#[cfg(test)]
pub(super) mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        /// The level of a test, on each of its threads.
        pub(super) static TESTED: Cell<Option<(CpuLevel, Arch)>> = const { Cell::new(None) };
    }

    /// Runs a test at every level of this CPU, each with threads of its own.
    pub(in super::super) fn at_every_level(test: impl Fn() + Sync) {
        at_every_level_on(2, test);
    }

    /// The same on so many threads.
    #[expect(clippy::print_stdout, reason = "shown if the test fails")]
    pub(in super::super) fn at_every_level_on(threads: usize, test: impl Fn() + Sync) {
        for level in CpuLevel::here() {
            let set = move |_| TESTED.set(Some((level, level.arch())));
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).start_handler(set);
            let pool = pool.build();
            pool.expect("threads").install(|| {
                println!("at level {level}");
                test();
            });
        }
    }

    #[test]
    fn levels_have_one_name_each_and_a_level_that_is_absent_is_an_error() {
        for level in CpuLevel::here() {
            assert_eq!(level.name().parse(), Ok(level));
        }
        let mut names = CpuLevel::ALL.map(CpuLevel::name);
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
        assert!(CpuLevel::ALL.is_sorted());
        let error = "avx9".parse::<CpuLevel>().expect_err("no such level").to_string();
        assert!(error.starts_with("`avx9` is no level of this CPU, which has portable"), "{error}");
        #[cfg(target_arch = "x86_64")]
        assert!("neon".parse::<CpuLevel>().is_err());
    }

    /// Without this check, safe code could run instructions that the CPU does not have.
    #[test]
    #[cfg(target_arch = "x86_64")]
    #[should_panic(expected = "this CPU does not have the level neon")]
    fn a_level_of_another_cpu_is_refused() {
        lower_cpu_level(CpuLevel::Neon);
    }

    #[test]
    fn a_test_runs_at_every_level_on_all_its_threads() {
        let seen = std::sync::Mutex::new(Vec::new());
        at_every_level(|| {
            let levels = rayon::broadcast(|_| cpu_level());
            assert_eq!(levels[0], levels[1]);
            seen.lock().expect("no panic").push(levels[0]);
        });
        assert_eq!(seen.into_inner().expect("no panic"), CpuLevel::here());
    }
}
