//! The progress display of a run: one line for each stage.
//!
//! ```text
//! text encoder  0.4 s
//! codes         120/150 tokens · 11.8 tokens/s · 3 s left
//! diffusion     5/8 steps · 1.2 s/step · 4 s left · 3.1 GB
//! ```

use std::{cell::RefCell, time::Duration};

pub(crate) use acestep_engine::error::seconds;
use acestep_engine::{
    error::size,
    process,
    progress::{Event, Observe, Stage},
};
use acestep_session::{
    outcome::Outcome,
    steps::{self, Steps},
};
use indicatif::ProgressBar;
use serde_json::{Value, json};

use crate::{
    interrupt,
    report::{Report, Style},
};

/// Shows and measures the stages of a run, and handles Ctrl-C.
pub(crate) struct Progress {
    report: Report,
    style: Style,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    bar: Option<ProgressBar>,
    steps: Option<Steps>,
    /// One outcome per request that has had an event so far.
    outcomes: Vec<Outcome>,
}

impl State {
    /// Removes the progress line.
    fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    fn outcome(&mut self, request: usize) -> &mut Outcome {
        if self.outcomes.len() <= request {
            self.outcomes.resize_with(request + 1, Outcome::default);
        }
        &mut self.outcomes[request]
    }
}

/// Shows the work on one request of several, and keeps its outcome separate.
#[derive(Clone, Copy)]
pub(crate) struct Of<'a> {
    progress: &'a Progress,
    request: usize,
}

impl Progress {
    pub(crate) fn new(report: Report) -> Self {
        Self { style: report.progress_style(), report, state: RefCell::default() }
    }

    /// An observer for the work on request `request`.
    pub(crate) fn of(&self, request: usize) -> Of<'_> {
        Of { progress: self, request }
    }

    /// Removes the progress line and returns the outcome of a run with one request.
    pub(crate) fn finish(self) -> Outcome {
        self.finish_all(1).remove(0)
    }

    /// Removes the progress line and returns the outcomes of several requests.
    pub(crate) fn finish_all(self, requests: usize) -> Vec<Outcome> {
        // Dropping the state removes the progress line.
        let mut outcomes = std::mem::take(&mut self.state.into_inner().outcomes);
        outcomes.resize_with(requests, Outcome::default);
        outcomes
    }

    /// Prints an event for programs that read JSON.
    fn tell(&self, object: impl FnOnce() -> Value) {
        if self.style == Style::Json {
            self.report.event(&object());
        }
    }

    fn show(&self, state: &mut State, text: String) {
        if self.style != Style::Moving {
            return;
        }
        let bar = state.bar.get_or_insert_with(|| {
            let bar = self.report.bar(None, "{msg} {spinner}");
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        bar.set_message(text);
    }

    fn event_of(&self, request: usize, event: Event) {
        let state = &mut *self.state.borrow_mut();
        match event {
            Event::Loading(stage) => {
                self.tell(
                    || json!({ "event": "loading", "request": request, "stage": stage.name }),
                );
                self.show(state, line(stage, "loading"));
            }
            Event::Advanced { stage, done, total } => {
                let steps = Steps::advanced(state.steps, done, total);
                state.steps = Some(steps);
                let elapsed = steps.start.elapsed();
                self.tell(|| {
                    json!({
                        "event": "step", "request": request, "stage": stage.name,
                        "unit": stage.unit.name(), "done": done, "total": total,
                        "elapsed_s": elapsed.as_secs_f64(),
                        "left_s": steps.left(stage, elapsed).map(|left| left.as_secs_f64()),
                        "memory_bytes": process::resident(),
                    })
                });
                let held = process::resident().filter(|_| self.style == Style::Moving);
                let held = held.map_or(String::new(), |bytes| format!(" · {}", size(bytes)));
                self.show(state, line(stage, &(steps.under_way(stage, elapsed) + &held)));
            }
            // The stage starts again, or goes on.
            Event::Overflowed { .. } | Event::Noticed(_) | Event::Again { .. } => {
                state.clear();
                state.steps = None;
                self.report.notes(state.outcome(request).take(&event));
            }
            Event::Finished { stage, elapsed } => {
                state.outcome(request).take(&event);
                let text = steps::over(stage, state.steps.take(), elapsed);
                let text = line(stage, &text);
                state.clear();
                match self.style {
                    Style::Silent => (),
                    Style::Json => self.report.event(&json!({
                        "event": "finished", "request": request, "stage": stage.name,
                        "elapsed_s": elapsed.as_secs_f64(),
                    })),
                    Style::Lines | Style::Moving => self.report.line(&text),
                }
            }
        }
    }
}

/// For runs with one request.
impl Observe for Progress {
    fn event(&self, event: Event) {
        self.event_of(0, event);
    }

    fn cancelled(&self) -> bool {
        interrupt::was_pressed()
    }
}

impl Observe for Of<'_> {
    fn event(&self, event: Event) {
        self.progress.event_of(self.request, event);
    }

    fn cancelled(&self) -> bool {
        self.progress.cancelled()
    }
}

impl Drop for State {
    /// Removes the progress line when a run ends, also after an error.
    fn drop(&mut self) {
        self.clear();
    }
}

fn line(stage: Stage, text: &str) -> String {
    format!("{:<14}{text}", stage.name)
}

#[cfg(test)]
mod tests {
    use acestep_engine::Notice;
    use acestep_music::stage;
    use burn::tensor::DType;

    use super::*;

    /// The outcome is also needed by programs that read only the final JSON.
    #[test]
    fn what_is_done_again_is_remembered_even_where_nothing_is_said() {
        let progress = Progress::new(Report::SILENT);
        let again = |stage, frames| Event::Again { stage, frames, why: "no memory".into() };
        progress.event(again(stage::VAE_ENCODER, 375));
        progress.event(again(stage::VAE, 256));
        progress.event(again(stage::VAE, 128));
        let who = "the diffusion transformer";
        progress.event(Event::Overflowed { who, dtype: DType::F16 });
        let Outcome { notices, vae_chunk, widened, .. } = progress.finish();
        assert_eq!((vae_chunk, widened), (Some(128), vec![who]));
        let starts = [
            "the device failed in the VAE encoder stage for lack of memory (no memory): again with 375",
            "the device failed",
            "the device",
        ];
        assert_eq!(notices.len(), 4);
        for (notice, start) in notices.iter().zip(starts) {
            assert!(notice.0.starts_with(start) && notice.0.contains("(no memory)"), "{notice}");
        }
        assert!(notices[3].0.starts_with("the diffusion transformer overflowed in f16"));
    }

    #[test]
    fn what_is_said_of_one_request_is_not_said_of_another() {
        let progress = Progress::new(Report::SILENT);
        let elapsed = Duration::from_secs(3);
        progress.of(2).event(Event::Noticed(Notice("quiet".into())));
        progress.of(0).event(Event::Finished { stage: stage::VAE, elapsed });
        let outcomes = progress.finish_all(4);
        let told: Vec<_> = outcomes.iter().map(|o| (o.notices.len(), o.elapsed.len())).collect();
        assert_eq!(told, [(0, 1), (0, 0), (1, 0), (0, 0)]);
    }
}
