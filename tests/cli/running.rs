//! A program that runs, and its standard error.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, ChildStderr, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Time after which a test gives up: much longer than a busy machine needs.
pub(crate) const LATE: Duration = Duration::from_secs(600);

/// The program. A test that ends before it kills it.
pub(crate) struct Running {
    child: Child,
    stderr: BufReader<ChildStderr>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    pub(crate) fn start(command: &mut Command, stdout: impl Into<Stdio>) -> Self {
        let mut child = command.stdout(stdout).stderr(Stdio::piped()).spawn().expect("it starts");
        let stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        Self { child, stderr }
    }

    /// Reads standard error to a line that is the right one. Returns all that was read, which ends with it.
    pub(crate) fn read_until(&mut self, is_it: impl Fn(&str) -> bool) -> String {
        let mut said = String::new();
        loop {
            let begin = said.len();
            assert_ne!(self.stderr.read_line(&mut said).expect("UTF-8"), 0, "it ended: {said}");
            if is_it(&said[begin..]) {
                return said;
            }
        }
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(name, self.child.id());
    }

    pub(crate) fn interrupt(&self) {
        self.signal("-INT");
    }

    /// Waits for the end. Returns the exit code and the rest of standard error.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        self.stderr.read_to_string(&mut rest).expect("UTF-8");
        (self.child.wait().expect("it ends").code(), rest)
    }
}

pub(crate) fn signal(name: &str, process: u32) {
    let status = Command::new("kill").args([name, &process.to_string()]).status();
    assert!(status.expect("kill runs").success());
}

/// Waits until `what` is so.
pub(crate) fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < LATE, "not so: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}
