//! The reason of a panic, also where it was another thread's.
//!
//! The backends of cards (CubeCL 0.10) work on a thread of their own. A panic there ends a task and not the
//! thread, and whoever waits for the task panics in turn, with `CallError` and no reason. Only the panic hook
//! hears the reason. So a program passes on what its hook hears, by [`hear`], and [`caught`] finds it
//! there; a program without such a hook is told no more than the waiting thread knows.

use std::{
    panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind},
    sync::{Mutex, MutexGuard, PoisonError},
    thread::{self, ThreadId},
};

/// The words of a thread that waited for a card's.
const WAITED: &str = "CallError";

/// Panics that are remembered: a first one may have many after it.
const MOST: usize = 64;

/// The newest panics.
static HEARD: Mutex<Heard> = Mutex::new(Heard { panics: Vec::new(), next: 0 });

struct Heard {
    panics: Vec<Panic>,
    /// The number of the next one.
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

/// Remembers what a panic says; to be called by a program's panic hook.
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

/// Forgets what was heard: it was said, or it does not matter any more.
pub(super) fn forget() {
    heard().panics.clear();
}

/// Does `work`.
///
/// # Errors
/// The reason of a panic in it, in one line: its own words, or, of one that waited for another thread, the first
/// that other threads said since `work` began.
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

/// What other threads said first since panic number `begin`, or last before it: a task may have been
/// waiting for its turn.
fn reason(begin: u64) -> Option<String> {
    let (heard, this) = (heard(), thread::current().id());
    let mut others = heard.panics.iter().filter(|panic| panic.thread != this);
    let first = others.clone().find(|panic| panic.number >= begin);
    first.or_else(|| others.next_back()).map(|panic| panic.text.clone())
}

/// `text` without line ends and without what only fills them. A backend's error may hold a whole kernel, and a
/// list of calls.
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

    /// What wgpu 29 says of a kernel that Mesa's driver refused.
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

    /// The hook belongs to the whole process: one test has it.
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
        // What was heard before and belongs to nothing that failed since.
        other("of long ago");
        let again = waited();
        // A task that was waiting when the work began.
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
        // Without a hook, or with nothing heard, the words of whoever waited.
        forget();
        assert_eq!(caught::<()>(|| panic!("CallError")), Err("CallError".into()));
    }
}
