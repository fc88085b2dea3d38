//! Ctrl-C: exit code 130 and no file, also in the middle.
#![cfg(unix)]

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, ChildStderr, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::Place;

/// A run that is busy, and what it goes on to say.
struct Busy {
    child: Child,
    stderr: BufReader<ChildStderr>,
}

impl Busy {
    /// Ten minutes of music, which take far longer than the test.
    fn new(place: &Place, more: &[&str]) -> Self {
        let args = ["generate", "rain", "--model", "tiny", "--duration", "600", "-o", "a.wav"];
        Self::start(place, &[&args, more].concat())
    }

    fn start(place: &Place, args: &[&str]) -> Self {
        let mut command = place.command(args);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut line = String::new();
        while !line.starts_with("tiny on cpu") {
            line.clear();
            assert_ne!(stderr.read_line(&mut line).expect("UTF-8"), 0, "it ended");
        }
        thread::sleep(Duration::from_millis(500));
        Self { child, stderr }
    }

    fn interrupt(&self) {
        let status = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        assert!(status.expect("kill runs").success());
    }

    /// Exit code and the rest of standard error.
    fn end(mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        self.stderr.read_to_string(&mut rest).expect("UTF-8");
        (self.child.wait().expect("the program ends").code(), rest)
    }
}

#[test]
fn one_press_ends_after_the_step_and_leaves_no_file() {
    let place = Place::new();
    let busy = Busy::new(&place, &["--vae-chunk", "128", "--vae-overlap", "16"]);
    busy.interrupt();
    let (code, rest) = busy.end();
    assert_eq!(code, Some(130), "{rest}");
    let note = "\nnote: stopping after this step; press Ctrl-C again to stop at once\nstopped\n";
    assert_eq!(rest, note);
    assert!(place.files().is_empty(), "{:?}", place.files());
}

#[test]
fn two_presses_end_at_once_and_leave_no_file() {
    let place = Place::new();
    // The whole song in one tile: a step that is far too long to wait for.
    let busy = Busy::new(&place, &["--vae-chunk", "1000000"]);
    busy.interrupt();
    thread::sleep(Duration::from_millis(100));
    let start = Instant::now();
    busy.interrupt();
    let (code, rest) = busy.end();
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    assert_eq!(code, Some(130), "{rest}");
    assert!(place.files().is_empty(), "{:?}", place.files());
}

#[test]
fn a_press_while_the_language_model_writes_leaves_no_file() {
    let place = Place::new();
    let song = ["rain", "--lyrics", "la", "--duration", "600", "--model", "tiny", "--bpm", "90"];
    let all = [&song[..], &["--keyscale", "C major", "--timesignature", "4"]].concat();
    let plan = [&["plan"], &all[..], &["--output-dir", "d", "--output-text", "t"]].concat();
    let generate = [&["generate"], &all[..], &["--thinking", "--batch-size", "8"]].concat();
    for args in [plan, generate] {
        let busy = Busy::start(&place, &args);
        busy.interrupt();
        let (code, rest) = busy.end();
        assert_eq!(code, Some(130), "{rest}");
        assert!(rest.ends_with("press Ctrl-C again to stop at once\nstopped\n"), "{rest}");
        assert!(place.files().is_empty(), "{:?}", place.files());
    }
}
