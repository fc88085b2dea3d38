//! The reason of a panic, also if another thread panicked first.
//!
//! The backends of GPUs (CubeCL 0.10) work on their own thread. A panic there ends a task, not the
//! thread. The thread that waits for the task then panics with `CallError`, without the reason.
//! Only the panic hook gets the reason. So a program's hook should pass each panic to [`record`], and
//! [`caught`] finds it there. Without such a hook, only the message of the waiting thread is known.

use std::{
    panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind},
    sync::{Mutex, MutexGuard, PoisonError},
    thread::{self, ThreadId},
};

/// The message of a thread that waited for a GPU's thread.
const WAITED: &str = "CallError";

/// The number of panics to remember: a first one may have many after it.
const MOST: usize = 64;

/// The newest panics of this process.
static PANICS: Mutex<PanicLog> = Mutex::new(PanicLog::new());

struct PanicLog {
    panics: Vec<Panic>,
    /// The number of the next panic.
    next: u64,
}

struct Panic {
    number: u64,
    thread: ThreadId,
    text: String,
}

impl PanicLog {
    const fn new() -> Self {
        Self { panics: Vec::new(), next: 0 }
    }

    fn add(&mut self, thread: ThreadId, text: String) {
        if self.panics.len() == MOST {
            self.panics.remove(0);
        }
        self.panics.push(Panic { number: self.next, thread, text });
        self.next += 1;
    }

    /// The first message of threads other than `this` since panic number `begin`. Without one, the last
    /// message before it, because the task may have been queued before.
    fn reason(&self, begin: u64, this: ThreadId) -> Option<String> {
        let mut others = self.panics.iter().filter(|panic| panic.thread != this);
        let first = others.clone().find(|panic| panic.number >= begin);
        first.or_else(|| others.next_back()).map(|panic| panic.text.clone())
    }
}

fn lock(log: &Mutex<PanicLog>) -> MutexGuard<'_, PanicLog> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Remembers the message of a panic; a program's panic hook should call it.
pub fn record(panic: &PanicHookInfo<'_>) {
    let text = panic.payload_as_str().unwrap_or("unknown").to_owned();
    lock(&PANICS).add(thread::current().id(), text);
}

/// Forgets all messages: they were reported or are no longer relevant.
pub(super) fn forget() {
    lock(&PANICS).panics.clear();
}

/// Runs `work` and catches a panic in it.
///
/// # Errors
/// The reason of the panic, in one line: its own message. If it waited for another thread: the
/// first message of other threads since `work` began.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    caught_with(&PANICS, work)
}

/// As [`caught`], with the panics of `log`.
fn caught_with<T>(log: &Mutex<PanicLog>, work: impl FnOnce() -> T) -> Result<T, String> {
    let begin = lock(log).next;
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("unknown");
        let mut log = lock(log);
        let reason = text.contains(WAITED).then(|| log.reason(begin, thread::current().id()));
        log.panics.clear();
        one_line(reason.flatten().as_deref().unwrap_or(text))
    })
}

/// `text` as one line, without empty lines and backtrace, and cut to a maximum length. A backend's
/// error may contain a whole kernel and a backtrace.
fn one_line(text: &str) -> String {
    const LONGEST: usize = 300;
    let lines = text.lines().map(str::trim).take_while(|line| !line.starts_with("Backtrace"));
    let lines = lines.filter(|line| !line.is_empty() && *line != "Caused by:");
    let joined = lines.collect::<Vec<_>>().join(": ").replace(":: ", ": ");
    joined.trim_start_matches("wgpu error: ").chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The message of wgpu 29 for a kernel that Mesa's driver refused.
    const WGPU: &str = "wgpu error: Validation Error\n\nCaused by:\n  In ComputePipeline::get_bind_group_layout\n    \
                        ComputePipeline with 'elemwise_fuse' label is invalid\n\n\n";

    #[test]
    fn a_reason_of_many_lines_is_one_line() {
        let of = |text: &str| one_line(text);
        assert_eq!(
            of(WGPU),
            "Validation Error: In ComputePipeline::get_bind_group_layout: ComputePipeline with \
             'elemwise_fuse' label is invalid"
        );
        assert_eq!(
            of("An error\nCaused by:\n  no room\nBacktrace:\n  0: main\n"),
            "An error: no room"
        );
        assert_eq!(of(&"x".repeat(1000)).len(), 300);
        assert_eq!(of("no memory"), "no memory");
    }

    /// The test has its own list of panics: other tests panic at the same time.
    #[test]
    fn whoever_waited_is_told_what_the_other_thread_said() {
        let log = Mutex::new(PanicLog::new());
        let thread = thread::spawn(|| thread::current().id()).join().unwrap();
        let other = |text: &str| lock(&log).add(thread, text.to_owned());
        let waited = || {
            caught_with::<()>(&log, || {
                other("the pipeline is invalid");
                other("there is nothing to read");
                panic!("called `Result::unwrap()` on an `Err` value: CallError")
            })
        };
        assert_eq!(waited(), Err("the pipeline is invalid".into()));
        // An earlier panic that does not belong to a later failure.
        other("of long ago");
        assert_eq!(waited(), Err("the pipeline is invalid".into()));
        // A task that was queued before the work began.
        other("of the task before");
        let late = caught_with::<()>(&log, || panic!("CallError"));
        assert_eq!(late, Err("of the task before".into()));
        let own = caught_with::<()>(&log, || {
            other("that was mended");
            panic!("three is no even number")
        });
        assert_eq!(own, Err("three is no even number".into()));
        assert_eq!(caught_with(&log, || 1), Ok(1));
        // Without earlier messages: the message of the waiting thread.
        assert_eq!(caught_with::<()>(&log, || panic!("CallError")), Err("CallError".into()));
        // This thread's own earlier panic is no reason.
        lock(&log).add(thread::current().id(), "of this thread".into());
        assert_eq!(caught_with::<()>(&log, || panic!("CallError")), Err("CallError".into()));
    }

    /// The lists keep the newest panics.
    #[test]
    fn of_many_panics_the_newest_are_kept() {
        let mut log = PanicLog::new();
        let thread = thread::spawn(|| thread::current().id()).join().unwrap();
        (0..MOST + 2).for_each(|number| log.add(thread, number.to_string()));
        let this = thread::current().id();
        assert_eq!(log.panics.len(), MOST);
        assert_eq!(log.reason(0, this), Some("2".into()));
        assert_eq!(log.reason(10, this), Some("10".into()));
    }
}
