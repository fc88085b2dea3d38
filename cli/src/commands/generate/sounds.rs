//! The source and reference songs of a request: reading and describing their files.

use std::path::{Path, PathBuf};

use acestep_engine::{
    Error, Notice,
    audio::{Audio, read},
};
use acestep_music::{
    ModelInfo, Plan, Request, latents,
    plan::Task,
    sounds::{Sound, Sounds},
};
use anyhow::Result;
use serde_json::{Value, json};

use crate::{
    args::{
        editing::Editing,
        values::{put, put_all},
    },
    error::CliError,
    hint,
};

impl Editing {
    /// Overwrites values of `request` with values of the command line.
    ///
    /// # Errors
    /// If a path is not UTF-8, as a request cannot hold it.
    pub(super) fn put_over(&self, request: &mut Request) -> Result<()> {
        put_all!(self => request; task_type);
        // A song or latents from the command line replace both kinds in the request.
        if self.src_audio.is_some() || self.src_latents.is_some() {
            (request.src_audio, request.src_latents) = (None, None);
        }
        if !self.reference_audio.is_empty() || !self.ref_latents.is_empty() {
            (request.reference_audio, request.ref_latents) = (None, None);
        }
        put(&mut request.src_audio, self.src_audio.as_deref().map(text).transpose()?.as_ref());
        put(&mut request.src_latents, self.src_latents.as_deref().map(text).transpose()?.as_ref());
        put(&mut request.reference_audio, texts(&self.reference_audio)?.as_ref());
        put(&mut request.ref_latents, texts(&self.ref_latents)?.as_ref());
        let widths = (self.repaint_latent_crossfade_frames, self.repaint_wav_crossfade_sec);
        if widths != (None, None) && self.repaint_mode.is_none() {
            request.repaint_mode = Some("custom".into());
        }
        put_all!(self => request;
            audio_cover_strength, repainting_start, repainting_end, repaint_strength, repaint_mode,
            repaint_latent_crossfade_frames, repaint_wav_crossfade_sec, chunk_mask_mode,
            track_name);
        let classes = (!self.track_classes.is_empty()).then_some(&self.track_classes);
        put(&mut request.track_classes, classes);
        Ok(())
    }
}

fn texts(paths: &[PathBuf]) -> Result<Option<Vec<String>>> {
    let texts = paths.iter().map(|path| text(path)).collect::<Result<Vec<_>>>()?;
    Ok((!texts.is_empty()).then_some(texts))
}

fn text(path: &Path) -> Result<String> {
    let Some(text) = path.to_str() else {
        let message = format!("the name `{}` is not UTF-8 text", path.display());
        return Err(CliError::usage(message).hint("rename the file, or link to it").into());
    };
    Ok(text.to_owned())
}

/// Reads the songs that `request` names, in the form that `model` needs.
///
/// # Errors
/// The errors of [`read::song`] and [`latents::read`], and an error if a song is silent, too
/// short or encoded by another model.
pub(super) fn read(
    request: &Request,
    model: &ModelInfo,
    notices: &mut Vec<Notice>,
) -> Result<Sounds> {
    // A source that the task does not use is not read; a notice says so.
    Task::of(request)?;
    let follows = request.follows_source() && !request.has_codes();
    let mut sounds = Sounds::default();
    if request.src_audio.is_some() && request.src_latents.is_some() {
        let why = "the request has both `src_audio` and `src_latents`: leave one of them out";
        return Err(Error::Conflict(why.into()).into());
    }
    if let Some(path) = request.src_audio.as_deref().filter(|_| follows) {
        let source = heard(path, model, notices)?;
        let source =
            Sound::heard(&source, model).map_err(|error| unusable(path, "source", error))?;
        sounds.source = Some(source);
    } else if let Some(path) = request.src_latents.as_deref().filter(|_| follows) {
        sounds.source = Some(encoded(path, "source", model)?);
    } else if request.src_audio.is_some() || request.src_latents.is_some() {
        let why = match request.has_codes() {
            true => "there are audio codes, which win",
            false => "text2music starts from none; did you mean --task cover?",
        };
        notices.push(Notice(format!("the source is not used: {why}")));
    }
    for path in request.reference_audio.iter().flatten() {
        let reference = Sound::reference(&heard(path, model, notices)?, model)
            .map_err(|error| unusable(path, "reference", error))?;
        sounds.references.push(reference);
    }
    for path in request.ref_latents.iter().flatten() {
        let reference = encoded(path, "reference", model)?
            .excerpt(model.timbre_frames, model.hop)
            .map_err(|error| unusable(path, "reference", error))?;
        sounds.references.push(reference);
    }
    Ok(sounds)
}

fn heard(path: &str, model: &ModelInfo, notices: &mut Vec<Notice>) -> Result<Audio> {
    let frame = model.hop as f64 / f64::from(model.sample_rate);
    let (audio, more) = read::song(Path::new(path), frame)?;
    notices.extend(more);
    Ok(audio)
}

fn encoded(path: &str, what: &str, model: &ModelInfo) -> Result<Sound> {
    let latents = latents::read(Path::new(path), model.channels)?;
    Sound::latents(latents, model).map_err(|error| unusable(path, what, error))
}

fn unusable(path: &str, what: &str, error: Error) -> anyhow::Error {
    let refusal = CliError::new(format!("`{path}` cannot be used as the {what}"));
    let refusal = match hint::of_engine(&error) {
        Some(hint) => refusal.hint(hint),
        None => refusal,
    };
    refusal.because(error).into()
}

/// Refuses to save a request if an output would overwrite one of its source songs.
pub(super) fn check_saved<'a>(
    request: &Request,
    outputs: impl Iterator<Item = &'a Path>,
) -> Result<(), CliError> {
    let real = |path: &Path| path.canonicalize().ok();
    let source = request.src_audio.iter().chain(&request.src_latents).map(String::as_str);
    let inputs: Vec<PathBuf> =
        source.chain(reference_paths(request)).filter_map(|path| real(Path::new(path))).collect();
    for path in outputs {
        if real(path).is_some_and(|path| inputs.contains(&path)) {
            let message = format!(
                "`{}` is both read and written: the saved request would not make the song again",
                path.display()
            );
            return Err(CliError::usage(message).hint("choose another --output"));
        }
    }
    Ok(())
}

/// Lines about the task, the source and so on, for people.
pub(super) fn lines(request: &Request, plan: &Plan) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if plan.task != Task::TextToMusic {
        lines.push(("task", format!("{}: {}", plan.task.name(), plan.instruction)));
    }
    if let Some(path) = source_path(request, plan) {
        let followed = match plan.cover_steps() {
            steps if steps < plan.steps() => format!(", followed for {steps} steps"),
            _ => String::new(),
        };
        lines.push(("source", format!("{path}{followed}")));
    }
    lines.extend(reference_paths(request).map(|path| ("reference", path.to_owned())));
    if let Some(region) = &plan.region {
        let (start, end) = region.seconds;
        let frames = &region.frames;
        lines.push((
            "region",
            format!("{start} s to {end:.2} s: latent frames {} to {}", frames.start, frames.end),
        ));
    }
    lines
}

fn source_path<'a>(request: &'a Request, plan: &Plan) -> Option<&'a str> {
    plan.source.as_ref()?;
    request.src_audio.as_deref().or(request.src_latents.as_deref())
}

fn reference_paths(request: &Request) -> impl Iterator<Item = &str> {
    let latents = request.ref_latents.iter().flatten();
    request.reference_audio.iter().flatten().chain(latents).map(String::as_str)
}

pub(super) fn source_json(request: &Request, plan: &Plan) -> Value {
    let Some(source) = &plan.source else { return Value::Null };
    json!({
        "path": source_path(request, plan),
        "samples": source.samples(plan.hop),
        "added_before": plan.added.before,
        "added_after": plan.added.after,
    })
}

pub(super) fn references_json(request: &Request, plan: &Plan) -> Value {
    match plan.references.is_empty() {
        true => json!([]),
        false => reference_paths(request).collect(),
    }
}

pub(super) fn region_json(plan: &Plan) -> Value {
    let Some(region) = &plan.region else { return Value::Null };
    json!({
        "seconds": [region.seconds.0, region.seconds.1],
        "frames": [region.frames.start, region.frames.end],
        "injection_ratio": region.repaint.injection_ratio,
        "latent_crossfade_frames": region.repaint.crossfade_frames,
        "wav_crossfade_sec": region.repaint.crossfade_s,
    })
}
