//! `acestep model verify`.

use std::{io, process::ExitCode};

use acestep_engine::error::{counted, size};
use acestep_import::{
    Layout, Presence, Release,
    hub::{Published, Remote, VerifiedFile},
    model_files,
};
use anyhow::Result;
use serde_json::json;

use super::{bar::Bar, hub, named};
use crate::{error::CliError, exit, interrupt, report::Report, settings};

/// Runs the command: exit code 1 if a file differs from the published one.
pub(super) fn run(names: &[String], json: bool, report: &Report) -> Result<ExitCode> {
    hub()?;
    let layout = settings::layout();
    let is_here = |model: &Release| layout.presence(model) != Presence::Absent;
    let models: Vec<_> = match names.is_empty() {
        true => Release::all().filter(|model| is_here(model)).collect(),
        false => named(names, "to compare")?,
    };
    if let Some(absent) = models.iter().find(|model| !is_here(model)) {
        let message = format!("`{}` is not on this machine", absent.name);
        let hint = format!("run `acestep model pull {}`", absent.name);
        return Err(CliError::new(message).hint(hint).into());
    }
    if models.is_empty() {
        let hint = "run `acestep model pull turbo`";
        return Err(CliError::new("no model is on this machine").hint(hint).into());
    }
    let (mut objects, mut damaged) = (Vec::new(), Vec::new());
    for model in models {
        let verified = verify(model, &layout, report)?;
        let bad: Vec<_> = verified.iter().filter(|file| !file.is_whole).collect();
        let unknown = verified.iter().filter(|file| file.checksum.is_none()).count();
        let bytes = verified.iter().map(|file| file.size).sum();
        objects.push(json!({
            "name": model.name,
            "whole": bad.is_empty() && unknown == 0,
            "files": verified.iter().map(|file| json!({
                "path": file.path, "bytes": file.size, "whole": file.is_whole,
                "checksum": file.checksum.as_ref().map(ToString::to_string),
            })).collect::<Vec<_>>(),
        }));
        let count = counted(verified.len(), "file");
        let all = size(bytes);
        let (mark, outcome) = match (bad.len(), unknown) {
            (0, 0) => ("ok", format!("{count}, {all}, all as they were published")),
            (0, _) => ("unknown", format!("no checksum is known here for {unknown} of {count}")),
            (bad, _) => ("DAMAGED", format!("{bad} of {count} damaged or gone")),
        };
        if !json {
            report.output(&format!("{mark:<8} {:<17} {outcome}", model.name))?;
            for file in &bad {
                report.output(&format!("         {}", file.path.display()))?;
            }
        }
        if !bad.is_empty() {
            damaged.push(model);
        }
    }
    if json {
        report.object(&json!({ "models": objects }))?;
    }
    if damaged.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let (by_hand, pulled): (Vec<&Release>, Vec<&Release>) =
        damaged.into_iter().partition(|model| layout.own(model).is_some());
    if !pulled.is_empty() {
        let names: Vec<_> = pulled.iter().map(|model| model.name).collect();
        report.note(&format!("`acestep model pull {}` fetches it again", names.join(" ")));
    }
    if !by_hand.is_empty() {
        report.note(
            "what was put there by hand is another release, or damaged: replace it by hand, or take it \
             away and pull the model",
        );
    }
    Ok(exit::exit(exit::FAILED))
}

/// Verifies every file of the model's own directory.
fn verify(model: &Release, layout: &Layout, report: &Report) -> Result<Vec<VerifiedFile>> {
    let found = layout.place(model).and_then(|place| model_files(&place).ok());
    let found = found.unwrap_or_default();
    let bar = Bar::new(*report, found.iter().map(|(_, bytes)| bytes).sum());
    bar.of(model.name);
    let mut read = |bytes| {
        bar.add(bytes);
        match interrupt::was_pressed() {
            true => Err(io::Error::other(acestep_engine::Error::Cancelled)),
            false => Ok(()),
        }
    };
    match layout.verify(model, || published(model, report), &mut read) {
        Err(_) if interrupt::was_pressed() => Err(acestep_engine::Error::Cancelled.into()),
        verified => Ok(verified?),
    }
}

/// Returns the hub's checksums for a manually installed directory; none if the hub may not or
/// cannot be asked.
fn published(model: &Release, report: &Report) -> Published {
    if settings::offline().is_some() {
        return Published::default();
    }
    let ask = || Remote::new(&settings::access())?.published(model);
    interrupt::at_once(ask).unwrap_or_else(|error| {
        report.note(&format!("the checksums of `{}` are not known: {error}", model.directory));
        Published::default()
    })
}
