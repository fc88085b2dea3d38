//! Times of the same stages in another program, from a JSON file that the user provides:
//!
//! ```json
//! {"name": "PyTorch 2.15", "threads": 2, "rows": [
//!   {"preset": "turbo", "stage": "dit", "dtype": "bf16", "duration_s": 10, "wall_s": 0.75}
//! ]}
//! ```

use std::path::Path;

use anyhow::Result;
use serde::Deserialize;

use super::results::{self, BenchRun};
use crate::{
    Error,
    families::{self, Preset},
    measure::BenchStage,
};

/// Another program.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    /// Name with version.
    pub(crate) name: String,
    pub(crate) threads: usize,
    rows: Vec<Row>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    #[serde(deserialize_with = "families::preset")]
    preset: &'static Preset,
    #[serde(deserialize_with = "families::stage")]
    stage: &'static BenchStage,
    dtype: String,
    duration_s: f64,
    wall_s: f64,
}

impl Peer {
    /// Reads such a file.
    ///
    /// # Errors
    /// If it cannot be read, is truncated, or has an invalid time.
    pub fn read(path: &Path) -> Result<Self> {
        let hint = "it wants a name, threads, and rows of preset, stage, dtype, duration_s, wall_s";
        let peer: Self = results::read(path, "a whole list of another program's times", hint)?;
        if let Some(row) = peer.rows.iter().find(|row| row.wall_s <= 0.0) {
            let (path, seconds) = (path.to_owned(), row.wall_s);
            return Err(Error::NoTime { path, seconds, hint }.into());
        }
        Ok(peer)
    }

    /// Returns its seconds for the same work in the same type, if it has them.
    pub(crate) fn seconds(&self, run: &BenchRun, stage: &BenchStage) -> Option<f64> {
        let same = |row: &&Row| {
            row.stage == stage
                && row.dtype == run.dtype
                && (stage.is_shared || row.preset == run.preset)
                && (!stage.has_length || row.duration_s == run.duration_s)
        };
        self.rows.iter().find(same).map(|row| row.wall_s)
    }
}
