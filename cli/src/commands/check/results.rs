//! Results of the check as table rows; they go from the child to the parent process, and into
//! `check.json`.

use acestep_engine::Device;
use serde::{Deserialize, Deserializer, Serialize};

use crate::commands::bench::ceilings::Ceilings;

/// One line from a child process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Line {
    /// Start of an item: its index in the part's list, and its name.
    Begin {
        index: usize,
        name: String,
    },
    /// The backend's name.
    Backend(String),
    Verified(Verified),
    Kernel(Kernel),
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

/// Results of `verify` for one component.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Verified {
    /// The set of goldens.
    pub(super) set: String,
    /// Component, followed by `in bf16` if that is the type.
    pub(super) component: String,
    pub(super) passed: usize,
    pub(super) failed: usize,
    pub(super) skipped: usize,
    /// The largest error as a share of its tolerance, over the cases with a tolerance.
    pub(super) worst_share: f64,
}

/// One operation of one shape in one type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Kernel {
    pub(super) operation: String,
    pub(super) shape: String,
    pub(super) dtype: String,
    /// The largest difference as a share of the largest value; `None` if the result is not finite
    /// or has another shape.
    pub(super) error: Option<f64>,
    pub(super) tolerance: f64,
    /// Seconds of the operation as the networks call it; only for released sizes.
    pub(super) kernel_s: Option<f64>,
    /// Seconds of the reference operations on the same device.
    pub(super) reference_s: Option<f64>,
}

impl Kernel {
    pub(super) fn passes(&self) -> bool {
        self.error.is_some_and(|error| error <= self.tolerance)
    }
}

/// A song of one length.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Length {
    pub(super) seconds: f64,
    pub(super) dtype: String,
    /// Samples per channel; the expected number follows.
    pub(super) samples: usize,
    pub(super) expected_samples: usize,
    /// Loudness of the quietest second as a share of the peak.
    #[serde(deserialize_with = "or_nan")]
    pub(super) quietest: f64,
    /// True if the same seed gave the same samples again.
    pub(super) repeats: bool,
    /// Networks that overflowed in the type, so that their results are from f32.
    #[serde(default)]
    pub(super) overflowed: Vec<String>,
    /// Other events of the run.
    #[serde(default)]
    pub(super) notes: Vec<String>,
    /// Distance from the CPU's f32 result, as a share of its root mean square; `None` if there was
    /// nothing to compare with.
    pub(super) latents: Option<Distance>,
    pub(super) sound: Option<Distance>,
    /// Seconds of the second run, with loaded networks.
    pub(super) wall_s: f64,
}

/// A relative distance, and its tolerance.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Distance {
    #[serde(deserialize_with = "or_nan")]
    pub(super) relative_rms: f64,
    #[serde(deserialize_with = "or_nan")]
    pub(super) tolerance: f64,
    /// For a reduced type: the distance of the CPU's own song in that type; the tolerance is a
    /// multiple of it.
    pub(super) processor: Option<f64>,
}

/// A network in one narrow weight type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Rounded {
    pub(super) network: String,
    pub(super) dtype: String,
    /// Distances of its results from f32 and from bf16, as a share of their root mean square;
    /// `None` if the device lacks the type, or if they are not finite.
    pub(super) from_f32: Option<f64>,
    pub(super) from_bf16: Option<f64>,
    /// For a language model: the share of likeliest tokens that match f32, after the same text.
    pub(super) same_tokens: Option<f64>,
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
    pub(super) fn problems(&self) -> Vec<String> {
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
pub(super) struct Ceiling {
    pub(super) dtype: String,
    #[serde(flatten)]
    pub(super) measured: Ceilings,
}

/// One stage at full size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Speed {
    /// Name of the stage; rows of PyTorch use the same.
    pub(super) id: String,
    /// Description of one run.
    pub(super) unit: String,
    pub(super) dtype: String,
    pub(super) wall_s: f64,
    pub(super) median_s: f64,
    pub(super) flop: f64,
    pub(super) weight_bytes: f64,
    pub(super) floor_s: f64,
    /// 1 is as fast as the ceilings allow.
    pub(super) share_of_floor: f64,
    /// The usual metric of the stage.
    pub(super) rate: f64,
    pub(super) rate_unit: String,
}

/// The same stage in PyTorch, in one of its modes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Torch {
    pub(super) id: String,
    /// `eager`, `compile`, `graph`, `compile+graph`.
    pub(super) mode: String,
    pub(super) wall_s: Option<f64>,
    /// Reason why there is no time.
    pub(super) error: Option<String>,
}

/// Summary of a part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Part {
    pub(super) name: String,
    pub(super) passed: usize,
    pub(super) failed: usize,
    pub(super) skipped: usize,
    pub(super) seconds: f64,
    /// All failures; then all skipped checks with their reasons.
    pub(super) problems: Vec<String>,
    pub(super) not_run: Vec<String>,
}

/// The machine of the measurement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) device: String,
    /// Name of the GPU, or of the CPU if that computes.
    pub(crate) name: Option<String>,
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) driver: Option<String>,
    /// Burn's name of the backend.
    pub(crate) backend: Option<String>,
    pub(crate) processor: String,
    pub(crate) cores: usize,
    pub(crate) main_memory_bytes: u64,
}

impl Machine {
    /// True if the CPU computes.
    pub(crate) fn is_processor(&self) -> bool {
        self.device == Device::Cpu.to_string()
    }
}

/// All results.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Results {
    /// Start of the run in UTC.
    pub(super) date: String,
    pub(super) version: String,
    pub(super) commit: Option<String>,
    pub(super) quick: bool,
    pub(super) dtype: String,
    pub(super) machine: Machine,
    pub(super) parts: Vec<Part>,
    pub(super) verified: Vec<Verified>,
    pub(super) kernels: Vec<Kernel>,
    pub(super) lengths: Vec<Length>,
    #[serde(default)]
    pub(super) rounded: Vec<Rounded>,
    pub(super) ceilings: Vec<Ceiling>,
    pub(super) speeds: Vec<Speed>,
    /// PyTorch's version and device; `None` if it was not requested or could not run.
    pub(super) torch: Option<String>,
    pub(super) torch_speeds: Vec<Torch>,
}

impl Results {
    /// True if anything failed.
    pub(super) fn failed(&self) -> bool {
        self.parts.iter().any(|part| part.failed > 0)
    }

    /// Returns PyTorch's best time for a stage, and its mode.
    pub(super) fn best_of_torch(&self, id: &str) -> Option<(f64, &str)> {
        let times = self.torch_speeds.iter().filter(|row| row.id == id);
        let times = times.filter_map(|row| Some((row.wall_s?, row.mode.as_str())));
        times.min_by(|a, b| a.0.total_cmp(&b.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distance(relative_rms: f64, tolerance: f64, processor: Option<f64>) -> Distance {
        Distance { relative_rms, tolerance, processor }
    }

    fn length() -> Length {
        Length {
            seconds: 10.0,
            dtype: "f32".into(),
            samples: 480_000,
            expected_samples: 480_000,
            quietest: 0.01,
            repeats: true,
            overflowed: vec![],
            notes: vec!["the VAE did not fit; again with 224 frames".into()],
            latents: Some(distance(1e-6, 1e-5, None)),
            sound: Some(distance(0.5, 0.6, Some(0.4))),
            wall_s: 1.0,
        }
    }

    #[test]
    fn a_song_that_was_made_in_smaller_pieces_is_a_good_one() {
        assert_eq!(length().problems(), Vec::<String>::new());
    }

    #[test]
    fn whatever_is_wrong_with_a_song_is_said() {
        let broken = Length {
            samples: 479_999,
            quietest: f64::NAN,
            repeats: false,
            overflowed: vec!["the VAE overflowed in f16".into()],
            latents: Some(distance(f64::NAN, 1e-5, None)),
            sound: Some(distance(0.7, 0.6, Some(0.4))),
            ..length()
        };
        assert_eq!(
            broken.problems(),
            [
                "479999 samples, not 480000",
                "silence in it",
                "the same seed gave other samples",
                "the VAE overflowed in f16",
                "latents are NaN from the processor's f32",
                "samples are 7.0e-1 from the processor's f32, its own in that type 4.0e-1",
            ]
        );
    }

    #[test]
    fn no_distance_is_near_where_the_processor_has_no_numbers() {
        let latents = Some(distance(0.1, f64::NAN, Some(f64::NAN)));
        assert_eq!(Length { latents, ..length() }.problems().len(), 1);
    }

    /// Such a row can occur for a song.
    #[test]
    fn a_row_with_a_number_that_is_none_is_read_and_fails() {
        let latents = Some(distance(f64::NAN, f64::INFINITY, Some(f64::NAN)));
        let row = Length { quietest: f64::NAN, latents, ..length() };
        let text = serde_json::to_string(&Line::Length(row)).expect("JSON");
        let Line::Length(read) = serde_json::from_str(&text).expect("a line") else {
            panic!("{text}")
        };
        let problems = ["silence in it", "latents are NaN from the processor's f32"];
        assert_eq!(read.problems(), problems);
    }

    #[test]
    fn a_kernel_whose_result_is_not_finite_does_not_pass() {
        let kernel = |error| Kernel {
            operation: "snake".into(),
            shape: "1".into(),
            dtype: "f32".into(),
            error,
            tolerance: 1e-5,
            kernel_s: None,
            reference_s: None,
        };
        assert!(kernel(Some(1e-5)).passes());
        assert!(!kernel(Some(1.1e-5)).passes());
        assert!(!kernel(Some(f64::NAN)).passes());
        assert!(!kernel(None).passes());
    }

    #[test]
    fn a_line_is_read_as_it_is_written() {
        let lines = [
            Line::Begin { index: 3, name: "snake".into() },
            Line::Length(length()),
            Line::Ceiling(Ceiling {
                dtype: "f16".into(),
                measured: Ceilings { flop_per_s: 1e12, bytes_per_s: 1e9 },
            }),
            Line::Problem("no".into()),
        ];
        for line in lines {
            let text = serde_json::to_string(&line).expect("JSON");
            assert!(!text.contains('\n'));
            assert_eq!(serde_json::from_str::<Line>(&text).expect("a line"), line);
        }
    }
}
