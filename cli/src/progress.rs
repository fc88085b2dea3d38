//! What a run shows while it works: one line for each stage.
//!
//! ```text
//! text encoder  0.4 s
//! diffusion     5/8 steps · 1.2 s/step
//! ```

use std::{
    cell::RefCell,
    time::{Duration, Instant},
};

use acestep_runtime::observe::{Event, Observe, Stage};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::{interrupt, report::Report};

/// How stages are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// Not at all.
    Silent,
    /// A line when a stage is over.
    Lines,
    /// A line that changes while the stage works.
    Moving,
}

/// Shows the stages of a run, measures them, and hears Ctrl-C.
pub(crate) struct Progress {
    report: Report,
    style: Style,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    bar: Option<ProgressBar>,
    /// Steps of the current stage, and when the first began.
    steps: Option<(usize, Instant)>,
    elapsed: Vec<(Stage, Duration)>,
}

impl Progress {
    pub(crate) fn new(report: Report) -> Self {
        Self { style: report.progress_style(), report, state: RefCell::default() }
    }

    /// Takes the moving line away, and gives what each stage took.
    pub(crate) fn finish(self) -> Vec<(Stage, Duration)> {
        // Dropping the state takes the line away.
        std::mem::take(&mut self.state.into_inner().elapsed)
    }

    fn show(&self, state: &mut State, text: String) {
        if self.style != Style::Moving {
            return;
        }
        let bar = state.bar.get_or_insert_with(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template("{msg} {spinner}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        bar.set_message(text);
    }
}

impl Observe for Progress {
    fn event(&self, event: Event) {
        let state = &mut *self.state.borrow_mut();
        match event {
            Event::Loading(stage) => self.show(state, line(stage, "loading")),
            Event::Advanced { stage, done, total } => {
                let (_, start) = *state
                    .steps
                    .filter(|_| done > 0)
                    .get_or_insert_with(|| (total, Instant::now()));
                state.steps = Some((total, start));
                let text = match start.elapsed().checked_div(done as u32) {
                    _ if total == 1 => "working".to_owned(),
                    Some(step) => {
                        let unit = unit(stage);
                        format!("{done}/{total} {unit}s · {}/{unit}", seconds(step))
                    }
                    None => format!("{done}/{total} {}s", unit(stage)),
                };
                self.show(state, line(stage, &text));
            }
            Event::Finished { stage, elapsed } => {
                let steps = state.steps.take().filter(|&(total, _)| total > 1);
                let text = match steps {
                    Some((total, _)) => {
                        format!("{total} {}s · {}", unit(stage), seconds(elapsed))
                    }
                    None => seconds(elapsed),
                };
                let text = line(stage, &text);
                if let Some(bar) = state.bar.take() {
                    bar.finish_and_clear();
                }
                if self.style != Style::Silent {
                    self.report.line(&text);
                }
                state.elapsed.push((stage, elapsed));
            }
        }
    }

    fn cancelled(&self) -> bool {
        interrupt::was_pressed()
    }
}

impl Drop for State {
    /// Whatever ends a run, no half line stays.
    fn drop(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

fn line(stage: Stage, text: &str) -> String {
    format!("{:<14}{text}", stage.name())
}

/// What a stage counts.
fn unit(stage: Stage) -> &'static str {
    match stage {
        Stage::TextEncoder | Stage::Condition | Stage::Codes | Stage::Diffusion => "step",
        Stage::Vae => "tile",
    }
}

/// `0.42 s`, `11.3 s`: three digits are enough.
pub(crate) fn seconds(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds < 9.995 { format!("{seconds:.2} s") } else { format!("{seconds:.1} s") }
}
