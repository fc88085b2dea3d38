//! The memory of this process, over time.

use std::time::Duration;

use serde::Serialize;
use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System};

/// Most moments whose memory is kept.
const MOMENTS: u32 = 60;
/// Least time between two of them.
const LEAST: Duration = Duration::from_secs(1);
/// Most moments in the text for the terminal.
const SHOWN: usize = 10;

/// Resident memory of the process in bytes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Memory {
    /// After the first chunk, with all weights.
    pub model: u64,
    /// The most after a chunk.
    pub peak: u64,
    /// After the last chunk.
    pub last: u64,
    /// At most 60 moments of the run, from its first chunk on, at equal distances.
    pub over_time: Vec<Moment>,
}

/// The memory at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Moment {
    /// Seconds since the beginning.
    pub seconds: f64,
    /// Resident memory in bytes.
    pub bytes: u64,
}

impl Memory {
    /// Returns lines for the terminal.
    pub(super) fn text(&self) -> String {
        let Self { model, peak, last, over_time } = self;
        let gigabytes = |bytes: &u64| *bytes as f64 / 1e9;
        let (model, peak, last) = (gigabytes(model), gigabytes(peak), gigabytes(last));
        let every = over_time.len().div_ceil(SHOWN).max(1);
        let moments = over_time.iter().step_by(every).map(|Moment { seconds, bytes }| {
            format!("{:.2} GB after {seconds:.0} s", gigabytes(bytes))
        });
        let moments: Vec<String> = moments.collect();
        format!(
            "memory {model:.2} GB with the weights, at most {peak:.2}, {last:.2} at the end\n\
             memory over time: {}\n",
            moments.join(", ")
        )
    }
}

/// The memory over time.
pub(super) struct Moments {
    between: Duration,
    /// The time from which the next one is kept.
    next: Duration,
    pub(super) kept: Vec<Moment>,
}

impl Moments {
    /// For a run of `length`.
    pub(super) fn new(length: Duration) -> Self {
        Self { between: (length / MOMENTS).max(LEAST), next: Duration::ZERO, kept: Vec::new() }
    }

    /// Keeps the memory after `elapsed` if enough time is over since the last one.
    pub(super) fn add(&mut self, elapsed: Duration, memory: Option<u64>) {
        let Some(bytes) = memory.filter(|_| elapsed >= self.next) else { return };
        // The last chunk may end after the run.
        if self.kept.len() < MOMENTS as usize {
            self.kept.push(Moment { seconds: elapsed.as_secs_f64(), bytes });
            self.next = elapsed + self.between;
        }
    }
}

/// Returns the resident memory of this process.
pub(super) fn memory() -> Option<u64> {
    let pid = Pid::from_u32(std::process::id());
    let mut system = System::new();
    let only = ProcessesToUpdate::Some(&[pid]);
    system.refresh_processes_specifics(only, false, ProcessRefreshKind::nothing().with_memory());
    Some(system.process(pid)?.memory())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run of two minutes keeps the memory every two seconds, and the text shows a tenth of them.
    #[test]
    fn the_memory_over_time_is_kept_in_few_moments() {
        let mut moments = Moments::new(Duration::from_secs(120));
        for half in 0..=241u64 {
            moments.add(Duration::from_millis(500 * half), Some(1_000_000_000 + half));
        }
        moments.add(Duration::from_secs(500), None);
        assert_eq!(moments.kept.len(), 60);
        assert_eq!(moments.kept[0], Moment { seconds: 0.0, bytes: 1_000_000_000 });
        assert_eq!(moments.kept[59], Moment { seconds: 118.0, bytes: 1_000_000_236 });
        let over_time = moments.kept;
        let memory =
            Memory { model: 1_000_000_000, peak: 2_000_000_000, last: 1_500_000_000, over_time };
        let text = memory.text();
        let [levels, moments] = text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
        assert_eq!(levels, "memory 1.00 GB with the weights, at most 2.00, 1.50 at the end");
        assert!(moments.starts_with("memory over time: 1.00 GB after 0 s, 1.00 GB after 12 s, "));
        assert_eq!(moments.split(", ").count(), 10);
        // A short run has a moment a second.
        let mut short = Moments::new(Duration::from_secs(5));
        (0..50).for_each(|tenth| short.add(Duration::from_millis(100 * tenth), Some(1)));
        assert_eq!(short.kept.len(), 5);
    }

    #[test]
    fn this_process_has_memory() {
        assert!(memory().is_none_or(|bytes| bytes > 1 << 20));
    }
}
