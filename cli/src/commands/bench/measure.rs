//! Clocks, memory, and what this machine can do at most.

use std::time::{Duration, Instant};

use acestep_model::Backend;
use burn::tensor::{Distribution, Tensor};
use cpu_time::ProcessTime;
use serde::Serialize;

/// Seconds of one run: the best of several, and how many there were.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Time {
    /// By the clock, the best run.
    pub(super) wall_s: f64,
    /// Of all cores together, the same run.
    pub(super) cpu_s: f64,
    /// By the clock, the middle run.
    pub(super) median_s: f64,
    /// How many were measured, after one that was not.
    pub(super) runs: usize,
}

/// Measures at least this long, and at least [`LEAST_RUNS`] times.
const LONG_ENOUGH: Duration = Duration::from_secs(2);

const LEAST_RUNS: usize = 3;

/// A single run longer than this is measured once.
const LONG_RUN: Duration = Duration::from_secs(30);

/// Runs `work` until its time is known; `sync` waits for the device.
pub(super) fn time(mut work: impl FnMut(), sync: impl Fn()) -> Time {
    let mut once = || {
        let (wall, cpu) = (Instant::now(), ProcessTime::now());
        work();
        sync();
        (wall.elapsed(), cpu.elapsed())
    };
    // The first run makes the weights, and fills caches.
    once();
    let start = Instant::now();
    let mut runs = vec![once()];
    while runs[0].0 < LONG_RUN && (runs.len() < LEAST_RUNS || start.elapsed() < LONG_ENOUGH) {
        runs.push(once());
    }
    runs.sort();
    let (wall, cpu) = runs[0];
    Time {
        wall_s: wall.as_secs_f64(),
        cpu_s: cpu.as_secs_f64(),
        median_s: runs[runs.len() / 2].0.as_secs_f64(),
        runs: runs.len(),
    }
}

/// What the device reached with the plainest work of each kind.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Ceilings {
    /// Operations a second in a product of large matrices.
    pub(super) flop_per_s: f64,
    /// Bytes a second when reading or copying more than any cache holds.
    pub(super) bytes_per_s: f64,
}

/// Measures both ceilings through the backend itself.
pub(super) fn ceilings<B: Backend>(device: &B::Device) -> Ceilings {
    let sync = || wait::<B>(device);
    let random = |rows: usize, columns: usize| {
        Tensor::<B, 2>::random([rows, columns], Distribution::Uniform(-1.0, 1.0), device)
    };
    const N: usize = 2048;
    let (a, b) = (random(N, N), random(N, N));
    let product = time(|| drop(a.clone().matmul(b.clone())), sync);

    const WIDE: usize = 8192;
    let (row, matrix) = (random(1, WIDE), random(WIDE, WIDE));
    let bytes = (WIDE * WIDE * size_of::<f32>()) as f64;
    let read = time(|| drop(row.clone().matmul(matrix.clone())), sync);
    let copied = time(|| drop(matrix.clone() * 2.0), sync);
    Ceilings {
        flop_per_s: 2.0 * (N * N * N) as f64 / product.wall_s,
        bytes_per_s: (bytes / read.wall_s).max(2.0 * bytes / copied.wall_s),
    }
}

/// Waits until the device has done everything.
///
/// # Panics
/// If the device fails, which nothing here can mend.
pub(super) fn wait<B: Backend>(device: &B::Device) {
    B::sync(device).expect("the device finishes its work");
}

/// The most memory this process has held since [`reset_peak`], where the system tells.
pub(super) fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// Forgets earlier peaks, where the system can; else the peak is that of the whole run.
pub(super) fn reset_peak() -> bool {
    std::fs::write("/proc/self/clear_refs", "5").is_ok()
}
