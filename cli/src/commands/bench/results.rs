//! Results of a `bench` run, as `--json` writes and `--from` reads them.

use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    ceilings::Peaks,
    presets::Preset,
    stages::{Measured, Stage},
    typed,
};
use crate::{commands::check::results::Machine, error::CliError};

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Results {
    /// Version of the program.
    pub(super) version: String,
    /// Start of the run in UTC.
    pub(super) date: String,
    #[serde(flatten)]
    pub(super) machine: Machine,
    /// Threads that computed; for a GPU, those of the host.
    pub(super) threads: usize,
    /// Load average of the minute before the run; `None` if the system has none.
    pub(super) load_1m: Option<f64>,
    pub(super) preset: Preset,
    /// Seconds of the song.
    pub(super) duration_s: f64,
    /// Weight type.
    pub(super) dtype: String,
    pub(super) ceilings: Peaks,
    pub(super) stages: Vec<Measured>,
}

/// From this load average on, times are affected by other programs.
const BUSY: f64 = 0.5;

impl Results {
    /// True if other programs were running too.
    pub(super) fn was_busy(&self) -> bool {
        self.load_1m.is_some_and(|load| load > BUSY)
    }

    /// Reads a file that `--json` wrote.
    ///
    /// # Errors
    /// If the file cannot be read, or is not a complete result.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let hint = "measure again; a run that was stopped leaves nothing to read";
        let results: Self = read(path, "a whole result of `acestep bench --json`", hint)?;
        if results.stages.is_empty() {
            let message = format!("`{}` has no stage in it", path.display());
            return Err(CliError::new(message).hint(hint).into());
        }
        Ok(results)
    }

    /// Returns a text that identifies a measurement.
    fn key(&self, measured: &Measured) -> String {
        let Self { preset, duration_s, dtype, machine, .. } = self;
        let stage = measured.stage;
        let part = if stage == Stage::Load { &measured.unit } else { "" };
        let [preset, stage] = [typed(*preset), typed(stage)];
        format!("{preset} {stage}{part} of {duration_s} s in {dtype} on {}", machine.device)
    }
}

/// Refuses results with the same measurement twice: only one of them could be shown.
///
/// # Errors
/// The repeated measurement.
pub(super) fn refuse_twice(results: &[Results]) -> Result<(), CliError> {
    let mut keys: Vec<String> =
        results.iter().flat_map(|run| run.stages.iter().map(|stage| run.key(stage))).collect();
    keys.sort();
    match keys.windows(2).find(|pair| pair[0] == pair[1]) {
        None => Ok(()),
        Some(pair) => Err(CliError::usage(format!("the results have {} twice", pair[0]))
            .hint("leave out one of the files")),
    }
}

/// Reads a JSON file of ours.
///
/// # Errors
/// If it cannot be read, or is not `what`.
pub(super) fn read<T: DeserializeOwned>(path: &Path, what: &str, hint: &str) -> Result<T> {
    let name = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read `{name}`"))?;
    let parsed = serde_json::from_str(&text);
    Ok(parsed.map_err(|error| {
        CliError::new(format!("`{name}` is not {what}")).because(error).hint(hint)
    })?)
}
