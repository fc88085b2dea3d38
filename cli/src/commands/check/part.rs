//! The parts of the check, each of which runs in child processes.
//!
//! A failing GPU may crash the process, or leave it with a device that no longer responds. So the
//! items of a part run in a child of this program, which prints its results line by line. If the
//! child ends early, its current item has failed, and a new child runs the rest. A child runs one
//! group of items; its end also frees the memory of the networks.

use std::{
    collections::VecDeque,
    io::{BufRead, BufReader},
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use clap::{
    ValueEnum,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
};

use super::results::{self, Line};
use crate::{exit, interrupt, report::Report};

/// Networks of the check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Part {
    /// The device itself.
    #[value(hide = true)]
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

impl Part {
    /// The parts of a report, in its order.
    pub(super) const ALL: [Self; 5] =
        [Self::Verify, Self::Kernels, Self::Lengths, Self::Types, Self::Bench];
}

/// Parses the name of a part that users can choose; parts for internal use are refused.
pub(super) fn asked_for() -> impl TypedValueParser<Value = Part> {
    let values = Part::value_variants().iter().filter_map(Part::to_possible_value);
    let shown: Vec<PossibleValue> = values.filter(|value| !value.is_hide_set()).collect();
    PossibleValuesParser::new(shown).try_map(|name| Part::from_str(&name, false))
}

/// One step of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) name: String,
    /// Consecutive items with the same number may share a process.
    pub(super) group: usize,
}

/// Receives the results of a step.
pub(super) type Tell<'a> = dyn Fn(Line) + 'a;

/// Runs every item of a part in children that `command` creates from the first item's index.
///
/// `take` receives every line as it arrives. An item that takes longer than `limit` fails, and its
/// process is killed.
pub(super) fn run(
    name: &str,
    items: &[Item],
    limit: Option<Duration>,
    report: &Report,
    mut command: impl FnMut(usize) -> Command,
    mut take: impl FnMut(&Line),
) -> results::Part {
    let start = Instant::now();
    let mut count = Count::default();
    let mut next = 0;
    while next < items.len() && !interrupt::was_pressed() {
        let mut current = None;
        let ended = follow(command(next), limit, report, |line| {
            if let Line::Begin { index, name: item } = &line {
                report.line(&format!("{name:<8} {:>3}/{}  {item}", index + 1, items.len()));
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
    if interrupt::was_pressed() {
        count.problem("stopped by Ctrl-C");
    }
    let Count { passed, failed, skipped, problems, not_run } = count;
    let seconds = start.elapsed().as_secs_f64();
    results::Part { name: name.to_owned(), passed, failed, skipped, seconds, problems, not_run }
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
            Line::Begin { .. } | Line::Backend(_) => {}
            Line::Verified(row) => {
                self.passed += row.passed;
                self.failed += row.failed;
                self.skipped += row.skipped;
            }
            Line::Kernel(row) if row.passes() => self.passed += 1,
            Line::Kernel(row) => {
                let error = row.error.map_or("not finite".to_owned(), |e| format!("{e:.1e}"));
                let results::Kernel { operation, shape, dtype, tolerance, .. } = row;
                let of = format!("{operation} {shape} in {dtype}");
                self.problem(&format!("{of}: error {error}, tolerance {tolerance:.1e}"));
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
                Some(code) if code == i32::from(exit::INTERRUPTED) => "it was stopped".to_owned(),
                Some(code) => format!("its process ended with exit code {code}"),
                None => "its process was killed".to_owned(),
            },
            (Err(error), _) => format!("it could not be started: {error}"),
        };
        let words = self.last_words.as_str();
        Some(if words.is_empty() { what } else { format!("{what} ({words})") })
    }
}

/// Runs a child to its end, or kills it if an item takes longer than `limit`. `take` receives its
/// lines; its standard error is passed on.
fn follow(
    mut command: Command,
    limit: Option<Duration>,
    report: &Report,
    mut take: impl FnMut(Line),
) -> Ended {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            return Ended { status: Err(error), too_long: None, last_words: String::new() };
        }
    };
    let words = listen(&mut child, *report);
    let mut too_long = None;
    if let Some(lines) = child.stdout.take().map(lines) {
        let mut start = Instant::now();
        loop {
            let line = match limit {
                Some(limit) => lines.recv_timeout(limit.saturating_sub(start.elapsed())),
                None => lines.recv().map_err(RecvTimeoutError::from),
            };
            match line {
                Ok(line) => {
                    if matches!(line, Line::Begin { .. }) {
                        start = Instant::now();
                    }
                    take(line);
                }
                Err(RecvTimeoutError::Timeout) => {
                    too_long = limit;
                    // Killing fails if the child has just ended, which is fine.
                    let _ = child.kill();
                    break;
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
    }
    let status = child.wait();
    let last_words = words.and_then(|thread| thread.join().ok()).unwrap_or_default();
    Ended { status, too_long, last_words }
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

/// Passes a child's standard error on, and keeps the last lines.
fn listen(child: &mut Child, report: Report) -> Option<thread::JoinHandle<String>> {
    const KEPT: usize = 4;
    let stderr = child.stderr.take()?;
    Some(thread::spawn(move || {
        let mut last = VecDeque::new();
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            report.words(&line);
            if last.len() == KEPT {
                last.pop_front();
            }
            if !line.trim().is_empty() {
                last.push_back(line.trim().to_owned());
            }
        }
        Vec::from(last).join("; ")
    }))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn items(count: usize) -> Vec<Item> {
        (0..count).map(|i| Item { name: format!("item {i}"), group: 0 }).collect()
    }

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn report() -> Report {
        Report { verbosity: -1, color: anstream::ColorChoice::Never, progress: false, json: false }
    }

    /// A child that dies at item 1 of four; the next one does the rest.
    #[test]
    fn an_item_that_kills_its_process_fails_and_the_rest_go_on() {
        let mut seen = Vec::new();
        let mut starts = Vec::new();
        let begin =
            |index: usize| format!(r#"echo '{{"begin":{{"index":{index},"name":"x"}}}}'; "#);
        let good = r#"echo '{"skipped":"as it should be"}'; echo noise; "#;
        let dies = format!("{}{good}{}echo 'error: a wheel' >&2; kill -9 $$", begin(0), begin(1));
        let lives = format!("{}{good}{}{good}", begin(2), begin(3));
        let part = run(
            "kernels",
            &items(4),
            None,
            &report(),
            |next| {
                starts.push(next);
                shell(if next == 0 { &dies } else { &lives })
            },
            |line| seen.push(line.clone()),
        );
        assert_eq!(starts, [0, 2]);
        assert_eq!(seen.len(), 7);
        assert_eq!((part.passed, part.failed, part.skipped), (0, 1, 3));
        assert_eq!(part.problems, ["item 1: its process was killed (error: a wheel)"]);
        assert_eq!(part.not_run, ["as it should be"; 3]);
    }

    #[test]
    fn a_child_that_says_nothing_fails_its_first_item_only() {
        let mut starts = 0;
        let part = run(
            "lengths",
            &items(2),
            None,
            &report(),
            |_| {
                starts += 1;
                shell("exit 3")
            },
            |_| (),
        );
        assert_eq!((starts, part.failed), (2, 2));
        assert_eq!(part.problems[0], "item 0: its process ended with exit code 3");
    }

    /// The second of three items hangs.
    #[test]
    fn an_item_that_hangs_is_ended_and_the_rest_go_on() {
        let begin =
            |index: usize| format!(r#"echo '{{"begin":{{"index":{index},"name":"x"}}}}'; "#);
        let good = r#"echo '{"skipped":"as it should be"}'; "#;
        let hangs = format!("{}{good}{}exec sleep 60", begin(0), begin(1));
        let lives = format!("{}{good}", begin(2));
        let start = Instant::now();
        let part = run(
            "kernels",
            &items(3),
            Some(Duration::from_millis(500)),
            &report(),
            |next| shell(if next == 0 { &hangs } else { &lives }),
            |_| (),
        );
        assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
        assert_eq!((part.failed, part.skipped), (1, 2));
        assert_eq!(part.problems, ["item 1: it was not done after 0.5 s and was ended"]);
    }

    #[test]
    fn a_program_that_is_not_there_is_a_failure() {
        let absent = |_| Command::new("/nonexistent/program");
        let part = run("bench", &items(1), None, &report(), absent, |_| ());
        assert_eq!(part.failed, 1);
        assert!(part.problems[0].starts_with("item 0: it could not be started: "));
    }

    #[test]
    fn what_fails_without_a_row_is_named_by_its_item() {
        let begin = r#"echo '{"begin":{"index":0,"name":"x"}}'; echo '{"problem":"too hot"}'"#;
        let part = run("bench", &items(1), None, &report(), |_| shell(begin), |_| ());
        assert_eq!((part.passed, part.failed), (0, 1));
        assert_eq!(part.problems, ["item 0: too hot"]);
    }
}
