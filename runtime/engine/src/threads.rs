//! Threads of the CPU that compute.
//!
//! Two threads of one core share its units for multiplication, so that the second adds nothing to a
//! product and takes half of the caches. So the default is one thread for each core.

use std::num::NonZero;

use rayon::{ThreadPoolBuildError, ThreadPoolBuilder};
use sysinfo::System;

/// The priority of threads that compute beside a server: a tenth of the usual share.
#[cfg(target_os = "linux")]
const LOW: i32 = 10;

/// Returns the default number of threads: one for each core, but no more than the process may use at
/// once. The system limits that by an affinity mask or by the CPU quota of a container (cgroups).
pub fn default_threads() -> NonZero<usize> {
    let allowed = std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
    at_most(System::physical_core_count(), allowed)
}

/// Returns the number of `cores` if it is known, and at most the `allowed` number of threads.
fn at_most(cores: Option<usize>, allowed: NonZero<usize>) -> NonZero<usize> {
    cores.and_then(NonZero::new).map_or(allowed, |cores| cores.min(allowed))
}

/// Starts the threads that compute. Without a call, the first product starts one for each logical
/// CPU.
///
/// # Errors
/// If the system refuses, or if another number of threads is already at work.
pub fn start_threads(wanted: NonZero<usize>) -> Result<(), ThreadPoolBuildError> {
    match ThreadPoolBuilder::new().num_threads(wanted.get()).build_global() {
        Ok(()) => Ok(()),
        Err(_) if rayon::current_num_threads() == wanted.get() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Lowers the priority of this thread and of those that compute (nice 10), on Linux.
///
/// Threads that answer clients go first then: with every core busy, a server would keep a client
/// waiting until a computing thread has used up its share. Threads that were started before keep
/// their priority. A system that refuses changes nothing.
pub fn lower_priority() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{getpriority_process, setpriority_process};

        // Without a process it is the priority of the thread that calls. A lower one stays.
        let is_higher = || getpriority_process(None).is_ok_and(|own| own < LOW);
        let lower = || is_higher().then(|| setpriority_process(None, LOW).ok());
        rayon::broadcast(|_| lower());
        lower();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_thread_for_each_core_and_no_more_than_a_quota_allows() {
        let threads = |cores, allowed| at_most(cores, NonZero::new(allowed).expect("some")).get();
        // Eight cores with two threads each.
        assert_eq!(threads(Some(8), 16), 8);
        // A container that may use three of them.
        assert_eq!(threads(Some(8), 3), 3);
        // A system that does not tell its cores, or tells nonsense.
        assert_eq!(threads(None, 4), 4);
        assert_eq!(threads(Some(0), 4), 4);
    }

    #[test]
    fn this_machine_has_at_least_one_and_no_more_than_are_allowed() {
        let allowed = std::thread::available_parallelism().expect("known");
        assert!((NonZero::<usize>::MIN..=allowed).contains(&default_threads()));
    }

    /// A thread of the test's own: a priority cannot be raised again.
    #[cfg(target_os = "linux")]
    #[test]
    fn threads_that_compute_go_behind_those_that_were_there_before() {
        let priority = || rustix::process::getpriority_process(None).expect("a priority");
        let before = priority();
        let own = std::thread::spawn(move || {
            lower_priority();
            let later = std::thread::spawn(priority).join().expect("ends");
            (priority(), rayon::broadcast(|_| priority()), later)
        });
        let (own, computing, later) = own.join().expect("ends");
        let expected = before.max(LOW);
        assert_eq!((own, later, priority()), (expected, expected, before));
        assert!(computing.iter().all(|&other| other == expected), "{computing:?}");
    }

    /// Both numbers are tried in one test, because the threads of a process are started once.
    #[test]
    fn threads_are_started_once() {
        let two = NonZero::new(2).expect("two");
        // Another test of this process may have started its own.
        if start_threads(two).is_ok() {
            assert_eq!(rayon::current_num_threads(), 2);
            assert!(start_threads(two).is_ok());
            let three = NonZero::new(3).expect("three");
            assert!(start_threads(three).is_err());
        }
    }
}
