//! The measurements and notices of a run, from its events.

use std::time::Duration;

use acestep_engine::{Event, Notice, Stage, device::GpuFault, error::seconds, retry};
use acestep_music::{lm, stage};
use burn::tensor::DType;
use serde_json::{Map, Value};

/// Marks a network that one run needed in f32 for the later runs of its group: it stays in f32, but they
/// get no event. Each run has its type of weights in `dtypes`.
pub fn spread(groups: &[Vec<usize>], outcomes: &mut [Outcome], dtypes: &[DType]) {
    for group in groups {
        let mut widened: Vec<&'static str> = Vec::new();
        for &i in group {
            let own = outcomes[i].widened.clone();
            for who in widened.iter().filter(|who| !own.contains(who)) {
                outcomes[i].widened.push(who);
                outcomes[i].notices.push(retry::notice(who, dtypes[i]));
            }
            // The language model starts in its own type for each request.
            widened.extend(own.into_iter().filter(|&who| who != lm::NAME));
        }
    }
}

/// The measurements and notices of a run.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The time of each stage.
    pub elapsed: Vec<(Stage, Duration)>,
    /// Notices of the run, for example about repeated work.
    pub notices: Vec<Notice>,
    /// Frames that the VAE decoded at once, if the number had to be reduced.
    pub vae_chunk: Option<usize>,
    /// Networks that were run again in f32, as noun phrases.
    pub widened: Vec<&'static str>,
}

impl Outcome {
    /// Takes an event, and returns its notice, if it has one: the stage starts again, or goes on.
    pub fn take(&mut self, event: &Event) -> Option<&Notice> {
        let notice = match event {
            Event::Loading(_) | Event::Advanced { .. } => return None,
            Event::Finished { stage, elapsed } => {
                self.elapsed.push((*stage, *elapsed));
                return None;
            }
            Event::Overflowed { who, dtype } => {
                self.widened.push(who);
                retry::notice(who, *dtype)
            }
            Event::Noticed(notice) => notice.clone(),
            Event::Again { stage, frames, why } => {
                if *stage == stage::VAE {
                    self.vae_chunk = Some(*frames);
                }
                let what = stage.name;
                let lack = match GpuFault::of(why) {
                    GpuFault::Memory => " for lack of memory",
                    GpuFault::Kernel | GpuFault::Lost | GpuFault::Unknown => "",
                };
                Notice(format!(
                    "the device failed in the {what} stage{lack} ({why}): again with {frames} frames at \
                     once"
                ))
            }
        };
        self.notices.push(notice);
        self.notices.last()
    }

    /// Returns a table of the stages' times and their shares of the time of the whole run.
    pub fn table(&self, whole: Duration) -> String {
        let row = |name: &str, time: Duration| {
            let share = 100.0 * time.as_secs_f64() / whole.as_secs_f64().max(1e-9);
            format!("{name:<14}{:>8}  {share:>3.0} %", seconds(time))
        };
        let mut sums: Vec<(Stage, Duration)> = Vec::new();
        for (stage, time) in &self.elapsed {
            // Each of several songs has its own entry.
            match sums.iter_mut().find(|(known, _)| known == stage) {
                Some((_, sum)) => *sum += *time,
                None => sums.push((*stage, *time)),
            }
        }
        let mut rows: Vec<_> = sums.iter().map(|(stage, time)| row(stage.name, *time)).collect();
        let known: Duration = sums.iter().map(|(_, time)| *time).sum();
        rows.push(row("files, rest", whole.saturating_sub(known)));
        rows.push(row("all", whole));
        rows.join("\n")
    }

    /// Returns the seconds of each stage, and in total.
    pub fn elapsed_json(&self, total: Duration) -> Value {
        let mut object = Map::new();
        for (stage, elapsed) in &self.elapsed {
            let key = stage.name.to_lowercase().replace(' ', "_");
            let before = object.get(&key).and_then(Value::as_f64).unwrap_or(0.0);
            object.insert(key, (before + elapsed.as_secs_f64()).into());
        }
        object.insert("total".into(), total.as_secs_f64().into());
        object.into()
    }
}
