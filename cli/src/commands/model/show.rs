//! `acestep model show`.

use acestep_engine::error::size;
use acestep_import::{
    MAGPIE_MODELS, Presence,
    acestep::{COMPANIONS, LANGUAGE_MODELS, MODELS},
    all_built_in, model_files,
};
use anyhow::{Context, Result};
use serde_json::json;

use super::find;
use crate::{hint::command_of, report, settings};

pub(super) fn run(name: &str, json: bool) -> Result<()> {
    let command = command_of(name);
    if let Some((name, bytes, about)) = all_built_in().find(|own| own.0 == name) {
        let object = json!({ "name": name, "about": about, "bytes": bytes, "here": true });
        let lines = [
            ("name", name.to_owned()),
            ("what", about.to_owned()),
            ("here", format!("a part of the program, {}", size(bytes))),
            ("use it", format!("acestep {command} .. --model {name}")),
        ];
        return report::result(json, &object, lines.map(line).join("\n") + "\n");
    }
    let model = find(name, "to fetch")?;
    let layout = settings::layout();
    let presence = layout.presence(model);
    let lacks = match &presence {
        Presence::Partial(lacks) => &lacks[..],
        Presence::Absent | Presence::Whole => &[],
    };
    let installed = settings::hub().and_then(|hub| hub.installed(model));
    let broken = installed.as_ref().map(|of| of.path.clone()).filter(|path| path.is_dir());
    let path = layout.place(model).or(broken).filter(|_| presence != Presence::Absent);
    let found = match path.as_deref() {
        Some(path) => {
            model_files(path).with_context(|| format!("cannot read `{}`", path.display()))?
        }
        None => vec![],
    };
    let installed = installed.filter(|of| Some(&of.path) == path.as_ref());
    let needs: Vec<_> = model.needs.iter().map(|of| of.name).collect();
    let files = found.iter().map(|(name, bytes)| json!({ "name": name, "bytes": bytes }));
    let object = json!({
        "name": model.name, "about": model.about, "repo": model.repo,
        "directory": model.directory, "gigabytes": model.gigabytes, "needs": needs,
        "here": presence == Presence::Whole, "lacks": lacks, "path": path,
        "revision": installed.as_ref().map(|of| &of.revision),
        "pulled": installed.as_ref().is_some_and(|of| of.pinned),
        "files": files.collect::<Vec<_>>(),
    });
    // The codec of other models is no model of its own.
    let is_needed = MAGPIE_MODELS.iter().any(|own| own.needs.contains(model));
    let flag = if LANGUAGE_MODELS.contains(model) { "--lm-model" } else { "--model" };
    let mut lines = vec![("name", model.name.to_owned()), ("what", model.about.to_owned())];
    lines.push(("from", format!("https://huggingface.co/{}", model.repo)));
    if !needs.is_empty() {
        lines.push(("needs", needs.join(", ")));
    }
    match &path {
        None => {
            lines
                .push(("here", format!("no, some {} to fetch", size(layout.missing_bytes(model)))));
            lines.push(("get it", format!("acestep model pull {}", model.name)));
        }
        Some(path) => {
            lines.push(("here", path.display().to_string()));
            if let Some(of) = &installed {
                let by = if of.pinned { "pulled" } else { "fetched by another program" };
                lines.push(("commit", format!("{}, {by}", of.revision)));
            }
            for (name, bytes) in &found {
                lines.push(("file", format!("{:>9}  {name}", size(*bytes))));
            }
            if !lacks.is_empty() {
                let remedy = format!("acestep model pull {}", model.name);
                lines.push(("lacks", format!("{} ({remedy})", lacks.join(", "))));
            }
            if MODELS.contains(model) || !COMPANIONS.contains(model) && !is_needed {
                lines.push(("use it", format!("acestep {command} .. {flag} {}", model.name)));
            }
        }
    }
    let lines: Vec<_> = lines.into_iter().map(line).collect();
    report::result(json, &object, lines.join("\n") + "\n")
}

fn line((key, value): (&str, String)) -> String {
    format!("{key:<8} {value}")
}
