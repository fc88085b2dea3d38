//! `acestep model remove`.

use std::process::ExitCode;

use acestep_engine::error::size;
use acestep_import::{
    Release,
    acestep::{COMPANIONS, MODELS},
    hub::{Removed, State},
};
use anyhow::Result;

use super::{
    Here, all as known_models, files, here, hub, named,
    offer::{ask, can_ask},
};
use crate::{
    args::{Global, model::Remove},
    error::CliError,
    interrupt, settings,
};

/// Runs the command.
///
/// # Errors
/// Names that are unknown, not installed, or not in the hub's cache; a failed deletion.
pub(super) fn run(args: &Remove, global: &Global) -> Result<ExitCode> {
    let (report, layout, hub) = (global.report(), settings::layout(), hub()?);
    let models = named(&args.names, "to delete")?;
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
    let stays = |model: &Release| !leaving(model) && here(model, &layout, Some(&hub)).0 != Here::No;
    // The companions are deleted with the last model that needs them.
    let is_last = models.iter().any(|model| MODELS.contains(model))
        && !MODELS.iter().any(stays)
        && !has_others();
    for model in &COMPANIONS {
        if let (true, false, State::Whole(of) | State::Broken(of, _)) =
            (is_last, leaving(model), hub.state(model))
        {
            places.push((of.path, model));
        }
    }
    let mut names = Vec::new();
    for (path, model) in &places {
        let bytes = files(path).unwrap_or_default().iter().map(|(_, bytes)| bytes).sum();
        report.line(&format!("{:<17} {:>9}  {}", model.name, size(bytes), path.display()));
        names.push(model.name);
    }
    if !settings::yes() {
        if !can_ask(&report) {
            let message = "nobody is there to say whether that is to be deleted";
            return Err(CliError::usage(message).hint("pass --yes").into());
        }
        if !ask(&report, &format!("Delete {}?", names.join(", ")))? {
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

/// True if the models directory has models without a short name, which may need the companions.
fn has_others() -> bool {
    let Some(Ok(entries)) = settings::models_dir().map(std::fs::read_dir) else { return false };
    entries.flatten().any(|entry| {
        let path = entry.path();
        let known = |model: &Release| entry.file_name() == model.directory;
        let is_model = path.join("config.json").is_file()
            || path.extension().is_some_and(|ending| ending == "gguf" || ending == "safetensors")
            || path.join("model_index.json").is_file();
        is_model && !known_models().any(known)
            || ["checkpoints", "diffusion_models"].iter().any(|own| path.ends_with(own))
    })
}
