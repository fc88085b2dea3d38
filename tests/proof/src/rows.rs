//! Results of `check` as table rows; they go from the child to the parent process, and into
//! `check.json`.

use serde::{Deserialize, Deserializer, Serialize};

use crate::{machine::Machine, measure::ceilings::Ceilings};

/// One step of a part of the check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) name: String,
    /// Consecutive items with the same number may share a process.
    pub(crate) group: usize,
}

/// Receives the results of a step.
pub(crate) type Tell<'a> = dyn Fn(Line) + 'a;

/// One line from a child process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Line {
    /// Start of an item: its index in the part's list, and its name.
    Begin {
        index: usize,
        name: String,
    },
    /// The backend's name.
    Backend(String),
    Verified(Verified),
    Kernel(Kernel),
    /// Seconds of a compared operation, or of its reference on the same device.
    Timed {
        operation: String,
        shape: String,
        dtype: String,
        is_reference: bool,
        seconds: f64,
    },
    Length(Length),
    Rounded(Rounded),
    Ceiling(Ceiling),
    Speed(Speed),
    /// A failure in the item without a row.
    Problem(String),
    /// Text of a failure that a row already counts.
    Failed(String),
    /// A skipped check of the item, and the reason.
    Skipped(String),
}

/// Results of `verify` for one component, or for one case of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Verified {
    /// The set of goldens.
    pub(crate) set: String,
    /// Component, followed by `in bf16` if that is the type.
    pub(crate) component: String,
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) skipped: usize,
    /// The largest error as a share of its tolerance, over the cases with a tolerance.
    pub(crate) worst_share: f64,
}

impl Verified {
    /// Adds its counts to the row of the same component, or a new row.
    pub(crate) fn add_to(self, rows: &mut Vec<Self>) {
        let own = |row: &&mut Self| row.set == self.set && row.component == self.component;
        match rows.iter_mut().find(own) {
            Some(row) => {
                row.passed += self.passed;
                row.failed += self.failed;
                row.skipped += self.skipped;
                row.worst_share = row.worst_share.max(self.worst_share);
            }
            None => rows.push(self),
        }
    }
}

/// One operation of one shape in one type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Kernel {
    pub(crate) operation: String,
    pub(crate) shape: String,
    pub(crate) dtype: String,
    /// The largest difference as a share of the largest value; `None` if the result is not finite
    /// or has another shape.
    pub(crate) error: Option<f64>,
    pub(crate) tolerance: f64,
    /// Seconds of the operation as the networks call it; only for released sizes.
    pub(crate) kernel_s: Option<f64>,
    /// Seconds of the reference operations on the same device.
    pub(crate) reference_s: Option<f64>,
}

impl Kernel {
    pub(crate) fn passes(&self) -> bool {
        self.error.is_some_and(|error| error <= self.tolerance)
    }

    /// Returns its error and its tolerance as text.
    pub(crate) fn difference(&self) -> String {
        let error = self.error.map_or("not finite".to_owned(), |error| format!("{error:.1e}"));
        format!("error {error}, tolerance {:.1e}", self.tolerance)
    }
}

/// A song of one length.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Length {
    pub(crate) seconds: f64,
    pub(crate) dtype: String,
    /// Samples per channel; the expected number follows.
    pub(crate) samples: usize,
    pub(crate) expected_samples: usize,
    /// Loudness of the quietest second as a share of the peak.
    #[serde(deserialize_with = "or_nan")]
    pub(crate) quietest: f64,
    /// True if the same seed gave the same samples again.
    pub(crate) repeats: bool,
    /// Networks that overflowed in the type, so that their results are from f32.
    #[serde(default)]
    pub(crate) overflowed: Vec<String>,
    /// Other events of the run.
    #[serde(default)]
    pub(crate) notes: Vec<String>,
    /// Distance from the CPU's f32 result, as a share of its root mean square; `None` if there was
    /// nothing to compare with.
    pub(crate) latents: Option<Distance>,
    pub(crate) sound: Option<Distance>,
    /// Seconds of the second run, with loaded networks.
    pub(crate) wall_s: f64,
}

/// A relative distance, and its tolerance.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Distance {
    #[serde(deserialize_with = "or_nan")]
    pub(crate) relative_rms: f64,
    #[serde(deserialize_with = "or_nan")]
    pub(crate) tolerance: f64,
    /// For a reduced type: the distance of the CPU's own song in that type; the tolerance is a
    /// multiple of it.
    pub(crate) processor: Option<f64>,
}

/// A network in one narrow weight type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Rounded {
    pub(crate) network: String,
    pub(crate) dtype: String,
    /// Distances of its results from f32 and from bf16, as a share of their root mean square;
    /// `None` if the device lacks the type, or if they are not finite.
    pub(crate) from_f32: Option<f64>,
    pub(crate) from_bf16: Option<f64>,
    /// For a language model: the share of likeliest tokens that match f32, after the same text.
    pub(crate) same_tokens: Option<f64>,
}

/// Reads `null` as NaN: JSON has no NaN, and an unreadable row would be lost.
fn or_nan<'de, D: Deserializer<'de>>(number: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(number)?.unwrap_or(f64::NAN))
}

/// A second that is quieter than this share of the peak is silence.
const SILENCE: f64 = 1e-4;

impl Distance {
    fn passes(self) -> bool {
        // A NaN on either side fails.
        self.relative_rms <= self.tolerance
    }
}

impl Length {
    /// Returns the problems of the song.
    pub(crate) fn problems(&self) -> Vec<String> {
        let far = |what: &str, distance: Option<Distance>| {
            let distance = distance.filter(|d| !d.passes())?;
            let own = distance.processor.map(|own| format!(", its own in that type {own:.1e}"));
            let own = own.unwrap_or_default();
            Some(format!("{what} are {:.1e} from the processor's f32{own}", distance.relative_rms))
        };
        let mut problems = Vec::new();
        if self.samples != self.expected_samples {
            problems.push(format!("{} samples, not {}", self.samples, self.expected_samples));
        }
        // A NaN is a problem too.
        if self.quietest.is_nan() || self.quietest < SILENCE {
            problems.push("silence in it".to_owned());
        }
        if !self.repeats {
            problems.push("the same seed gave other samples".to_owned());
        }
        problems.extend(self.overflowed.iter().cloned());
        problems.extend(far("latents", self.latents));
        problems.extend(far("samples", self.sound));
        problems
    }
}

/// Ceilings of the device in one type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ceiling {
    pub(crate) dtype: String,
    #[serde(flatten)]
    pub(crate) measured: Ceilings,
}

/// One stage at full size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Speed {
    /// Name of the stage; rows of PyTorch use the same.
    pub(crate) id: String,
    /// Description of one run.
    pub(crate) unit: String,
    pub(crate) dtype: String,
    pub(crate) wall_s: f64,
    pub(crate) median_s: f64,
    pub(crate) flop: f64,
    pub(crate) weight_bytes: f64,
    pub(crate) floor_s: f64,
    /// 1 is as fast as the ceilings allow.
    pub(crate) share_of_floor: f64,
    /// The usual metric of the stage.
    pub(crate) rate: f64,
    pub(crate) rate_unit: String,
}

/// The same stage in PyTorch, in one of its modes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Torch {
    pub(crate) id: String,
    /// `eager`, `compile`, `graph`, `compile+graph`.
    pub(crate) mode: String,
    pub(crate) wall_s: Option<f64>,
    /// Reason why there is no time.
    pub(crate) error: Option<String>,
}

/// Summary of a part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Summary {
    pub(crate) name: String,
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) skipped: usize,
    pub(crate) seconds: f64,
    /// All failures; then all skipped checks with their reasons.
    pub(crate) problems: Vec<String>,
    pub(crate) not_run: Vec<String>,
}

/// All results.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// Start of the run in UTC.
    pub(crate) date: String,
    pub(crate) version: String,
    pub(crate) commit: Option<String>,
    pub(crate) quick: bool,
    pub(crate) dtype: String,
    pub(crate) machine: Machine,
    pub(crate) parts: Vec<Summary>,
    pub(crate) verified: Vec<Verified>,
    pub(crate) kernels: Vec<Kernel>,
    pub(crate) lengths: Vec<Length>,
    #[serde(default)]
    pub(crate) rounded: Vec<Rounded>,
    pub(crate) ceilings: Vec<Ceiling>,
    pub(crate) speeds: Vec<Speed>,
    /// PyTorch's version and device; `None` if it was not requested or could not run.
    pub(crate) torch: Option<String>,
    pub(crate) torch_speeds: Vec<Torch>,
}

impl Results {
    /// True if anything failed.
    pub fn failed(&self) -> bool {
        self.parts.iter().any(|part| part.failed > 0)
    }

    /// Returns PyTorch's best time for a stage, and its mode.
    pub(crate) fn best_of_torch(&self, id: &str) -> Option<(f64, &str)> {
        let times = self.torch_speeds.iter().filter(|row| row.id == id);
        let times = times.filter_map(|row| Some((row.wall_s?, row.mode.as_str())));
        times.min_by(|a, b| a.0.total_cmp(&b.0))
    }
}

#[cfg(test)]
mod tests;
