//! Results of a `bench` run, as `--json` writes and `--from` reads them.

use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::Measurement;
use crate::{
    Error,
    families::{self, Preset},
    machine::Machine,
    measure::{LOAD, ceilings::Peaks},
};

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BenchRun {
    /// Version of the program.
    pub(crate) version: String,
    /// Start of the run in UTC.
    pub(crate) date: String,
    #[serde(flatten)]
    pub(crate) machine: Machine,
    /// Threads that computed; for a GPU, those of the host.
    pub(crate) threads: usize,
    /// Level of the CPU's vector instructions; empty in results of older versions.
    #[serde(default)]
    pub(crate) level: String,
    /// Load average of the minute before the run; `None` if the system has none.
    pub(crate) load_1m: Option<f64>,
    #[serde(deserialize_with = "families::preset")]
    pub(crate) preset: &'static Preset,
    /// Seconds of the song.
    pub(crate) duration_s: f64,
    /// Weight type.
    pub(crate) dtype: String,
    pub(crate) ceilings: Peaks,
    pub(crate) stages: Vec<Measurement>,
}

/// From this load average on, times are affected by other programs.
const BUSY: f64 = 0.5;

impl BenchRun {
    /// True if other programs were running too.
    pub(crate) fn was_busy(&self) -> bool {
        self.load_1m.is_some_and(|load| load > BUSY)
    }

    /// Reads a file that `--json` wrote.
    ///
    /// # Errors
    /// If the file cannot be read, or is not a complete result.
    pub fn read(path: &Path) -> Result<Self> {
        let hint = "measure again; a run that was stopped leaves nothing to read";
        let results: Self = read(path, "a whole result of `bench` in JSON", hint)?;
        if results.stages.is_empty() {
            return Err(Error::NoStages { path: path.to_owned(), hint }.into());
        }
        Ok(results)
    }

    /// Returns a text that identifies a measurement.
    fn key(&self, measured: &Measurement) -> String {
        let Self { preset, duration_s, dtype, machine, .. } = self;
        let stage = measured.stage;
        let part = if *stage == LOAD { &measured.unit } else { "" };
        let [preset, stage] = [preset.name, stage.name];
        format!("{preset} {stage}{part} of {duration_s} s in {dtype} on {}", machine.device)
    }
}

/// Returns the measurement that the results have twice: only one of the two could be shown.
pub fn repeated(results: &[BenchRun]) -> Option<String> {
    let mut keys: Vec<String> =
        results.iter().flat_map(|run| run.stages.iter().map(|stage| run.key(stage))).collect();
    keys.sort();
    keys.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0].clone())
}

/// Reads a JSON file of ours.
///
/// # Errors
/// If it cannot be read, or is not `what`.
pub(crate) fn read<T: DeserializeOwned>(
    path: &Path,
    what: &'static str,
    hint: &'static str,
) -> Result<T> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read `{}`", path.display()))?;
    let not = |source| Error::NotResults { path: path.to_owned(), what, hint, source };
    Ok(serde_json::from_str(&text).map_err(not)?)
}
