//! How far a transfer is: one line that moves, or a line for each file.

use std::time::Duration;

use acestep_import::hub::{Event, RemoteFile};
use acestep_runtime::error::size;
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::{progress::Style, report::Report};

/// Shows bytes that are counted, of many files.
pub(super) struct Bar {
    report: Report,
    style: Style,
    bar: Option<ProgressBar>,
}

impl Bar {
    /// A line for `bytes` in all; nothing, where nobody watches.
    pub(super) fn new(report: Report, bytes: u64) -> Self {
        let style = report.progress_style();
        let bar = (style == Style::Moving).then(|| {
            let bar = ProgressBar::with_draw_target(Some(bytes), ProgressDrawTarget::stderr());
            let template = "{msg} {wide_bar} {decimal_bytes}/{decimal_total_bytes} · {decimal_bytes_per_sec} · {left}";
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style.with_key("left", left));
            }
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        Self { report, style, bar }
    }

    /// Says `text` above the line.
    pub(super) fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| self.report.note(text)),
            None => self.report.note(text),
        }
    }

    /// What is worked on now.
    pub(super) fn of(&self, file: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(file.to_owned());
        }
    }

    /// So many bytes more.
    pub(super) fn add(&self, bytes: u64) {
        if let Some(bar) = &self.bar {
            bar.inc(bytes);
        }
    }

    /// A file is done, which took its place in the count.
    pub(super) fn done(&self, text: &str) {
        if self.style == Style::Silent {
            return;
        }
        match &self.bar {
            Some(bar) => bar.suspend(|| self.report.line(text)),
            None => self.report.line(text),
        }
    }

    /// Shows what happens while models are pulled.
    pub(super) fn show(&self, event: &Event<'_>) {
        match event {
            Event::Begun { file, here } => {
                self.of(name(file));
                if *here > 0 {
                    self.say(&format!("`{}` goes on at {}", file.path, size(*here)));
                }
            }
            Event::Received(bytes) => self.add(*bytes),
            Event::Again { file, why } => {
                self.say(&format!("`{}` broke off and is tried again: {why}", file.path));
            }
            Event::Checking(file) => self.of(&format!("checking {}", name(file))),
            Event::Compared(_) => (),
            Event::WasDamaged(file) => {
                self.say(&format!("`{}` was here, but damaged: it is fetched anew", file.path));
            }
            Event::Whole { file, fetched: true } => {
                self.done(&format!("{} · {}", file.path, size(file.size)));
            }
            Event::Whole { file, fetched: false } => {
                self.done(&format!("{} · {} · was here", file.path, size(file.size)));
            }
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

/// A file without its directory.
fn name(file: &RemoteFile) -> &str {
    file.path.rsplit('/').next().unwrap_or(&file.path)
}

/// `3 minutes left`, once anything is known.
fn left(state: &ProgressState, to: &mut dyn std::fmt::Write) {
    if state.pos() > 0 {
        // Writing to a String cannot fail.
        let _ = write!(to, "{:#} left", HumanDuration(state.eta()));
    }
}
