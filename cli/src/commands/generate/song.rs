//! The value of the first phase.

use std::{
    path::{Path, PathBuf},
    rc::Rc,
};

use acestep_engine::{Error, audio::format::Encoding, device::kernels::Kernels, files::Existing};
use acestep_music::Composed;
use acestep_session::song::Resolved;

use super::{after::Files, outputs::Outputs};
use crate::{
    commands::{engine, text::write_bytes},
    report::Report,
};

/// A request with all decisions before the first network is loaded, and its files.
pub(super) struct SongTask {
    pub(super) resolved: Resolved,
    pub(super) places: Rc<Places>,
}

/// The files of a request.
pub(super) struct Places {
    pub(super) kernels: Kernels,
    pub(super) encoding: Encoding,
    /// True if songs get tags.
    pub(super) is_tagged: bool,
    pub(super) outputs: Outputs,
    /// Files of extra results.
    pub(super) extras: Files,
    /// Folder for the conditions of the diffusion transformer, if they are written.
    pub(super) dump: Option<PathBuf>,
    pub(super) existing: Existing,
}

impl SongTask {
    /// Records that the models have completed a run.
    pub(super) fn remember_kernels(&self) {
        let resolved = &self.resolved;
        engine::remember(&self.places.kernels, resolved.setup.engine, &resolved.models());
    }

    /// Returns the song with the decisions of the language model, which are printed.
    pub(super) fn completed(&self, composed: Composed, report: &Report) -> Result<Self, Error> {
        report.notes(&composed.changes);
        Ok(Self { resolved: self.resolved.completed(composed)?, places: self.places.clone() })
    }

    /// Saves the request that makes the same song again.
    pub(super) fn save(&self, path: &Path, existing: Existing) -> Result<(), Error> {
        write_bytes(path, self.resolved.to_request().to_json().as_bytes(), existing)
    }
}
