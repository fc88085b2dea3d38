//! The files of a request's source and reference songs, described.

use acestep_engine::error::counted;
use acestep_music::{Plan, Request, plan::Task};
use serde_json::{Value, json};

/// Lines about the task, the source and so on, for people.
pub(super) fn lines(request: &Request, plan: &Plan) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if plan.source.task != Task::TextToMusic {
        lines.push(("task", format!("{}: {}", plan.source.task.name(), plan.source.instruction)));
    }
    if let Some(path) = source_path(request, plan) {
        let followed = match plan.cover_steps() {
            steps if steps < plan.steps() => format!(", followed for {}", counted(steps, "step")),
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
