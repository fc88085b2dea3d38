//! Progress of a stage in words.

use std::time::{Duration, Instant};

use acestep_engine::{
    error::seconds,
    progress::{Stage, Unit},
};

/// Progress of a stage.
#[derive(Debug, Clone, Copy)]
pub struct Steps {
    /// Number of steps that are done.
    pub done: usize,
    /// Number of all steps; for a text only an upper bound.
    pub total: usize,
    /// The start of the first step.
    pub start: Instant,
}

impl Steps {
    /// Returns the progress after `before`, which is of the same stage unless `done` is 0.
    pub fn advanced(before: Option<Self>, done: usize, total: usize) -> Self {
        let begun = before.filter(|_| done > 0).map(|steps| steps.start);
        Self { done, total, start: begun.unwrap_or_else(Instant::now) }
    }

    /// Returns the time left of a stage `elapsed` after its first step began, if every step takes as
    /// long as the steps so far. `None` before the first step is done, and if the number of steps is
    /// unknown.
    pub fn left(self, stage: Stage, elapsed: Duration) -> Option<Duration> {
        let Self { done, total, .. } = self;
        let is_known = done > 0 && !matches!(stage.unit, Unit::TokenOfText | Unit::Frame);
        is_known.then(|| elapsed.mul_f64(total.saturating_sub(done) as f64 / done as f64))
    }

    /// Returns the text while a stage works, `elapsed` after its first step began.
    pub fn under_way(self, stage: Stage, elapsed: Duration) -> String {
        let Self { done, total, .. } = self;
        let unit = stage.unit.name();
        match stage.unit {
            // The total is only an upper bound, so the time left cannot be computed from it.
            Unit::TokenOfText | Unit::Frame if done > 0 => {
                format!("{done} {unit}s · {}", rate(done, unit, elapsed))
            }
            Unit::TokenOfText | Unit::Frame => "reading".to_owned(),
            Unit::Token if done > 0 => {
                let left = self.left(stage, elapsed).unwrap_or_default();
                let rate = rate(done, unit, elapsed);
                format!("{done}/{total} {unit}s · {rate} · {} left", rough(left))
            }
            _ if total == 1 => "working".to_owned(),
            _ if done > 0 => {
                let step = elapsed.div_f64(done as f64);
                let left = self.left(stage, elapsed).unwrap_or_default();
                format!("{done}/{total} {unit}s · {}/{unit} · {} left", seconds(step), rough(left))
            }
            _ => format!("{done}/{total} {unit}s"),
        }
    }
}

/// Returns the text after a stage is over; `elapsed` includes loading.
pub fn over(stage: Stage, steps: Option<Steps>, elapsed: Duration) -> String {
    match (stage.unit, steps) {
        (Unit::TokenOfText | Unit::Token | Unit::Frame, Some(Steps { done, start, .. }))
            if done > 0 =>
        {
            let (unit, working) = (stage.unit.name(), start.elapsed());
            format!("{done} {unit}s · {} · {}", rate(done, unit, working), seconds(elapsed))
        }
        (_, Some(Steps { total, .. })) if total > 1 => {
            format!("{total} {}s · {}", stage.unit.name(), seconds(elapsed))
        }
        _ => seconds(elapsed),
    }
}

/// `11.8 tokens/s`.
fn rate(done: usize, unit: &str, elapsed: Duration) -> String {
    // A clock that has not moved yet gives no rate.
    let seconds = elapsed.as_secs_f64().max(1e-3);
    format!("{:.1} {unit}s/s", done as f64 / seconds)
}

/// Formats an estimated time: `13 s`, `4 min`.
fn rough(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds < 99.5 { format!("{seconds:.0} s") } else { format!("{:.0} min", seconds / 60.0) }
}

#[cfg(test)]
mod tests {
    use acestep_music::stage;

    use super::*;

    fn shown(stage: Stage, done: usize, total: usize, millis: u64) -> String {
        let steps = Steps { done, total, start: Instant::now() };
        steps.under_way(stage, Duration::from_millis(millis))
    }

    #[test]
    fn codes_show_their_rate_and_the_time_left() {
        let text = "120/150 tokens · 12.0 tokens/s · 2 s left";
        assert_eq!(shown(stage::LM_CODES, 120, 150, 10_000), text);
        let text = "10/3000 tokens · 10.0 tokens/s · 5 min left";
        assert_eq!(shown(stage::LM_CODES, 10, 3000, 1000), text);
        assert_eq!(shown(stage::LM_CODES, 0, 3000, 0), "0/3000 tokens");
        // More steps than announced.
        assert!(shown(stage::LM_CODES, 5, 4, 0).ends_with(" · 0 s left"));
    }

    #[test]
    fn words_show_their_rate_and_no_time_left() {
        assert_eq!(shown(stage::LM_TEXT, 30, 2048, 2000), "30 tokens · 15.0 tokens/s");
        assert_eq!(shown(stage::LM_TEXT, 0, 2048, 0), "reading");
    }

    #[test]
    fn steps_and_tiles_show_what_one_takes() {
        assert_eq!(shown(stage::DIFFUSION, 5, 8, 6000), "5/8 steps · 1.20 s/step · 4 s left");
        assert_eq!(shown(stage::VAE_ENCODER, 2, 3, 1000), "2/3 tiles · 0.50 s/tile · 0 s left");
        assert_eq!(shown(stage::VAE, 0, 3, 0), "0/3 tiles");
        assert_eq!(shown(stage::CODES, 0, 1, 0), "working");
    }

    #[test]
    fn a_stage_that_is_over_says_how_much_and_how_long() {
        let steps = |done, total| {
            let start = Instant::now().checked_sub(Duration::from_secs(2));
            Some(Steps { done, total, start: start.expect("a clock older than 2 s") })
        };
        let elapsed = Duration::from_millis(2500);
        assert_eq!(over(stage::DIFFUSION, steps(8, 8), elapsed), "8 steps · 2.50 s");
        assert_eq!(over(stage::CODES, steps(1, 1), elapsed), "2.50 s");
        assert_eq!(over(stage::LM_TEXT, None, elapsed), "2.50 s");
        let text = over(stage::LM_TEXT, steps(30, 2048), elapsed);
        assert_eq!(text, "30 tokens · 15.0 tokens/s · 2.50 s");
    }
}
