//! The request that makes the same song again, for a file and for the tags of a song.

use std::path::Path;

use acestep_engine::{Error, files::Existing};
use acestep_import::{Format, acestep::MODELS, built_in};
use acestep_music::{Plan, Request, request::Source};

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
        let saved = anywhere(request, plan).with(|r| r.compute.model = Some(model));
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
        anywhere(request, plan).with(|r| {
            r.compute.model = Some(model);
            r.noise.seed = plan.noise.seeds.get(index).map(|&seed| vec![seed]);
            r.noise.batch_size = Some(1);
            // All songs share the seed or the codes, or each has its own.
            if let Some(seeds) = &mut r.noise.retake_seed {
                *seeds = one_of(seeds, index);
            }
            if let Some(lists) = &mut r.source.audio_codes {
                *lists = one_of(lists, index);
            }
            let Source { src_audio, src_latents, reference_audio, ref_latents, .. } = &mut r.source;
            [src_audio, src_latents].into_iter().flatten().for_each(name);
            let lists = [reference_audio, ref_latents, &mut r.compute.adapter];
            lists.into_iter().flatten().flatten().for_each(name);
        })
    }
}

/// Returns the value of `index`, or the last one.
fn one_of<T: Clone>(values: &[T], index: usize) -> Vec<T> {
    values.get(index).or(values.last()).cloned().into_iter().collect()
}

/// Returns the request that makes `plan` again from any folder.
fn anywhere(request: &Request, plan: &Plan) -> Request {
    plan.to_request(request).with(|r| {
        let Source { src_audio, src_latents, reference_audio, ref_latents, .. } = &mut r.source;
        let songs = [src_audio, src_latents].into_iter().flatten();
        for path in songs.chain([reference_audio, ref_latents].into_iter().flatten().flatten()) {
            *path = text::anywhere(path);
        }
    })
}

/// True if `name` means the same model on every machine.
fn is_released(name: &str) -> bool {
    built_in(name).is_some() || MODELS.iter().any(|m| [m.name, m.directory].contains(&name))
}
