//! The request that makes the same song again, and the tags of a song.

use std::{
    ffi::OsStr,
    path::{self, Path},
};

use acestep_engine::{audio::tags::Tags, error::counted};
use acestep_import::{ModelFormat, acestep::MODELS, built_in};
use acestep_music::Request;

use super::{Resolved, adapters};

impl Resolved {
    /// Returns the request with every decision of the plan, so that it makes the same song.
    pub fn to_request(&self) -> Request {
        let Self { setup, folder, request, plan, .. } = self;
        // Use a name that is the same everywhere; otherwise the path.
        let is_same =
            matches!(folder.origin().format, ModelFormat::Released | ModelFormat::BuiltIn);
        let model = match is_released(&setup.model) && is_same {
            true => setup.model.clone(),
            false => folder.path().display().to_string(),
        };
        plan.to_request(request).with(|r| {
            r.compute.model = Some(model);
            // It makes the song again from any folder.
            r.source.files_mut().for_each(|path| *path = absolute(path));
        })
    }

    /// Returns the request for song `index` alone. A song may be given to
    /// others, so the user's files are named without their folders.
    pub fn to_request_of(&self, index: usize) -> Request {
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
            // PEFT gives all its files one name: then the adapter has its directory's name.
            let fitted = adapters::list(folder);
            for (file, fitted) in r.compute.adapter.iter_mut().flatten().zip(fitted) {
                let own = fitted.adapter().name();
                if Path::new(&*file).file_stem() != Some(OsStr::new(&own)) {
                    *file = own;
                }
            }
        })
    }

    /// Returns the tags of song `index`.
    pub fn tags(&self, index: usize) -> Tags {
        const SHOWN: usize = 200;
        let (plan, inputs) = (&self.plan, &self.setup.inputs);
        let seed = self.seeds().map(|seeds| format!("seed {} · ", seeds[index]));
        Tags {
            title: plan.words.caption.chars().take(SHOWN).collect(),
            comment: format!(
                "{} · {}{} · {}",
                plan.words.caption,
                seed.unwrap_or_default(),
                self.folder.name(),
                counted(plan.steps(), "step"),
            ),
            software: concat!("acestep ", env!("CARGO_PKG_VERSION")).to_owned(),
            // A request cannot contain the data of other files.
            request: match inputs.have_noise() {
                true => String::new(),
                false => self.to_request_of(index).to_json(),
            },
        }
    }
}

/// Returns `path` as an absolute path.
pub fn absolute(path: &str) -> String {
    path::absolute(path)
        .ok()
        .and_then(|path| path.to_str().map(str::to_owned))
        .unwrap_or_else(|| path.to_owned())
}

/// True if `name` means the same model on every machine.
fn is_released(name: &str) -> bool {
    built_in(name).is_some() || MODELS.iter().any(|m| [m.name, m.directory].contains(&name))
}
