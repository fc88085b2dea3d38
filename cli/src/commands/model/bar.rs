//! Progress of a transfer: a moving line, a line per file, or one JSON object per second.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use acestep_engine::error::size;
use acestep_import::hub::{PullEvent, RemoteFile};
use indicatif::{HumanDuration, ProgressBar, ProgressState};
use serde_json::json;

use crate::report::{Report, Style};

/// Progress bar that counts the bytes of many files.
pub(super) struct Bar {
    report: Report,
    style: Style,
    bar: ProgressBar,
    /// Time and byte count of the last JSON event.
    told: Cell<Option<(Instant, u64)>>,
}

/// Time between two JSON events.
const PERIOD: Duration = Duration::from_secs(1);

impl Bar {
    /// Creates a bar for `bytes` in total; it shows nothing if progress is not wanted.
    pub(super) fn new(report: Report, bytes: u64) -> Self {
        let template = "{msg} {wide_bar} {decimal_bytes}/{decimal_total_bytes} · {decimal_bytes_per_sec} · {left}";
        let bar = report.bar(Some(bytes), template);
        bar.set_style(bar.style().with_key("left", left));
        let style = report.progress_style();
        if style == Style::Moving {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        Self { style, report, bar, told: Cell::default() }
    }

    /// Prints `text` above the bar.
    pub(super) fn say(&self, text: &str) {
        self.bar.suspend(|| self.report.note(text));
    }

    /// Sets the name of the current file.
    pub(super) fn of(&self, file: &str) {
        self.bar.set_message(file.to_owned());
    }

    /// Adds received bytes.
    pub(super) fn add(&self, bytes: u64) {
        self.bar.inc(bytes);
        self.tell(PERIOD);
    }

    /// Sends a JSON event if there is progress and the last event is at least `period` old.
    fn tell(&self, period: Duration) {
        if self.style != Style::Json {
            return;
        }
        let (done, total) = (self.bar.position(), self.bar.length().unwrap_or_default());
        let told = self.told.get();
        let is_news = done > told.map_or(0, |(_, done)| done);
        let is_due = told.is_none_or(|(when, _)| when.elapsed() >= period);
        if is_news && is_due {
            let elapsed = self.bar.elapsed().as_secs_f64();
            let left = total.saturating_sub(done) as f64 * elapsed / done as f64;
            self.report.event(&json!({
                "event": "transfer", "file": self.bar.message(), "done_bytes": done,
                "total_bytes": total, "elapsed_s": elapsed, "left_s": left,
            }));
            self.told.set(Some((Instant::now(), done)));
        }
    }

    /// Reports a finished file, whose bytes are already counted.
    pub(super) fn done(&self, text: &str) {
        if self.style == Style::Silent {
            return;
        }
        self.tell(Duration::ZERO);
        self.bar.suspend(|| self.report.line(text));
    }

    /// Shows an event of a pull.
    pub(super) fn show(&self, event: &PullEvent<'_>) {
        match event {
            PullEvent::Begun { file, here } => {
                self.of(name(file));
                if *here > 0 {
                    self.say(&format!("`{}` goes on at {}", file.path, size(*here)));
                }
            }
            PullEvent::Received(bytes) => self.add(*bytes),
            PullEvent::Again { file, why } => {
                self.say(&format!("`{}` broke off and is tried again: {why}", file.path));
            }
            PullEvent::Checking(file) => self.of(&format!("checking {}", name(file))),
            PullEvent::Compared(_) => (),
            PullEvent::WasDamaged(file) => {
                self.say(&format!("`{}` is damaged: it is downloaded again", file.path));
            }
            PullEvent::Whole { file, fetched } => {
                let was_here = if *fetched { "" } else { " · was here" };
                self.done(&format!("{} · {}{was_here}", file.path, size(file.size)));
            }
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.tell(Duration::ZERO);
        self.bar.finish_and_clear();
    }
}

/// Returns the file name without its directory.
fn name(file: &RemoteFile) -> &str {
    file.path.rsplit('/').next().unwrap_or(&file.path)
}

/// Writes `3 minutes left`, once the speed is known.
fn left(state: &ProgressState, to: &mut dyn std::fmt::Write) {
    if state.pos() > 0 {
        // Writing to a String cannot fail.
        let _ = write!(to, "{:#} left", HumanDuration(state.eta()));
    }
}
