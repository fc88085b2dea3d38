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

use super::{
    presets::Preset,
    results::{self, Results},
    stages::Stage,
};
use crate::error::CliError;

/// Another program.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Peer {
    /// Name with version.
    pub(super) name: String,
    pub(super) threads: usize,
    rows: Vec<Row>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    preset: Preset,
    stage: Stage,
    dtype: String,
    duration_s: f64,
    wall_s: f64,
}

impl Peer {
    /// Reads such a file.
    ///
    /// # Errors
    /// If it cannot be read, is truncated, or has an invalid time.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let hint = "it wants a name, threads, and rows of preset, stage, dtype, duration_s, wall_s";
        let peer: Self = results::read(path, "a whole list of another program's times", hint)?;
        if let Some(row) = peer.rows.iter().find(|row| row.wall_s <= 0.0) {
            let message = format!("`{}` has a time of {} s", path.display(), row.wall_s);
            return Err(CliError::new(message).hint(hint).into());
        }
        Ok(peer)
    }

    /// Returns its seconds for the same work in the same type, if it has them.
    pub(super) fn seconds(&self, run: &Results, stage: Stage) -> Option<f64> {
        let same = |row: &&Row| {
            row.stage == stage
                && row.dtype == run.dtype
                && (is_shared(stage) || row.preset == run.preset)
                && (!has_length(stage) || row.duration_s == run.duration_s)
        };
        self.rows.iter().find(same).map(|row| row.wall_s)
    }
}

/// True if every preset with this stage has the same network for it.
fn is_shared(stage: Stage) -> bool {
    matches!(stage, Stage::TextEncoder | Stage::Vae | Stage::VaeEncode)
}

/// True if the stage takes longer for a longer song.
fn has_length(stage: Stage) -> bool {
    !matches!(stage, Stage::TextEncoder | Stage::Condition | Stage::LmPrefill | Stage::Load)
}
