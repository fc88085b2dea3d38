//! Clocks, memory, and what a backend reaches at most.

use std::time::{Duration, Instant};

use acestep_model::{Backend, Place, kernel};
use burn::tensor::{Distribution, Tensor};
use cpu_time::ProcessTime;
use serde::{Deserialize, Serialize};
use sysinfo::System;

use super::ceilings::Ceilings;

/// Seconds of one run: the best of several, and how many there were.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Time {
    /// By the clock, the best run.
    pub(crate) wall_s: f64,
    /// Of all cores together, the same run.
    pub(crate) cpu_s: f64,
    /// By the clock, the middle run.
    pub(crate) median_s: f64,
    /// How many were measured, after one that was not.
    pub(crate) runs: usize,
}

/// Measures at least this long, and at least [`LEAST_RUNS`] times.
const LONG_ENOUGH: Duration = Duration::from_secs(2);

const LEAST_RUNS: usize = 3;

/// A single run longer than this is measured once.
const LONG_RUN: Duration = Duration::from_secs(30);

/// Runs `work` until its time is known; `sync` waits for the device.
///
/// What a run gives is kept until the device is done: a result that nobody can read any more need
/// not be written.
pub(crate) fn time<T>(mut work: impl FnMut() -> T, sync: impl Fn()) -> Time {
    let mut once = || {
        let (wall, cpu) = (Instant::now(), ProcessTime::now());
        let result = work();
        sync();
        let time = (wall.elapsed(), cpu.elapsed());
        drop(result);
        time
    };
    // The first run makes the weights, compiles and tunes kernels, and fills caches.
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

/// Seconds of one of many short runs, which the device is given one after the other: the wait for
/// its answer would be longer than the work.
///
/// `bytes` is what one run keeps; so much that there is no room for a second makes a series of one.
pub(crate) fn short<T>(mut work: impl FnMut() -> T, sync: impl Fn(), bytes: usize) -> f64 {
    /// How long a series should take.
    const SERIES: f64 = 0.03;
    /// The most bytes of results that may wait.
    const ROOM: usize = 512 << 20;
    let mut series = |runs: usize| {
        let start = Instant::now();
        let results: Vec<T> = (0..runs).map(|_| work()).collect();
        sync();
        let seconds = start.elapsed().as_secs_f64() / runs as f64;
        drop(results);
        seconds
    };
    series(1);
    let once = series(1);
    let most = (ROOM / bytes.max(1)).clamp(1, 100);
    let runs = ((SERIES / once.max(1e-9)) as usize).clamp(1, most);
    (0..3).map(|_| series(runs)).fold(once, f64::min)
}

/// Measures both ceilings through the backend itself.
pub(crate) fn ceilings<B: Backend>(place: &Place<B>) -> Ceilings {
    Ceilings { flop_per_s: product_ceiling(place), bytes_per_s: memory_ceiling(place) }
}

/// Operations a second in a product of matrices: the best of sizes that grow while they are quick.
pub(crate) fn product_ceiling<B: Backend>(place: &Place<B>) -> f64 {
    /// A larger product than one that takes so long would be no faster.
    const LONG: f64 = 0.03;
    let mut best = 0.0_f64;
    for n in [1024, 2048, 4096, 8192] {
        let (a, b) = (random(place, n, n), random(place, n, n));
        let seconds = short(
            || kernel::linear(a.clone(), b.clone(), None),
            || wait::<B>(&place.device),
            n * n * place.dtype.size(),
        );
        best = best.max(2.0 * (n * n * n) as f64 / seconds);
        if seconds > LONG {
            break;
        }
    }
    best
}

/// Bytes a second of a copy, of reading a matrix once, or of two matrices that become one: whichever
/// is most.
pub(crate) fn memory_ceiling<B: Backend>(place: &Place<B>) -> f64 {
    /// Bytes that took longer do not fit into any cache.
    const LONG: f64 = 0.004;
    let wait = || wait::<B>(&place.device);
    let size = place.dtype.size();
    let mut best = 0.0_f64;
    // Some devices take no larger tensor than the second; the third is beyond every cache.
    for bytes in [32 << 20, 128 << 20, 512 << 20_usize] {
        let wide = (bytes / size).isqrt();
        let [row, matrix, other] = [1, wide, wide].map(|rows| random(place, rows, wide));
        let bytes = (wide * wide * size) as f64;
        // One at a time: fusion would read the matrix once for several.
        let copied = short(|| matrix.clone() * 2.0, wait, usize::MAX);
        let product = || kernel::linear(row.clone(), matrix.clone(), None);
        let read = short(product, wait, wide * size);
        // A fast card copies in less time than it takes to wait for it. This operation is one of ours,
        // which fusion neither joins nor leaves out, so that many may follow each other without a wait,
        // all in the room of one result.
        let joined = short(|| drop(kernel::swiglu(matrix.clone(), other.clone())), wait, 0);
        best = f64::max(2.0 * bytes / copied, bytes / read).max(3.0 * bytes / joined);
        if copied > LONG {
            break;
        }
    }
    best
}

fn random<B: Backend>(place: &Place<B>, rows: usize, columns: usize) -> Tensor<B, 2> {
    let uniform = Distribution::Uniform(-1.0, 1.0);
    Tensor::<B, 2>::random([rows, columns], uniform, &place.device).cast(place.dtype)
}

/// Waits until the device has done everything.
///
/// # Panics
/// If the device fails, which nothing here can mend.
pub(crate) fn wait<B: Backend>(device: &B::Device) {
    B::sync(device).expect("the device finishes its work");
}

/// How many programs wanted a core in the last minute, where the system tells.
pub(super) fn load_1m() -> Option<f64> {
    (!cfg!(windows)).then(|| System::load_average().one)
}

/// Forgets earlier peaks, where the system can; else the peak is that of the whole run.
pub(super) fn reset_peak() -> bool {
    std::fs::write("/proc/self/clear_refs", "5").is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run of 2 ms: a series of it does not stretch it, and it is not shared among runs.
    #[test]
    fn the_time_of_a_short_run_is_that_of_one() {
        let work = || std::thread::sleep(Duration::from_millis(2));
        let seconds = short(work, || (), 0);
        assert!((0.002..0.004).contains(&seconds), "{seconds}");
    }

    /// What keeps nothing is not waited for each time; of large results there is one at a time.
    #[test]
    fn a_series_is_as_long_as_there_is_room_for_its_results() {
        use std::cell::Cell;
        for (bytes, most) in [(0, 30), (100 << 20, 5), (usize::MAX, 1)] {
            let (begun, longest) = (Cell::new(0), Cell::new(0));
            let work = || {
                begun.set(begun.get() + 1);
                std::thread::sleep(Duration::from_millis(1));
            };
            short(work, || longest.set(longest.get().max(begun.take())), bytes);
            let found = longest.get();
            assert!(found <= most && found > most / 3, "{found} runs with {bytes} bytes each");
        }
    }
}
