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

use crate::{error::CliError, hint};

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
    request.source.task()?;
    let follows = request.follows_source() && !request.source.has_codes();
    let mut sounds = Sounds::default();
    if request.source.src_audio.is_some() && request.source.src_latents.is_some() {
        let why = "the request has both `src_audio` and `src_latents`: leave one of them out";
        return Err(Error::Conflict(why.into()).into());
    }
    if let Some(path) = request.source.src_audio.as_deref().filter(|_| follows) {
        let source = heard(path, model, notices)?;
        let source =
            Sound::from_audio(&source, model).map_err(|error| unusable(path, "source", error))?;
        sounds.source = Some(source);
    } else if let Some(path) = request.source.src_latents.as_deref().filter(|_| follows) {
        sounds.source = Some(encoded(path, "source", model)?);
    } else if request.source.src_audio.is_some() || request.source.src_latents.is_some() {
        let why = match request.source.has_codes() {
            true => "there are audio codes, which win",
            false => "text2music starts from none; did you mean --task cover?",
        };
        notices.push(Notice(format!("the source is not used: {why}")));
    }
    for path in request.source.reference_audio.iter().flatten() {
        let reference = Sound::reference(&heard(path, model, notices)?, model)
            .map_err(|error| unusable(path, "reference", error))?;
        sounds.references.push(reference);
    }
    for path in request.source.ref_latents.iter().flatten() {
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
    let source =
        request.source.src_audio.iter().chain(&request.source.src_latents).map(String::as_str);
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
    if plan.source.task != Task::TextToMusic {
        lines.push(("task", format!("{}: {}", plan.source.task.name(), plan.source.instruction)));
    }
    if let Some(path) = source_path(request, plan) {
        let followed = match plan.cover_steps() {
            steps if steps < plan.steps() => format!(", followed for {steps} steps"),
            _ => String::new(),
        };
        lines.push(("source", format!("{path}{followed}")));
    }
    lines.extend(reference_paths(request).map(|path| ("reference", path.to_owned())));
    if let Some(region) = &plan.repaint.region {
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
    plan.source.sound.as_ref()?;
    request.source.src_audio.as_deref().or(request.source.src_latents.as_deref())
}

fn reference_paths(request: &Request) -> impl Iterator<Item = &str> {
    let latents = request.source.ref_latents.iter().flatten();
    request.source.reference_audio.iter().flatten().chain(latents).map(String::as_str)
}

pub(super) fn source_json(request: &Request, plan: &Plan) -> Value {
    let Some(source) = &plan.source.sound else { return Value::Null };
    json!({
        "path": source_path(request, plan),
        "samples": source.samples(plan.length.hop),
        "added_before": plan.repaint.added.before,
        "added_after": plan.repaint.added.after,
    })
}

pub(super) fn references_json(request: &Request, plan: &Plan) -> Value {
    match plan.source.references.is_empty() {
        true => json!([]),
        false => reference_paths(request).collect(),
    }
}
