//! `acestep model remove`.

use std::process::ExitCode;

use acestep_engine::error::size;
use acestep_import::{
    Presence, Release,
    acestep::{COMPANIONS, MODELS},
    hub::{Removed, State},
    model_files,
};
use anyhow::Result;

use super::{
    hub, named,
    offer::{ask, can_ask},
};
use crate::{error::CliError, interrupt, report::Report, settings};

pub(super) fn run(names: &[String], report: &Report) -> Result<ExitCode> {
    let (layout, hub) = (settings::layout(), hub()?);
    let models = named(names, "to delete")?;
    let mut places = Vec::new();
    for model in &models {
        match hub.state(model) {
            State::Whole(of) | State::Broken(of, _) => places.push((of.path, *model)),
            State::Absent if hub.begun(model.repo) > 0 => {
                places.push((hub.repository(model.repo), *model));
            }
            State::Absent => {
                let message = format!("`{}` is not in {}", model.name, hub.cache().display());
                let refusal = match layout.place(model) {
                    Some(path) => CliError::new(message).hint(format!(
                        "it is `{}`, which was put there by hand: delete it by hand",
                        path.display()
                    )),
                    None => CliError::new(message).hint("`acestep model list` says what is here"),
                };
                return Err(refusal.into());
            }
        }
    }
    let leaving = |model: &Release| models.contains(&model);
    let stays = |model: &Release| !leaving(model) && layout.presence(model) != Presence::Absent;
    // The companions are deleted with the last model that needs them.
    let is_last = models.iter().any(|model| MODELS.contains(model))
        && !MODELS.iter().any(stays)
        && !layout.has_nameless();
    for model in &COMPANIONS {
        if let (true, false, State::Whole(of) | State::Broken(of, _)) =
            (is_last, leaving(model), hub.state(model))
        {
            places.push((of.path, model));
        }
    }
    let mut names = Vec::new();
    for (path, model) in &places {
        let bytes = model_files(path).unwrap_or_default().iter().map(|(_, bytes)| bytes).sum();
        report.line(&format!("{:<17} {:>9}  {}", model.name, size(bytes), path.display()));
        names.push(model.name);
    }
    if !settings::yes() {
        if !can_ask(report) {
            let message = "nobody is there to say whether that is to be deleted";
            return Err(CliError::usage(message).hint("pass --yes").into());
        }
        if !ask(report, &format!("Delete {}?", names.join(", ")))? {
            report.line("nothing was deleted");
            return Ok(ExitCode::SUCCESS);
        }
    }
    let mut all = Removed::default();
    for (_, model) in places {
        if interrupt::was_pressed() {
            return Err(acestep_engine::Error::Cancelled.into());
        }
        let Removed { files, bytes } = interrupt::whole(|| hub.remove(model))?;
        all.files += files;
        all.bytes += bytes;
    }
    report.line(&format!("{} are free again", size(all.bytes)));
    Ok(ExitCode::SUCCESS)
}
