//! Offers to download a model that a command needs.

use std::io::{self, IsTerminal, Write};

use acestep_engine::error::size;
use acestep_import::{Error, Release};
use anyhow::Result;

use super::{hub, pull};
use crate::{interrupt, report::Report, settings};

/// Pulls the model that `error` reports as missing, if the user agrees. Returns true if it did, so
/// that the command can run again. Asks nothing if no user can answer.
pub(crate) fn offer(error: &anyhow::Error, report: &Report) -> Result<bool> {
    let Some(model) = error.chain().find_map(missing) else { return Ok(false) };
    if settings::offline().is_some() || hub().is_err() {
        return Ok(false);
    }
    let bytes = size(settings::layout().missing_bytes(model));
    if !settings::yes()
        && !ask(report, &format!("{} is not on this machine. Pull it, some {bytes}?", model.name))?
    {
        return Ok(false);
    }
    pull::pull(&[model], None, false, report)?;
    Ok(true)
}

/// Returns the published model that `error` reports as missing.
fn missing(error: &(dyn std::error::Error + 'static)) -> Option<&'static Release> {
    let error = match error.downcast_ref() {
        Some(acestep_engine::Error::Checkpoint(inner)) => inner.downcast_ref(),
        _ => error.downcast_ref(),
    };
    match error {
        Some(Error::Absent { known, .. }) => *known,
        _ => None,
    }
}

/// True if a user can answer.
pub(super) fn can_ask(report: &Report) -> bool {
    !report.json && !report.is_quiet() && io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks a yes-or-no question if a user can answer; otherwise returns false.
pub(super) fn ask(report: &Report, question: &str) -> io::Result<bool> {
    if !can_ask(report) {
        return Ok(false);
    }
    crate::report::to_stderr(&format!("{question} [y/N] "));
    let mut answer = String::new();
    interrupt::at_once(|| io::stdin().read_line(&mut answer))?;
    if answer.is_empty() {
        // At the end of the input there is no answer and no line end.
        io::stderr().write_all(b"\n")?;
    }
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}
