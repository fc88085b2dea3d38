//! `acestep model remove`.

use std::path::PathBuf;

use acestep_engine::error::size;
use acestep_import::{Release, hub::CacheState, model_files};
use anyhow::Result;

use super::{
    hub, named,
    offer::{ask, can_ask},
};
use crate::{error::CliError, interrupt, report::Report, settings};

/// A model to delete, and its place.
struct Removal {
    path: PathBuf,
    model: &'static Release,
    /// Bytes of the unfinished downloads of the whole repository, if they are deleted.
    unfinished: u64,
}

impl Removal {
    fn of(path: PathBuf, model: &'static Release) -> Self {
        Self { path, model, unfinished: 0 }
    }

    /// Returns one line for a table.
    fn line(&self) -> String {
        let (name, path) = (self.model.name, self.path.display());
        if self.unfinished > 0 {
            let bytes = size(self.unfinished);
            return format!("{name:<17} {bytes:>9}  {}, in {path}", self.subject());
        }
        let files = model_files(&self.path).unwrap_or_default();
        let bytes = files.iter().map(|(_, bytes)| bytes).sum();
        format!("{name:<17} {:>9}  {path}", size(bytes))
    }

    /// Returns what a question names.
    fn subject(&self) -> String {
        match self.unfinished {
            0 => self.model.name.to_owned(),
            // Nobody knows which models of the repository they belong to.
            _ => format!("all unfinished downloads of {}", self.model.repo),
        }
    }
}

pub(super) fn run(names: &[String], report: &Report) -> Result<()> {
    let (layout, hub) = (settings::layout(), hub()?);
    let models = named(names, "to delete")?;
    let mut removals = Vec::new();
    for model in &models {
        match hub.state(model) {
            CacheState::Whole(of) | CacheState::Broken(of, _) => {
                removals.push(Removal::of(of.path, model))
            }
            CacheState::Absent if hub.begun(model.repo) > 0 => {
                let (path, unfinished) = (hub.repository(model.repo), hub.unfinished(model)?);
                removals.push(Removal { path, model, unfinished });
            }
            CacheState::Absent => {
                let message = format!("`{}` is not in {}", model.name, hub.cache().display());
                let error = match layout.place(model) {
                    Some(path) => CliError::new(message).hint(format!(
                        "it is `{}`, which was put there by hand: delete it by hand",
                        path.display()
                    )),
                    None => CliError::new(message).hint("`acestep model list` says what is here"),
                };
                return Err(error.into());
            }
        }
    }
    for model in layout.unneeded(&models) {
        removals.extend(hub.installed(model).map(|of| Removal::of(of.path, model)));
    }
    let mut subjects = Vec::new();
    for removal in &removals {
        report.line(&removal.line());
        subjects.push(removal.subject());
    }
    subjects.dedup();
    if !settings::yes() {
        if !can_ask(report) {
            let message = "there is no terminal to ask whether that is to be deleted";
            return Err(CliError::usage(message).hint("pass --yes").into());
        }
        if !ask(report, &format!("Delete {}?", subjects.join(", ")))? {
            report.line("nothing was deleted");
            return Ok(());
        }
    }
    let mut freed = 0;
    for Removal { model, .. } in removals {
        if interrupt::was_pressed() {
            return Err(acestep_engine::Error::Cancelled.into());
        }
        freed += interrupt::whole(|| hub.remove(model))?.bytes;
    }
    report.line(&format!("{} are free again", size(freed)));
    Ok(())
}
