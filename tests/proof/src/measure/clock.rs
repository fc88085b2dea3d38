//! Clocks, memory, and measured rates of a backend.

use std::time::{Duration, Instant};

use acestep_model::{Backend, Place, kernel};
use burn::tensor::{Distribution, Tensor};
use cpu_time::ProcessTime;
use serde::{Deserialize, Serialize};
use sysinfo::System;

use super::ceilings::Ceilings;

/// Seconds of one run: the best of several.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Time {
    /// Wall-clock time of the best run.
    pub(crate) wall_s: f64,
    /// CPU time of the same run, over all cores.
    pub(crate) cpu_s: f64,
    /// Wall-clock time of the median run.
    pub(crate) median_s: f64,
    /// Number of measured runs, after one that is not counted.
    pub(crate) runs: usize,
}

/// Minimum total time of a measurement; there are at least [`LEAST_RUNS`] runs.
const LONG_ENOUGH: Duration = Duration::from_secs(2);

const LEAST_RUNS: usize = 3;

/// With so many runs, a quarter of that time is long enough: a GPU is lent by the minute.
const MANY_RUNS: usize = 100;

/// A single run longer than this is measured once.
const LONG_RUN: Duration = Duration::from_secs(30);

/// Runs `work` until its time is known; `sync` waits for the device.
///
/// The result is kept until the device is done: the device may skip the writing of a result that
/// was dropped.
pub(crate) fn time<T>(mut work: impl FnMut() -> T, sync: impl Fn()) -> Time {
    let mut once = || {
        let (wall, cpu) = (Instant::now(), ProcessTime::now());
        let result = work();
        sync();
        let time = (wall.elapsed(), cpu.elapsed());
        drop(result);
        time
    };
    // The first run creates the weights, compiles and tunes kernels, and fills caches.
    once();
    let start = Instant::now();
    let mut runs = vec![once()];
    while runs[0].0 < LONG_RUN && !is_enough(runs.len(), start.elapsed()) {
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

/// True if this number of runs in this time is a measurement.
fn is_enough(runs: usize, elapsed: Duration) -> bool {
    let enough = if runs < MANY_RUNS { LONG_ENOUGH } else { LONG_ENOUGH / 4 };
    runs >= LEAST_RUNS && elapsed >= enough
}

/// Returns the seconds of one short run, measured over a series of runs without a wait between
/// them. A wait for the device would take longer than the work.
///
/// `bytes` is the size of one result. If it is so large that two do not fit, the series has one
/// run.
pub(crate) fn short<T>(mut work: impl FnMut() -> T, sync: impl Fn(), bytes: usize) -> f64 {
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
    let runs = runs_in_series(once, bytes);
    (0..3).map(|_| series(runs)).fold(once, f64::min)
}

/// Returns the number of runs in a series: 1 to 100. One run takes `once` seconds and its result
/// has `bytes`.
fn runs_in_series(once: f64, bytes: usize) -> usize {
    /// Target length of a series in seconds.
    const SERIES: f64 = 0.03;
    /// Maximum bytes of results that are kept.
    const ROOM: usize = 512 << 20;
    let most = (ROOM / bytes.max(1)).clamp(1, 100);
    ((SERIES / once.max(1e-9)) as usize).clamp(1, most)
}

/// Measures both ceilings with the backend itself.
pub(crate) fn ceilings<B: Backend>(place: &Place<B>) -> Ceilings {
    Ceilings { flop_per_s: product_ceiling(place), bytes_per_s: memory_ceiling(place) }
}

/// Returns the operations per second of a matrix product: the best of growing sizes, while they are
/// quick.
pub(crate) fn product_ceiling<B: Backend>(place: &Place<B>) -> f64 {
    /// A larger product than one of this time would not be faster.
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

/// Returns the highest bytes per second of three operations: a copy, one read of a matrix, and a
/// combination of two matrices into one.
pub(crate) fn memory_ceiling<B: Backend>(place: &Place<B>) -> f64 {
    /// A copy that takes longer does not fit into any cache.
    const LONG: f64 = 0.004;
    let wait = || wait::<B>(&place.device);
    let size = place.dtype.size();
    let mut best = 0.0_f64;
    // Some devices allow no larger tensor than the second; the third exceeds every cache.
    for bytes in [32 << 20, 128 << 20, 512 << 20_usize] {
        let wide = (bytes / size).isqrt();
        let [row, matrix, other] = [1, wide, wide].map(|rows| random(place, rows, wide));
        let bytes = (wide * wide * size) as f64;
        // One at a time: fusion would read the matrix once for several.
        let copied = short(|| matrix.clone() * 2.0, wait, usize::MAX);
        let product = || kernel::linear(row.clone(), matrix.clone(), None);
        let read = short(product, wait, wide * size);
        // A fast GPU copies in less time than a wait for it takes. This kernel is our own, so
        // fusion neither joins nor drops it. Many runs can follow without a wait, and one result
        // buffer is enough.
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

/// Waits until the device has finished all work.
///
/// # Panics
/// If the device fails; nothing here can recover from that.
pub(crate) fn wait<B: Backend>(device: &B::Device) {
    B::sync(device).expect("the device finishes its work");
}

/// Returns the average number of runnable programs in the last minute, if the system reports it.
pub(crate) fn load_1m() -> Option<f64> {
    (!cfg!(windows)).then(|| System::load_average().one)
}

/// Resets the recorded peak memory, if the system can; otherwise the peak is the whole run's.
pub(crate) fn reset_peak() -> bool {
    std::fs::write("/proc/self/clear_refs", "5").is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_runs_take_less_time() {
        let enough = |runs, milliseconds| is_enough(runs, Duration::from_millis(milliseconds));
        assert!(enough(3, 2000) && enough(100, 500));
        assert!(!enough(2, 9000) && !enough(99, 1999) && !enough(100, 499));
    }

    /// A series neither adds to the time of a run nor divides it. The upper limit is far away, for
    /// a busy machine wakes a thread late.
    #[test]
    fn the_time_of_a_short_run_is_that_of_one() {
        let work = || std::thread::sleep(Duration::from_millis(2));
        let seconds = short(work, || (), 0);
        assert!((0.002..0.03).contains(&seconds), "{seconds}");
    }

    /// Results without memory run without a wait; large results run one at a time.
    #[test]
    fn a_series_is_as_long_as_there_is_room_for_its_results() {
        for (once, bytes, runs) in [
            (0.001, 0, 30),
            (0.001, 100 << 20, 5),
            (0.001, usize::MAX, 1),
            (0.0, 0, 100),
            (1.0, 0, 1),
        ] {
            assert_eq!(runs_in_series(once, bytes), runs, "{once} s and {bytes} bytes a run");
        }
    }
}
