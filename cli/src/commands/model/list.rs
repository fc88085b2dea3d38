//! `acestep model list`.

use std::process::ExitCode;

use acestep_engine::error::size;
use acestep_import::{BUILT_IN_MODELS, tiny_speech};
use anyhow::Result;
use serde_json::json;

use super::{Here, all, files, here};
use crate::{args::model::List, report::Report, settings};

/// Runs the command.
pub(super) fn run(args: &List, report: &Report) -> Result<ExitCode> {
    let (layout, hub) = (settings::layout(), settings::hub());
    let mut objects = Vec::new();
    let mut lines = vec![line("name", "size", "here", "")];
    for model in all() {
        let (is_here, lacks) = here(model, &layout, hub.as_ref());
        let path = layout.place(model).filter(|_| is_here != Here::No);
        let bytes: Option<u64> = path
            .as_ref()
            .and_then(|path| files(path).ok())
            .map(|files| files.iter().map(|(_, bytes)| bytes).sum());
        let shown = match is_here {
            Here::No => "-",
            Here::Part => "in part",
            Here::Yes => "yes",
        };
        let about = match lacks.is_empty() {
            true => model.about.to_owned(),
            false => format!("{}; lacks {}", model.about, lacks.join(", ")),
        };
        let room = bytes.map_or_else(|| format!("{:.1} GB", model.gigabytes), size);
        lines.push(line(model.name, &room, shown, &about));
        objects.push(json!({
            "name": model.name, "about": model.about, "repo": model.repo,
            "directory": model.directory, "gigabytes": model.gigabytes, "bytes": bytes,
            "here": is_here == Here::Yes, "lacks": lacks, "path": path,
        }));
    }
    let mut built_in = Vec::new();
    let songs = BUILT_IN_MODELS.iter().map(|model| (model.name, model.bytes(), model.about));
    for (name, bytes, about) in songs.chain([tiny_speech()]) {
        lines.push(line(name, &size(bytes), "built in", about));
        built_in.push(json!({ "name": name, "about": about, "bytes": bytes }));
    }
    if args.json {
        let places = json!({
            "models_dir": settings::models_dir(), "hub": hub.map(|hub| hub.cache().to_owned()),
            "models": objects, "built_in": built_in,
        });
        report.output(&format!("{places:#}"))?;
    } else {
        report.output(&lines.join("\n"))?;
        let shared =
            "turbo, base, sft and their kin need vae and text-encoder too: pull brings them";
        report.line(&format!("\n{shared}"));
    }
    Ok(ExitCode::SUCCESS)
}

fn line(name: &str, size: &str, here: &str, about: &str) -> String {
    format!("{name:<21} {size:>8}  {here:<8} {about}").trim_end().to_owned()
}
