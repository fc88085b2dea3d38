//! Ctrl-C: the first press asks the run to stop, the second ends the program.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use acestep_engine::CancelIf;
use serde_json::json;

use crate::{error, exit::INTERRUPTED, report, report::Report};

static PRESSES: AtomicUsize = AtomicUsize::new(0);
static WRITING: AtomicBool = AtomicBool::new(false);
static LOSES_NOTHING: AtomicBool = AtomicBool::new(false);
/// Result of the first press, in words, of a command that does not stop after a step; empty for none.
pub(crate) static FIRST: OnceLock<String> = OnceLock::new();
/// Files that are written while they are made.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Longest time that the second press waits for a file that is being written. If the program
/// ended in the middle, the unfinished file would stay on the disk.
const PATIENCE: Duration = Duration::from_secs(5);

/// Takes over Ctrl-C (and termination requests) for the rest of the program.
pub(crate) fn install(report: &Report) {
    let (quiet, report) = (report.is_quiet(), *report);
    let result = ctrlc::set_handler(move || {
        let is_first = PRESSES.fetch_add(1, Ordering::SeqCst) == 0;
        if is_first && !LOSES_NOTHING.load(Ordering::SeqCst) {
            let first = FIRST.get().map_or("stopping after this step", String::as_str);
            if !quiet && !first.is_empty() {
                let what = format!("{first}; press Ctrl-C again to stop at once");
                match report.json {
                    true => report.note(&what),
                    false => report::to_stderr(&format!("\nnote: {what}\n")),
                }
            }
            return;
        }
        let start = Instant::now();
        while WRITING.load(Ordering::SeqCst) && start.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(10));
        }
        for path in &*UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner) {
            // Those that were finished have another name.
            let _ = fs::remove_file(path);
        }
        if !quiet {
            match report.json {
                true => report.event(&json!({
                    "event": "error", "message": "stopped", "causes": [], "hint": null,
                    "exit_code": INTERRUPTED,
                })),
                false => report::to_stderr("\nstopped\n"),
            }
        }
        // The interrupted work may have panicked on another thread.
        error::tell_panics();
        #[expect(clippy::exit, reason = "the main thread is busy and was asked once already")]
        std::process::exit(INTERRUPTED.into());
    });
    if let Err(error) = result {
        report.note(&format!("Ctrl-C cannot be handled and may leave half a file: {error}"));
    }
    #[cfg(unix)]
    survive_file_limits();
}

/// Makes a write beyond a size limit (`ulimit -f`) fail with an error. By default the system
/// ends the program without a message and leaves half a file.
#[cfg(unix)]
fn survive_file_limits() {
    let seen = std::sync::Arc::new(AtomicBool::new(false));
    // If this fails, the limit still ends the program.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, seen);
}

/// True if the user asked to stop.
pub(crate) fn was_pressed() -> bool {
    PRESSES.load(Ordering::SeqCst) > 0
}

/// Cancels work after the first press.
pub(crate) const STOP: CancelIf<fn() -> bool> = CancelIf(was_pressed);

/// Runs `wait`, which can end at any time without loss: the first press ends the program.
pub(crate) fn at_once<T>(wait: impl FnOnce() -> T) -> T {
    LOSES_NOTHING.store(true, Ordering::SeqCst);
    let result = wait();
    LOSES_NOTHING.store(false, Ordering::SeqCst);
    result
}

/// Notes an unfinished file, which is removed if Ctrl-C ends the program at once.
pub(crate) fn removes(path: &Path) {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner).push(path.to_owned());
}

/// Runs `write` and does not let Ctrl-C end the program in the middle of it.
pub(crate) fn whole<T>(write: impl FnOnce() -> T) -> T {
    /// Clears [`WRITING`], also after a panic.
    struct Over;
    impl Drop for Over {
        fn drop(&mut self) {
            WRITING.store(false, Ordering::SeqCst);
        }
    }
    WRITING.store(true, Ordering::SeqCst);
    let _over = Over;
    write()
}
