//! What a command lacks is offered where it lacks it.

use std::io::{self, IsTerminal, Write};

use acestep_import::{Error, KnownModel};
use acestep_runtime::error::size;
use anyhow::Result;

use super::{hub, pull, to_fetch};
use crate::{interrupt, report::Report, settings};

/// Pulls the model that `error` says is missing, if the user wants it; whether it did, so that the
/// command can be run again. Nothing is asked where nobody can answer.
///
/// # Errors
/// Those of `model pull`.
pub(crate) fn offer(error: &anyhow::Error, report: &Report) -> Result<bool> {
    let Some(model) = error.chain().find_map(missing) else { return Ok(false) };
    if settings::offline().is_some() || hub().is_err() {
        return Ok(false);
    }
    let layout = settings::layout();
    let bytes = size(to_fetch(model, &layout));
    if !settings::yes()
        && !ask(report, &format!("{} is not on this machine. Pull it, some {bytes}?", model.name))?
    {
        return Ok(false);
    }
    pull::pull(&[model], None, false, report)?;
    Ok(true)
}

/// The published model that is missing, if `error` is about one.
fn missing(error: &(dyn std::error::Error + 'static)) -> Option<&'static KnownModel> {
    if let Some(Error::Absent { known, .. }) = error.downcast_ref() {
        return *known;
    }
    match error.downcast_ref() {
        Some(acestep_runtime::Error::Checkpoint(inner)) => match inner.downcast_ref() {
            Some(Error::Absent { known, .. }) => *known,
            _ => None,
        },
        _ => None,
    }
}

/// Whether someone is there who can answer.
pub(super) fn can_ask(report: &Report) -> bool {
    !report.json && !report.is_quiet() && io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks a question that is answered with yes or no, if someone is there.
///
/// # Errors
/// If the terminal cannot be read.
pub(super) fn ask(report: &Report, question: &str) -> io::Result<bool> {
    if !can_ask(report) {
        return Ok(false);
    }
    crate::report::last_words(&format!("{question} [y/N] "));
    let mut answer = String::new();
    interrupt::at_once(|| io::stdin().read_line(&mut answer))?;
    if answer.is_empty() {
        // The end of the input is no answer, and leaves no line end.
        io::stderr().write_all(b"\n")?;
    }
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}
