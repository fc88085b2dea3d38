//! The request that makes the same song again, for a file and for the tags of a song.

use std::path::Path;

use acestep_engine::{Error, files::Existing};
use acestep_import::{Format, acestep::MODELS, built_in};
use acestep_music::Request;

use super::Resolved;
use crate::commands::text::{self, write_text};

impl Resolved {
    /// Saves the request with every decision of the plan, so that it makes the same song.
    pub(super) fn save(&self, path: &Path, existing: Existing) -> Result<(), Error> {
        let Self { setup, folder, request, plan, .. } = self;
        // Use a name that is the same everywhere; otherwise the path.
        let is_same = matches!(folder.origin().format, Format::Released | Format::BuiltIn);
        let model = match is_released(&setup.model) && is_same {
            true => setup.model.clone(),
            false => folder.path().display().to_string(),
        };
        let saved = plan.to_request(request).with(|r| {
            r.compute.model = Some(model);
            // It makes the song again from any folder.
            r.source.files_mut().for_each(|path| *path = text::anywhere(path));
        });
        write_text(path, &saved.to_json(), existing)
    }

    /// Returns the request for song `index` alone, for its tags. A song may be given to
    /// others, so the user's files are named without their folders.
    pub(super) fn of_song(&self, index: usize) -> Request {
        let Self { setup, folder, request, plan, .. } = self;
        let model = match is_released(&setup.model) {
            true => setup.model.clone(),
            false => folder.name().to_owned(),
        };
        let name = |path: &mut String| {
            if let Some(name) = Path::new(path.as_str()).file_name() {
                *path = name.to_string_lossy().into_owned();
            }
        };
        plan.to_request_of(request, index).with(|r| {
            r.compute.model = Some(model);
            r.source.files_mut().chain(r.compute.adapter.iter_mut().flatten()).for_each(name);
        })
    }
}

/// True if `name` means the same model on every machine.
fn is_released(name: &str) -> bool {
    built_in(name).is_some() || MODELS.iter().any(|m| [m.name, m.directory].contains(&name))
}
