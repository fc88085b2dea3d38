//! The only writer to standard output and standard error.
//!
//! Standard output carries data that can be piped: paths, one JSON object, or a WAV. Everything
//! else goes to standard error; failed writes there are ignored.

use std::{
    io::{self, IsTerminal, Write},
    path::Path,
};

use acestep_engine::Notice;
use anstream::{AutoStream, ColorChoice};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{environment, fields};

/// Kinds of progress display.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// None.
    Silent,
    /// A line for each finished stage.
    Lines,
    /// A line that changes during a stage.
    Moving,
    /// A JSON object for each event.
    Json,
}

/// Settings for the output of a command.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Report {
    /// Negative: quiet; positive: verbose.
    pub(crate) verbosity: i8,
    pub(crate) color: ColorChoice,
    /// True if moving lines may be shown.
    pub(crate) progress: bool,
    /// True if standard error carries one JSON object per line.
    pub(crate) json: bool,
}

pub(crate) const RED: &str = "\x1b[1;31m";
const YELLOW: &str = "\x1b[33m";
pub(crate) const CYAN: &str = "\x1b[36m";
pub(crate) const PLAIN: &str = "\x1b[0m";

impl Report {
    /// Settings that print errors alone.
    pub(crate) const SILENT: Self =
        Self { verbosity: -1, color: ColorChoice::Never, progress: false, json: false };

    /// True if only errors are shown.
    pub(crate) fn is_quiet(&self) -> bool {
        self.verbosity < 0
    }

    /// Returns the progress display to use.
    pub(crate) fn progress_style(&self) -> Style {
        let moving =
            self.progress && io::stderr().is_terminal() && !environment::terminal_is_dumb();
        match self.verbosity {
            ..0 => Style::Silent,
            _ if self.json => Style::Json,
            0 if !moving => Style::Silent,
            _ if moving => Style::Moving,
            _ => Style::Lines,
        }
    }

    /// Returns a moving line in the form of `template`, which is hidden unless moving lines are shown.
    pub(crate) fn bar(&self, length: Option<u64>, template: &str) -> ProgressBar {
        let is_shown = self.progress_style() == Style::Moving;
        let stderr = ProgressDrawTarget::stderr();
        let target = if is_shown { stderr } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(length, target);
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar
    }

    /// Prints one informative line.
    pub(crate) fn line(&self, text: &str) {
        if !self.is_quiet() {
            match self.json {
                true => self.event(&json!({ "event": "line", "text": text.trim() })),
                false => self.print(&format!("{text}\n")),
            }
        }
    }

    /// Prints a line of another program unchanged.
    pub(crate) fn words(&self, line: &str) {
        match self.json {
            true => self.event(&json!({ "event": "line", "text": line.trim() })),
            false => to_stderr(&format!("{line}\n")),
        }
    }

    /// Prints one JSON object.
    pub(crate) fn event(&self, object: &Value) {
        self.print(&format!("{object}\n"));
    }

    /// Prints a note: information that does not stop the command.
    pub(crate) fn note(&self, text: &str) {
        if !self.is_quiet() {
            match self.json {
                true => self.event(&json!({ "event": "note", "text": text })),
                false => self.print(&format!("{YELLOW}note:{PLAIN} {text}\n")),
            }
        }
    }

    /// Prints notices as notes, with flags in place of fields.
    pub(crate) fn notes<'a>(&self, notices: impl IntoIterator<Item = &'a Notice>) {
        fields::texts(notices).iter().for_each(|text| self.note(text));
    }

    /// Writes `text` and a line end to standard output.
    pub(crate) fn output(&self, text: &str) -> Result<(), Stdout> {
        bytes(format!("{text}\n").as_bytes())
    }

    /// Writes a JSON object to standard output.
    pub(crate) fn object(&self, object: &Value) -> Result<(), Stdout> {
        self.output(&format!("{object:#}"))
    }

    /// Returns `text` for standard output: without colours, unless they are wanted there.
    pub(crate) fn plain(&self, text: &str) -> String {
        let choice = match self.color {
            ColorChoice::Auto => AutoStream::choice(&io::stdout()),
            other => other,
        };
        match choice {
            ColorChoice::Never => anstream::adapter::strip_str(text).to_string(),
            _ => text.to_owned(),
        }
    }

    /// Prints requested text to standard error at any verbosity.
    pub(crate) fn always(&self, text: &str) {
        match self.json {
            true => self.event(&json!({ "event": "text", "text": text })),
            false => self.print(text),
        }
    }

    pub(crate) fn print(&self, text: &str) {
        let mut stream = AutoStream::new(io::stderr().lock(), self.color);
        // A write fails if standard error is closed; nobody reads it then.
        let _ = stream.write_all(text.as_bytes());
    }
}

/// Error: standard output cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to standard output")]
pub(crate) struct Stdout(#[source] pub(crate) io::Error);

/// Writes a path and a line end to standard output.
pub(crate) fn path(path: &Path) -> Result<(), Stdout> {
    bytes(&[path.as_os_str().as_encoded_bytes(), b"\n"].concat())
}

/// Writes `bytes` to standard output.
pub(crate) fn bytes(bytes: &[u8]) -> Result<(), Stdout> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(Stdout)
}

/// Writes a result to standard output: as JSON if that is wanted, else as `text`.
pub(crate) fn result(json: bool, result: &impl Serialize, text: String) -> anyhow::Result<()> {
    let text = if json { serde_json::to_string_pretty(result)? + "\n" } else { text };
    Ok(bytes(text.as_bytes())?)
}

/// Writes to standard error at any verbosity, without waiting for other writers.
pub(crate) fn to_stderr(text: &str) {
    // A write fails if standard error is closed; nobody reads it then.
    let _ = io::stderr().write_all(text.as_bytes());
}
