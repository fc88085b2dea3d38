//! `acestep model list`.

use acestep_engine::error::size;
use acestep_import::{Presence, Release, all_built_in, model_files};
use anyhow::Result;
use serde_json::json;

use crate::{
    report::{self, Report},
    settings,
};

pub(super) fn run(json: bool, report: &Report) -> Result<()> {
    report.notes(&settings::loaded().check_models_dir()?);
    let layout = settings::layout();
    let mut objects = Vec::new();
    let mut lines = vec![line("name", "size", "here", "")];
    for model in Release::all() {
        let presence = layout.presence(model);
        let path = layout.place(model).filter(|_| presence != Presence::Absent);
        let bytes: Option<u64> = path
            .as_ref()
            .and_then(|path| model_files(path).ok())
            .map(|files| files.iter().map(|(_, bytes)| bytes).sum());
        let (shown, lacks) = match &presence {
            Presence::Absent => ("-", &[][..]),
            Presence::Partial(lacks) => ("in part", &lacks[..]),
            Presence::Whole => ("yes", &[][..]),
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
            "here": presence == Presence::Whole, "lacks": lacks, "path": path,
        }));
    }
    let mut built_in = Vec::new();
    for (name, bytes, about) in all_built_in() {
        lines.push(line(name, &size(bytes), "built in", about));
        built_in.push(json!({ "name": name, "about": about, "bytes": bytes }));
    }
    let places = json!({
        "models_dir": settings::models_dir(), "hub": layout.hub().map(|hub| hub.cache()),
        "models": objects, "built_in": built_in,
    });
    report::result(json, &places, lines.join("\n") + "\n")?;
    if !json {
        let shared = "turbo, base, sft and their kin need vae and text-encoder too, dia2 models need mimi, magpie-357m needs nanocodec: pull brings them";
        report.line(&format!("\n{shared}"));
    }
    Ok(())
}

fn line(name: &str, size: &str, here: &str, about: &str) -> String {
    format!("{name:<21} {size:>8}  {here:<8} {about}").trim_end().to_owned()
}
