//! The parts of the check. Each runs in child processes.
//!
//! A failing GPU may crash the process, or leave it with a device that no longer responds. So the
//! items of a part run in a child of this program, which prints its results line by line. If the
//! child ends early, its current item has failed, and a new child runs the rest. A child runs one
//! group of items; its end also frees the memory of the networks.

use std::{
    collections::VecDeque,
    io::{BufRead, BufReader},
    process::{ChildStderr, ChildStdout, Command, ExitStatus, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;

use crate::{
    Host,
    rows::{Item, Kernel, Line, Summary},
};

/// Exit code of a child that Ctrl-C stopped.
const STOPPED: i32 = 130;

/// Time for a child to end by itself after Ctrl-C: a device that hangs would keep it.
const GRACE: Duration = Duration::from_secs(2);

/// Time between two looks at Ctrl-C.
const LOOK: Duration = Duration::from_millis(100);

/// A part of the check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckPart {
    /// The device itself: always, and before the others.
    Device,
    /// The reference's stored results.
    Verify,
    /// Every kernel against plain operations on the CPU.
    Kernels,
    /// Songs of many lengths.
    Lengths,
    /// Networks in every type of weights.
    Types,
    /// Every preset at full size with random weights.
    Bench,
}

impl CheckPart {
    /// The parts of a report, in its order.
    pub const ALL: [Self; 5] =
        [Self::Verify, Self::Kernels, Self::Lengths, Self::Types, Self::Bench];

    /// Returns the name in flags and in the report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Verify => "verify",
            Self::Kernels => "kernels",
            Self::Lengths => "lengths",
            Self::Types => "types",
            Self::Bench => "bench",
        }
    }

    /// Returns the description, for help.
    pub fn about(self) -> &'static str {
        match self {
            Self::Device => "The device itself",
            Self::Verify => "The reference's stored results",
            Self::Kernels => "Every kernel against plain operations on the CPU",
            Self::Lengths => "Songs of many lengths",
            Self::Types => "Networks in every type of weights",
            Self::Bench => "Every preset at full size with random weights",
        }
    }
}

/// Runs every item of a part in children that `command` creates from the first item's index.
///
/// `take` receives every line as it arrives. An item that takes longer than `limit` fails, and its
/// process is killed.
pub(crate) fn run(
    name: &str,
    items: &[Item],
    limit: Option<Duration>,
    host: &dyn Host,
    mut command: impl FnMut(usize) -> Result<Command>,
    mut take: impl FnMut(&Line),
) -> Result<Summary> {
    let start = Instant::now();
    let mut count = Count::default();
    let mut next = 0;
    while next < items.len() && !host.is_cancelled() {
        let mut current = None;
        let ended = follow(command(next)?, limit, host, |line| {
            if let Line::Begin { index, name: item } = &line {
                host.line(&format!("{name:<8} {:>3}/{}  {item}", index + 1, items.len()));
                current = Some(*index);
            }
            count.add(&line, current.and_then(|index| items.get(index)));
            take(&line);
        });
        let at = current.unwrap_or(next);
        if let Some(problem) = ended.problem() {
            count.problem(&format!("{}: {problem}", items[at.min(items.len() - 1)].name));
        }
        // Always advance, no matter which index the child printed.
        next = next.max(at) + 1;
    }
    if host.is_cancelled() {
        count.problem("stopped by Ctrl-C");
    }
    let Count { passed, failed, skipped, problems, not_run } = count;
    let seconds = start.elapsed().as_secs_f64();
    Ok(Summary { name: name.to_owned(), passed, failed, skipped, seconds, problems, not_run })
}

/// Numbers of passed and failed checks.
#[derive(Debug, Default)]
struct Count {
    passed: usize,
    failed: usize,
    skipped: usize,
    problems: Vec<String>,
    not_run: Vec<String>,
}

impl Count {
    fn add(&mut self, line: &Line, item: Option<&Item>) {
        match line {
            Line::Begin { .. } | Line::Backend(_) | Line::Timed { .. } => {}
            Line::Verified(row) => {
                self.passed += row.passed;
                self.failed += row.failed;
                self.skipped += row.skipped;
            }
            Line::Kernel(row) if row.passes() => self.passed += 1,
            Line::Kernel(row) => {
                let Kernel { operation, shape, dtype, .. } = row;
                self.problem(&format!("{operation} {shape} in {dtype}: {}", row.difference()));
            }
            Line::Length(row) => {
                let problems = row.problems();
                if problems.is_empty() {
                    self.passed += 1;
                } else {
                    let of = format!("{} s in {}", row.seconds, row.dtype);
                    self.problem(&format!("{of}: {}", problems.join(", ")));
                }
            }
            Line::Rounded(row) => {
                let passes = row.from_f32.is_some_and(f64::is_finite);
                match passes {
                    true => self.passed += 1,
                    false => self.problem(&format!("not finite in {}", row.dtype)),
                }
            }
            Line::Ceiling(_) | Line::Speed(_) => self.passed += 1,
            Line::Problem(text) => match item {
                Some(item) => self.problem(&format!("{}: {text}", item.name)),
                None => self.problem(text),
            },
            Line::Failed(text) => self.problems.push(text.clone()),
            Line::Skipped(text) => {
                self.skipped += 1;
                self.not_run.push(text.clone());
            }
        }
    }

    fn problem(&mut self, text: &str) {
        self.failed += 1;
        self.problems.push(text.to_owned());
    }
}

/// End of a child.
struct Ended {
    status: std::io::Result<ExitStatus>,
    /// The time limit, if it was killed for it.
    too_long: Option<Duration>,
    /// The last lines of its standard error.
    last_words: String,
}

impl Ended {
    /// Returns the problem of the child, if there is one.
    fn problem(&self) -> Option<String> {
        let what = match (&self.status, self.too_long) {
            (_, Some(limit)) => {
                format!("it was not done after {} s and was ended", limit.as_secs_f64())
            }
            (Ok(status), _) if status.success() => return None,
            (Ok(status), _) => match status.code() {
                Some(STOPPED) => "it was stopped".to_owned(),
                Some(code) => format!("its process ended with exit code {code}"),
                None => "its process was killed".to_owned(),
            },
            (Err(error), _) => format!("it could not be started: {error}"),
        };
        let words = self.last_words.as_str();
        Some(if words.is_empty() { what } else { format!("{what} ({words})") })
    }
}

/// Runs a child to its end, or kills it if an item or a stored result takes longer than `limit`, or
/// if it does not end after Ctrl-C. `take` receives its lines; its standard error is passed on.
fn follow(
    mut command: Command,
    limit: Option<Duration>,
    host: &dyn Host,
    mut take: impl FnMut(Line),
) -> Ended {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            return Ended { status: Err(error), too_long: None, last_words: String::new() };
        }
    };
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    thread::scope(|scope| {
        let words = stderr.map(|stderr| scope.spawn(|| listen(stderr, host)));
        let mut too_long = None;
        if let Some(lines) = stdout.map(lines) {
            let (mut start, mut stopped) = (Instant::now(), None);
            loop {
                match lines.recv_timeout(LOOK) {
                    Ok(line) => {
                        if matches!(line, Line::Begin { .. } | Line::Verified(_)) {
                            start = Instant::now();
                        }
                        take(line);
                    }
                    Err(RecvTimeoutError::Timeout) => {
                        too_long = limit.filter(|&limit| start.elapsed() >= limit);
                        let is_stopped = host.is_cancelled()
                            && stopped.get_or_insert_with(Instant::now).elapsed() >= GRACE;
                        if too_long.is_some() || is_stopped {
                            // Killing fails if the child has just ended, which is fine.
                            let _ = child.kill();
                            break;
                        }
                    }
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            }
        }
        let status = child.wait();
        let last_words = words.and_then(|thread| thread.join().ok()).unwrap_or_default();
        Ended { status, too_long, last_words }
    })
}

/// Reads a child's lines in a thread that ends with its output.
fn lines(stdout: ChildStdout) -> Receiver<Line> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            // Libraries and drivers may print there too.
            if let Ok(line) = serde_json::from_str(&line)
                && sender.send(line).is_err()
            {
                break;
            }
        }
    });
    receiver
}

/// Passes a child's standard error on, and returns the last lines.
fn listen(stderr: ChildStderr, host: &dyn Host) -> String {
    const KEPT: usize = 4;
    let mut last = VecDeque::new();
    for line in BufReader::new(stderr).lines().map_while(Result::ok) {
        host.pass_on(&line);
        if last.len() == KEPT {
            last.pop_front();
        }
        if !line.trim().is_empty() {
            last.push_back(line.trim().to_owned());
        }
    }
    Vec::from(last).join("; ")
}

#[cfg(all(test, unix))]
mod tests;
