//! Failure of the program: exit codes, and errors printed as `error` / `cause` / `hint`.

use std::{
    io, mem,
    panic::{self, AssertUnwindSafe, PanicHookInfo},
    process::ExitCode,
    sync::{Mutex, PoisonError},
};

use acestep_engine::device::panics;
use serde_json::json;

pub(crate) use crate::cli_error::CliError;
use crate::{
    environment,
    exit::{BUG, FAILED, INTERRUPTED, OK, USAGE, exit},
    fields::message,
    hint,
    report::{self, CYAN, PLAIN, RED, Report},
};

impl Report {
    /// Prints `error`, its causes and its hint, and returns the exit code.
    pub(crate) fn failure(&self, error: &anyhow::Error) -> ExitCode {
        let code = code_of(error);
        if self.json && code != 0 {
            self.event(&json!({
                "event": "error", "message": message(error.as_ref()), "causes": causes(error),
                "hint": hint::of(error), "exit_code": code,
            }));
        } else if code == INTERRUPTED {
            self.line("stopped");
        } else if code != 0 {
            let mut text = format!("{RED}error:{PLAIN} {}\n", message(error.as_ref()));
            for cause in causes(error) {
                text += &format!("  cause: {cause}\n");
            }
            if let Some(hint) = hint::of(error) {
                text += &format!("\n{CYAN}hint:{PLAIN} {hint}\n");
            }
            self.print(&text);
        }
        exit(code)
    }
}

/// The exit code of `error`.
pub(crate) fn code_of(error: &anyhow::Error) -> u8 {
    use acestep_engine::Error;
    if error.chain().any(|e| matches!(e.downcast_ref(), Some(Error::Cancelled))) {
        return INTERRUPTED;
    }
    // If a reader such as `head` closes the pipe early, that is not a failure.
    let closed = |e: &io::Error| e.kind() == io::ErrorKind::BrokenPipe;
    let written = error.downcast_ref::<report::Stdout>().map(|error| &error.0);
    let of_proof = error.downcast_ref().and_then(|error| match error {
        acestep_proof::Error::Output(error) => Some(error),
        _ => None,
    });
    if written.or(of_proof).is_some_and(closed) {
        return OK;
    }
    // Only the outermost error counts: below a context it is about the content of a file.
    let Some(outermost) = error.chain().next() else { return FAILED };
    match (outermost.downcast_ref::<CliError>(), outermost.downcast_ref::<Error>()) {
        (Some(error), _) => error.code,
        // A plan does not know which values come from a request file: those have the same exit code.
        (_, Some(error)) if error.is_usage() => USAGE,
        _ => FAILED,
    }
}

/// Adds `context` to an error of a run. A wrong value needs none, and keeps its exit code.
pub(crate) fn during(error: acestep_engine::Error, context: &'static str) -> anyhow::Error {
    let is_usage = error.is_usage();
    let error = anyhow::Error::new(error);
    if is_usage { error } else { error.context(context) }
}

/// The causes of `error` below its message, in order. A cause that repeats the line before is
/// left out.
pub(crate) fn causes(error: &anyhow::Error) -> Vec<String> {
    let (mut last, mut causes) = (error.to_string(), Vec::new());
    for cause in error.chain().skip(1) {
        let text = cause.to_string();
        if !last.ends_with(&text) {
            causes.push(message(cause));
            last = text;
        }
    }
    causes
}

/// Messages of the panics so far, in order.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Runs `work`. A panic that leaves it is a bug of the program and is reported as one.
///
/// Panics are printed at the end, not when they happen. A panic of a GPU backend's thread may mean
/// a lack of memory: a smaller tile may solve it, or an error may describe it better.
pub(crate) fn with_bug_report(work: impl FnOnce() -> ExitCode) -> ExitCode {
    let default = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        if environment::wants_backtrace() {
            default(panic);
        }
        panics::record(panic);
        PANICS.lock().unwrap_or_else(PoisonError::into_inner).push(cause_of(panic));
        if ends_here(panic.payload_as_str().unwrap_or_default()) {
            tell_panics();
        }
    }));
    panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        tell_panics();
        exit(BUG)
    })
}

/// Prints the panics so far, if any, and clears them. For exits that do not return to `main`.
pub(crate) fn tell_panics() {
    let panics = mem::take(&mut *PANICS.lock().unwrap_or_else(PoisonError::into_inner));
    if !panics.is_empty() {
        report::to_stderr(&bug(panics));
    }
}

/// True if a panic with this message aborts the process at once.
fn ends_here(text: &str) -> bool {
    ["panic in a function that cannot unwind", "panic in a destructor", "unsafe precondition"]
        .iter()
        .any(|beginning| text.starts_with(beginning))
}

/// The message of a panic and its place in the source.
fn cause_of(panic: &PanicHookInfo<'_>) -> String {
    let what = panic.payload_as_str().unwrap_or("unknown");
    match panic.location() {
        Some(place) => format!("{what}, at {}:{}", place.file(), place.line()),
        None => what.to_owned(),
    }
}

/// The number of last panics to print. The first one is also printed, as it may have caused the
/// others.
const LAST_PANICS: usize = 2;

fn bug(mut panics: Vec<String>) -> String {
    panics.dedup();
    if panics.len() > LAST_PANICS {
        panics.drain(1..panics.len() - LAST_PANICS);
    }
    let mut text = format!("error: this is a bug in acestep {}\n", env!("CARGO_PKG_VERSION"));
    for cause in panics {
        text += &format!("  cause: {cause}\n");
    }
    if !environment::wants_backtrace() {
        text += "\nhint: run it again with RUST_BACKTRACE=1 and report what it prints\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use acestep_music::SongError;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("outer: {0}")]
    struct Outer(#[source] CliError);

    #[test]
    fn a_cause_that_was_just_said_is_not_said_again() {
        let inner = || CliError::new("inner").hint("mend it");
        let error = anyhow::Error::new(Outer(inner()));
        assert!(causes(&error).is_empty());
        let error = anyhow::Error::new(inner()).context("outer");
        assert_eq!(causes(&error), ["inner"]);
        assert_eq!(hint::of(&error).as_deref(), Some("mend it"));
    }

    #[test]
    fn stopping_has_its_own_exit_code() {
        assert_eq!(code_of(&acestep_engine::Error::Cancelled.into()), 130);
        let stdout = |kind: io::ErrorKind| code_of(&report::Stdout(kind.into()).into());
        assert_eq!(stdout(io::ErrorKind::BrokenPipe), 0);
        assert_eq!(stdout(io::ErrorKind::StorageFull), 1);
    }

    #[test]
    fn a_wrong_value_is_wrong_usage_unless_it_is_the_content_of_a_file() {
        assert_eq!(code_of(&CliError::new("no").into()), 1);
        assert_eq!(code_of(&CliError::usage("no").into()), 2);
        let wrong = || anyhow::Error::new(acestep_engine::Error::from(SongError::NothingAsked));
        assert_eq!(code_of(&wrong()), 2);
        assert_eq!(code_of(&wrong().context("the request `r.json` cannot be used")), 1);
        let path = "a.wav".into();
        assert_eq!(code_of(&acestep_engine::Error::AlreadyExists { path }.into()), 1);
        let wrong = during(acestep_engine::Error::Conflict("no".into()), "cannot speak");
        assert_eq!((code_of(&wrong), &*wrong.to_string()), (2, "no"));
    }

    #[test]
    fn what_stands_behind_a_refusal_is_its_cause() {
        let error = CliError::new("no").because(io::Error::other("since it rains"));
        assert_eq!(causes(&error.into()), ["since it rains"]);
    }

    /// Run by `panicking`, in a process of its own.
    #[test]
    #[ignore = "it ends the process"]
    #[expect(clippy::exit, reason = "a test has no exit code of its own")]
    fn panics_with_our_hook() {
        let code = with_bug_report(|| {
            let caught = std::thread::spawn(|| panic!("a wheel came off")).join();
            assert!(caught.is_err());
            if std::env::var_os("MENDED").is_some() {
                return exit(OK);
            }
            panic!("there is no fourth wheel")
        });
        std::process::exit(i32::from(code == exit(BUG)) * i32::from(BUG));
    }

    fn panicking(mended: bool) -> (Option<i32>, String) {
        let mut command = Command::new(std::env::current_exe().expect("a program"));
        command
            .args(["--exact", "error::tests::panics_with_our_hook", "--ignored", "--nocapture"])
            .env_remove("RUST_BACKTRACE");
        if mended {
            command.env("MENDED", "1");
        }
        let output = command.output().expect("runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    #[test]
    fn a_panic_says_that_it_is_our_mistake_and_what_went_before() {
        let (code, stderr) = panicking(false);
        assert_eq!(code, Some(101));
        assert!(stderr.starts_with("error: this is a bug in acestep "), "{stderr}");
        let causes: Vec<&str> =
            stderr.lines().filter(|line| line.starts_with("  cause: ")).collect();
        assert!(causes[0].starts_with("  cause: a wheel came off, at "), "{stderr}");
        assert!(causes[1].starts_with("  cause: there is no fourth wheel, at "), "{stderr}");
        assert!(stderr.contains("hint: run it again with RUST_BACKTRACE=1"), "{stderr}");
    }

    #[test]
    fn of_many_panics_the_first_and_the_last_are_said() {
        let causes = |count: usize| {
            let text = bug((0..count).map(|number| number.to_string()).collect());
            text.lines().filter_map(|line| line.strip_prefix("  cause: ")).collect::<String>()
        };
        assert_eq!([1, 2, 3, 4, 9].map(causes), ["0", "01", "012", "023", "078"]);
    }

    #[test]
    fn of_a_panic_that_was_mended_nothing_is_said() {
        assert_eq!(panicking(true), (Some(0), String::new()));
    }
}
