//! The reason of a panic, also if another thread panicked first.
//!
//! The backends of GPUs (CubeCL 0.10) work on their own thread. A panic there ends a task, not the
//! thread. The thread that waits for the task then panics with `CallError`, without the reason.
//! Only the panic hook gets the reason. So a program's hook should pass each panic to [`hear`], and
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

/// The newest panics.
static HEARD: Mutex<Heard> = Mutex::new(Heard { panics: Vec::new(), next: 0 });

struct Heard {
    panics: Vec<Panic>,
    /// The number of the next panic.
    next: u64,
}

struct Panic {
    number: u64,
    thread: ThreadId,
    text: String,
}

fn heard() -> MutexGuard<'static, Heard> {
    HEARD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Remembers the message of a panic; a program's panic hook should call it.
pub fn hear(panic: &PanicHookInfo<'_>) {
    let text = panic.payload_as_str().unwrap_or("unknown").to_owned();
    let mut heard = heard();
    let number = heard.next;
    heard.next += 1;
    if heard.panics.len() == MOST {
        heard.panics.remove(0);
    }
    heard.panics.push(Panic { number, thread: thread::current().id(), text });
}

/// Forgets all messages: they were reported or are no longer relevant.
pub(super) fn forget() {
    heard().panics.clear();
}

/// Runs `work` and catches a panic in it.
///
/// # Errors
/// The reason of the panic, in one line: its own message. If it waited for another thread: the
/// first message of other threads since `work` began.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    let begin = heard().next;
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("unknown");
        let reason = text.contains(WAITED).then(|| reason(begin)).flatten();
        forget();
        one_line(reason.as_deref().unwrap_or(text))
    })
}

/// The first message of other threads since panic number `begin`, or else the last one before it,
/// because the task may have been queued before.
fn reason(begin: u64) -> Option<String> {
    let (heard, this) = (heard(), thread::current().id());
    let mut others = heard.panics.iter().filter(|panic| panic.thread != this);
    let first = others.clone().find(|panic| panic.number >= begin);
    first.or_else(|| others.next_back()).map(|panic| panic.text.clone())
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
    use std::panic;

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

    /// The panic hook belongs to the whole process, so only one test sets it.
    #[test]
    fn whoever_waited_is_told_what_the_other_thread_said() {
        let before = panic::take_hook();
        panic::set_hook(Box::new(hear));
        let other = |text: &'static str| drop(thread::spawn(move || panic!("{text}")).join());
        let waited = || {
            caught::<()>(|| {
                other("the pipeline is invalid");
                other("there is nothing to read");
                panic!("called `Result::unwrap()` on an `Err` value: CallError")
            })
        };
        let found = waited();
        // An earlier panic that does not belong to a later failure.
        other("of long ago");
        let again = waited();
        // A task that was queued before the work began.
        other("of the task before");
        let late = caught::<()>(|| panic!("CallError"));
        let own = caught::<()>(|| {
            other("that was mended");
            panic!("three is no even number")
        });
        let fine = caught(|| 1);
        panic::set_hook(before);
        assert_eq!(found, Err("the pipeline is invalid".into()));
        assert_eq!(again, Err("the pipeline is invalid".into()));
        assert_eq!(late, Err("of the task before".into()));
        assert_eq!(own, Err("three is no even number".into()));
        assert_eq!(fine, Ok(1));
        // Without a hook or earlier messages: the message of the waiting thread.
        forget();
        assert_eq!(caught::<()>(|| panic!("CallError")), Err("CallError".into()));
    }
}
