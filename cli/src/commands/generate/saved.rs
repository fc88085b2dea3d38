//! The request that makes the same song again, for a file and for the tags of a song.

use std::path::Path;

use acestep_engine::{Error, audio::loudness::Loudness, files::Existing};
use acestep_import::{Format, acestep::MODELS, built_in};
use acestep_music::{Plan, Request, plan::MaskMode, prompt::TEXT_TO_MUSIC};

use super::{
    Resolved,
    describe::{infer_method, shortest},
};
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
        let text = Request { model: Some(model), ..resolved(request, plan) }.to_json();
        write_text(path, &text, existing)
    }

    /// Returns the request for song `index` alone, for its tags. A song may be given to
    /// others, so the user's files are named without their folders.
    pub(super) fn of_song(&self, index: usize) -> Request {
        let Self { setup, folder, request, plan, .. } = self;
        let model = match is_released(&setup.model) {
            true => setup.model.clone(),
            false => folder.name().to_owned(),
        };
        let all = resolved(request, plan);
        let name = |path: &String| {
            let name = Path::new(path).file_name();
            name.map_or_else(|| path.clone(), |name| name.to_string_lossy().into_owned())
        };
        let names = |paths: &Vec<String>| paths.iter().map(name).collect();
        // All songs share the codes, or each has its own.
        let codes = |mut lists: Vec<Vec<u32>>| vec![lists.swap_remove(index.min(lists.len() - 1))];
        Request {
            model: Some(model),
            seed: plan.seeds.get(index).map(|&seed| vec![seed]),
            retake_seed: all
                .retake_seed
                .as_ref()
                .and_then(|seeds| seeds.get(index.min(seeds.len().checked_sub(1)?)))
                .map(|&seed| vec![seed]),
            batch_size: Some(1),
            src_audio: all.src_audio.as_ref().map(name),
            src_latents: all.src_latents.as_ref().map(name),
            reference_audio: all.reference_audio.as_ref().map(names),
            ref_latents: all.ref_latents.as_ref().map(names),
            adapter: all.adapter.as_ref().map(names),
            audio_codes: all.audio_codes.filter(|lists| !lists.is_empty()).map(codes),
            ..all
        }
    }
}

/// Returns `request` with every open value set by `plan`; given values stay. The language model is
/// not used again.
fn resolved(request: &Request, plan: &Plan) -> Request {
    let has_codes = plan.has_codes();
    let follows = has_codes || plan.source.is_some();
    let region = plan.region.as_ref();
    let own_times = request.timesteps.is_some();
    let guidance = plan.guidance;
    Request {
        caption: Some(plan.caption.clone()),
        lyrics: Some(plan.lyrics.clone()),
        duration: request.duration.filter(|_| plan.source.is_none()).or(Some(plan.duration_s)),
        vocal_language: Some(plan.vocal_language.clone()),
        inference_steps: (!own_times).then_some(plan.timesteps.len() as i64),
        shift: plan.shift.map(shortest),
        guidance_scale: request
            .guidance_scale
            .filter(|_| !plan.is_turbo)
            .or(guidance.map(|guidance| shortest(guidance.scale))),
        guidance_mode: guidance.map(|guidance| guidance.mode.name().to_owned()),
        use_adg: None,
        cfg_interval_start: request
            .cfg_interval_start
            .or(guidance.map(|guidance| shortest(guidance.interval.0))),
        cfg_interval_end: request
            .cfg_interval_end
            .or(guidance.map(|guidance| shortest(guidance.interval.1))),
        // acestep.cpp's solver name is sufficient.
        infer_method: match request.solver {
            Some(_) => request.infer_method.clone(),
            None => Some(infer_method(plan).to_owned()),
        },
        retake_seed: match (&plan.retake, &plan.flow_edit) {
            (Some(retake), _) => Some(retake.seeds.clone()),
            (None, Some(edit)) => request.retake_seed.as_ref().map(|_| edit.seeds.clone()),
            (None, None) => None,
        },
        seed: Some(plan.seeds.clone()),
        batch_size: Some(plan.batch_size() as i64),
        task_type: Some(plan.task.name().to_owned()),
        src_audio: request
            .src_audio
            .as_deref()
            .filter(|_| plan.source.is_some())
            .map(text::anywhere),
        src_latents: request
            .src_latents
            .as_deref()
            .filter(|_| plan.source.is_some())
            .map(text::anywhere),
        reference_audio: request.reference_audio.as_deref().map(text::all_anywhere),
        ref_latents: request.ref_latents.as_deref().map(text::all_anywhere),
        repainting_start: region.map(|region| region.seconds.0),
        repainting_end: region.map(|region| region.seconds.1),
        chunk_mask_mode: (plan.mask_mode != MaskMode::Explicit)
            .then(|| plan.mask_mode.name().to_owned()),
        enable_normalization: Some(plan.loudness != Loudness::AsIs),
        normalization_db: match plan.loudness {
            Loudness::Peak(decibels) => Some(shortest(decibels)),
            _ => None,
        },
        audio_codes: has_codes.then(|| plan.codes.clone()),
        thinking: (!follows).then_some(false),
        audio_cover_strength: follows.then_some(plan.audio_cover_strength),
        // A task's instruction follows from the task, which may still be changed.
        instruction: (plan.instruction == TEXT_TO_MUSIC)
            .then(|| TEXT_TO_MUSIC.to_owned())
            .or_else(|| request.instruction.clone()),
        rng: Some(plan.noise.to_string()),
        vae_chunk: i64::try_from(plan.tiling.chunk).ok(),
        vae_overlap: i64::try_from(plan.tiling.overlap).ok(),
        ..request.without_language_model()
    }
}

/// True if `name` means the same model on every machine.
fn is_released(name: &str) -> bool {
    built_in(name).is_some() || MODELS.iter().any(|m| [m.name, m.directory].contains(&name))
}
