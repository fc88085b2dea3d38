//! Timed runs: stages, their cost and time, and the ceilings of a device.
//!
//! | module | contents |
//! |---|---|
//! | [`clock`] | clocks, memory, rates of a backend |
//! | [`ceilings`], `silicon` | ceilings of a machine, and the floor that follows from them |
//! | [`weights`] | random weights |

pub(crate) mod ceilings;
pub(crate) mod clock;
#[cfg(feature = "cpu")]
pub(crate) mod silicon;
pub(crate) mod weights;

use serde::{Deserialize, Serialize, Serializer};

use clock::Time;

/// A stage that is measured alone.
#[derive(Debug, PartialEq, Eq)]
pub struct BenchStage {
    /// Name in flags and results.
    pub name: &'static str,
    /// Description, for help.
    pub about: &'static str,
    /// True if its network is kept in the requested type even if that is narrow: see
    /// [`acestep_engine::device::dtype::of_others`].
    pub is_kept_as_asked: bool,
    /// True if its network is in f32, whatever the type of the run.
    pub is_in_f32: bool,
    /// True if every preset with this stage has the same network for it.
    pub is_shared: bool,
    /// True if it takes longer for a longer sound.
    pub has_length: bool,
}

/// Loading of a network from files.
pub(crate) static LOAD: BenchStage = BenchStage::new("load", "Loading of a network from files");

impl BenchStage {
    /// A stage with a network of each preset's size, which is kept in f32 or bf16.
    pub(crate) const fn new(name: &'static str, about: &'static str) -> Self {
        Self {
            name,
            about,
            is_kept_as_asked: false,
            is_in_f32: false,
            is_shared: false,
            has_length: false,
        }
    }

    pub(crate) const fn kept_as_asked(self) -> Self {
        Self { is_kept_as_asked: true, ..self }
    }

    pub(crate) const fn in_f32(self) -> Self {
        Self { is_in_f32: true, ..self }
    }

    pub(crate) const fn shared(self) -> Self {
        Self { is_shared: true, ..self }
    }

    pub(crate) const fn with_length(self) -> Self {
        Self { has_length: true, ..self }
    }
}

impl Serialize for BenchStage {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name)
    }
}

/// Operations and weights of one run of a stage.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Cost {
    /// Floating-point operations.
    pub(crate) flop: f64,
    /// Number of weights, each read once.
    pub(crate) weights: f64,
}

/// Returns the cost of a linear layer for `rows` rows.
pub(crate) fn linear(rows: f64, input: usize, output: usize) -> Cost {
    let weights = (input * output) as f64;
    Cost { flop: 2.0 * rows * weights, weights }
}

/// Returns the cost of a product of a matrix and a vector.
pub(crate) fn matvec(input: usize, output: usize) -> Cost {
    linear(1.0, input, output)
}

/// Returns the cost of a gated transformer layer for `rows` rows, with the widths of all query heads and of
/// all key heads; attention to the keys is left out.
pub(crate) fn layer(rows: f64, width: usize, heads: [usize; 2], inner: usize) -> Cost {
    let [queries, keys] = heads;
    linear(rows, width, queries + 2 * keys)
        + linear(rows, queries, width)
        + linear(rows, width, 3 * inner)
}

/// Returns the cost of a filter of `taps` taps with `samples` output samples.
pub(crate) fn conv(samples: f64, input: usize, output: usize, taps: usize) -> Cost {
    linear(samples, input * taps, output)
}

impl Cost {
    /// Returns the cost for `rows` rows, which share the weights.
    pub(crate) fn for_rows(self, rows: usize) -> Self {
        Self { flop: self.flop * rows as f64, ..self }
    }
}

impl std::ops::Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { flop: self.flop + other.flop, weights: self.weights + other.weights }
    }
}

impl std::ops::Mul<f64> for Cost {
    type Output = Self;

    fn mul(self, times: f64) -> Self {
        Self { flop: self.flop * times, weights: self.weights * times }
    }
}

impl std::iter::Sum for Cost {
    fn sum<I: Iterator<Item = Self>>(costs: I) -> Self {
        costs.fold(Self::default(), |a, b| a + b)
    }
}

/// A measured run of a stage.
pub(crate) struct Run {
    /// Description of one run.
    pub(crate) unit: String,
    pub(crate) cost: Cost,
    pub(crate) time: Time,
    /// The usual metric of the stage.
    pub(crate) rate: Rate,
}

impl Run {
    /// A run that makes `seconds` of speech.
    pub(crate) fn of_speech(unit: String, cost: Cost, time: Time, seconds: f64) -> Self {
        let rate = Rate::new(time.wall_s / seconds, "s per second of speech");
        Self { unit, cost, time, rate }
    }
}

/// A value and its unit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Rate {
    pub(crate) value: f64,
    pub(crate) unit: String,
}

impl Rate {
    pub(crate) fn new(value: f64, unit: &str) -> Self {
        Self { value, unit: unit.to_owned() }
    }

    /// Returns the rate of `count` things in `time`.
    pub(crate) fn per_second(count: usize, unit: &str, time: Time) -> Self {
        Self::new(count as f64 / time.wall_s, unit)
    }
}
