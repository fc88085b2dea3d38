//! The user's request: a request file, and the flags that override it.

use std::path::{Path, PathBuf};

use acestep_import::{Folder, Format, KNOWN_MODELS, built_in};
use acestep_runtime::{
    Error, Notice, Plan, Request, audio::loudness::Loudness, codes, files::Existing,
    plan::MaskMode, prompt::TEXT_TO_MUSIC,
};
use anyhow::{Context, Result};

use super::{
    Args, adapters,
    describe::{infer_method, shortest},
};
use crate::{
    args::values::put,
    commands::text::{self, Stdin, Typed, text_or_file, write_text},
    error::{CliError, import_hint},
    settings,
};

/// A request, its model, and notices about them.
pub(super) struct ResolvedRequest {
    pub(super) request: Request,
    pub(super) model: String,
    /// The request file, if it names the model.
    model_is_from: Option<PathBuf>,
    pub(super) notices: Vec<Notice>,
}

impl ResolvedRequest {
    /// Reads the request file, if there is one, and applies the flags to it.
    pub(super) fn read(args: &Args) -> Result<Self> {
        let mut stdin = Stdin::default();
        let Typed { request, notices } = Typed::read(&args.song.words, &mut stdin)?;
        let (model, model_is_from) = match (&args.compute.model, &request.model) {
            (Some(typed), _) => (typed.clone(), None),
            (None, Some(written)) => (written.clone(), args.song.words.request.first().cloned()),
            (None, None) => (settings::model(), None),
        };
        let mut asked = Self { request, model, model_is_from, notices };
        asked.flags(args, &mut stdin)?;
        stdin.check()?;
        Ok(asked)
    }

    /// Returns the error for a model that cannot be opened; names the request file if that asked
    /// for it.
    pub(super) fn no_model(&self, error: acestep_import::Error) -> anyhow::Error {
        let Some(path) = &self.model_is_from else { return error.into() };
        let message = format!(
            "the request `{}` asks for the model `{}`, which cannot be used",
            path.display(),
            self.model
        );
        let other = "to make it with another model, pass --model".to_owned();
        let hint =
            import_hint(&error).map_or(other.clone(), |hint| format!("{hint}\n      {other}"));
        CliError::new(message).hint(hint).because(error).into()
    }

    fn flags(&mut self, args: &Args, stdin: &mut Stdin) -> Result<()> {
        let Args { song, editing, thinking, language, sampling, sound, .. } = args;
        let request = &mut self.request;
        let own_codes = match &song.audio_codes {
            Some(value) => Some(text_or_file("--audio-codes", value, stdin)?),
            None => None,
        };
        if let Some(text) = own_codes {
            let parsed = codes::parse(&text);
            let codes = match song.audio_codes.as_deref() {
                Some(file) if file.starts_with('@') => parsed
                    .with_context(|| format!("the codes of `{}` cannot be used", &file[1..]))?,
                _ => parsed?,
            };
            request.audio_codes = Some(vec![codes]);
            // They replace the language model's codes.
            request.thinking = None;
        }
        if let Some(value) = sampling.sampler.source_lyrics() {
            let lyrics = text_or_file("--flow-edit-source-lyrics", value, stdin)?;
            request.flow_edit_source_lyrics = Some(lyrics);
        }
        // A typed source replaces audio codes that were not typed.
        let editing_source = editing.src_audio.is_some() || editing.src_latents.is_some();
        if editing_source && song.audio_codes.is_none() && request.audio_codes.take().is_some() {
            let text = "the request's audio codes are not used: the song follows its source";
            self.notices.push(Notice(text.into()));
        }
        // A schedule excludes steps and shift: a typed flag clears the others.
        if sampling.timesteps.is_some() {
            (request.inference_steps, request.shift) = (None, None);
        } else if sampling.inference_steps.is_some() || sampling.shift.is_some() {
            request.timesteps = None;
        }
        // The same for a list of seeds and the number of songs.
        let is_list = |seeds: &Option<Vec<u64>>| seeds.as_ref().is_some_and(|s| s.len() > 1);
        if is_list(&sampling.seed) {
            request.batch_size = None;
        }
        if sampling.batch_size.is_some() && is_list(&request.seed) {
            request.seed = None;
        }
        sound.put_over(request);
        language.put_over(request);
        put(&mut request.thinking, thinking.typed().as_ref());
        match thinking.typed() {
            Some(true) if request.has_codes() => {
                request.audio_codes = None;
                let text = "the request's audio codes are not used: --thinking writes new ones";
                self.notices.push(Notice(text.into()));
            }
            // Requests of other programs always set some of these keys.
            Some(false) if !language.decisions.asks_by_name() => {
                for cot in [
                    &mut request.use_cot_metas,
                    &mut request.use_cot_caption,
                    &mut request.use_cot_language,
                ] {
                    *cot = cot.filter(|wanted| !wanted);
                }
                if request.lm_mode.take().is_some_and(|mode| mode != "generate") {
                    let text = "without the language model the caption is used as it stands";
                    self.notices.push(Notice(text.into()));
                }
            }
            _ => (),
        }
        editing.put_over(request)?;
        adapters::put(&args.compute, request)?;
        put(&mut request.seed, sampling.seed.as_ref());
        put(&mut request.batch_size, sampling.batch_size.as_ref());
        put(&mut request.inference_steps, sampling.inference_steps.as_ref());
        put(&mut request.guidance_scale, sampling.guidance_scale.as_ref());
        put(&mut request.guidance_mode, sampling.guidance_mode.as_ref());
        put(&mut request.cfg_interval_start, sampling.cfg_interval_start.as_ref());
        put(&mut request.cfg_interval_end, sampling.cfg_interval_end.as_ref());
        put(&mut request.shift, sampling.shift.as_ref());
        put(&mut request.timesteps, sampling.timesteps.as_ref());
        sampling.sampler.put_over(request, sampling.infer_method.as_ref());
        put(&mut request.rng, sampling.rng.as_ref());
        put(&mut request.vae_chunk, args.compute.vae_chunk.as_ref());
        put(&mut request.vae_overlap, args.compute.vae_overlap.as_ref());
        Ok(())
    }

    /// Saves the request with every decision of `plan`, so that it makes the same song.
    pub(super) fn save(
        &self,
        plan: &Plan,
        folder: &Folder,
        path: &Path,
        existing: Existing,
    ) -> Result<(), Error> {
        // Use a name that is the same everywhere; otherwise the path.
        let is_same = matches!(folder.origin().format, Format::Released | Format::BuiltIn);
        let model = match is_released(&self.model) && is_same {
            true => self.model.clone(),
            false => folder.path().display().to_string(),
        };
        let text = Request { model: Some(model), ..resolved(&self.request, plan) }.to_json();
        write_text(path, &text, existing)
    }

    /// Returns the request for song `index` of `plan` alone, for its tags. A song may be given to
    /// others, so the user's files are named without their folders.
    pub(super) fn of_song(&self, plan: &Plan, folder: &Folder, index: usize) -> Request {
        let model = match is_released(&self.model) {
            true => self.model.clone(),
            false => folder.name().to_owned(),
        };
        let all = resolved(&self.request, plan);
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
    built_in(name).is_some() || KNOWN_MODELS.iter().any(|m| [m.name, m.directory].contains(&name))
}
