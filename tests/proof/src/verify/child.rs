//! Computes cases in child processes. A GPU failure may end its process, or leave the process
//! unable to compute (wgpu 29 abandons a device whose driver refuses a kernel).
//!
//! The child reports which cases it begins and finishes. If it ends too early, the cases that it
//! had begun have failed, and another child computes the rest.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, Command, ExitStatus, Stdio},
};

use acestep_engine::Error::Cancelled;
use anyhow::{Context, Result};

use crate::{
    Error, Host,
    golden::{
        case::Case,
        ledger::Tell,
        message::{Done, Message},
    },
};

/// The cases that a child is computing.
struct At {
    file: String,
    component: String,
    cases: Vec<String>,
}

/// Runs children made by `command` until everything is finished, and passes on their messages.
///
/// # Errors
/// If a child cannot be started, reports that the run cannot go on, or finishes nothing.
pub(crate) fn run(
    mut command: impl FnMut() -> Result<Command>,
    host: &dyn Host,
    tell: &Tell<'_>,
) -> Result<Vec<Case>> {
    let (mut done, mut cases) = (Done::default(), Vec::new());
    loop {
        let before = done.clone();
        let mut take = |message: Message| -> Result<()> {
            done.note(&message);
            tell(&message).map_err(Error::Output)?;
            if let Message::Case(case) = message {
                cases.push(case);
            }
            Ok(())
        };
        let mut child = start(command()?, &before)?;
        let followed = follow(&mut child, &mut take);
        if followed.is_err() {
            // A child that has already ended cannot be killed, and need not be.
            let _ = child.kill();
        }
        let status = child.wait().context("cannot wait for this program's own process")?;
        let (ended, at) = followed?;
        if host.is_cancelled() {
            return Err(Cancelled.into());
        }
        if ended {
            return Ok(cases);
        }
        if let Some(At { file, component, cases: names }) = at.filter(|_| !status.success()) {
            let why = how(status);
            let left = names.iter().filter(|name| !before.has(&file, name));
            for name in left {
                take(Message::Case(Case::new(&file, name, component.clone()).failed(&why)))?;
            }
            if names.is_empty() {
                let rest = Case::new(&file, "the rest", component.clone()).failed(&why);
                take(Message::Case(rest))?;
                take(Message::File(file))?;
            }
        }
        if done == before {
            return Err(Error::NothingFinished(how(status)).into());
        }
    }
}

/// Describes how a child ended.
fn how(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("its process ended with exit code {code}"),
        None => "its process was killed".to_owned(),
    }
}

/// Starts a child and sends it the finished cases.
fn start(mut command: Command, done: &Done) -> Result<Child> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("this program cannot be started a second time")?;
    if let Some(mut stdin) = child.stdin.take() {
        // If the child has already ended, it prints nothing, and the caller notices that.
        let _ = stdin.write_all(serde_json::to_string(done)?.as_bytes());
    }
    Ok(child)
}

/// Reads all messages of a child. Returns (everything was finished, cases that it was computing).
fn follow(
    child: &mut Child,
    take: &mut impl FnMut(Message) -> Result<()>,
) -> Result<(bool, Option<At>)> {
    let (mut ended, mut at) = (false, None::<At>);
    let Some(stdout) = child.stdout.take() else { return Ok((false, None)) };
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        // Libraries and drivers may also print to stdout.
        let Ok(message) = serde_json::from_str(&line) else { continue };
        match message {
            Message::Begin { file, component, cases } => at = Some(At { file, component, cases }),
            Message::Case(case) => {
                if let Some(at) = &mut at {
                    at.cases.retain(|name| *name != case.case);
                }
                take(Message::Case(case))?;
            }
            Message::File(file) => {
                at = None;
                take(Message::File(file))?;
            }
            Message::End => ended = true,
            Message::Error { message, hint } => return Err(Error::Child { message, hint }.into()),
        }
    }
    Ok((ended, at))
}

#[cfg(all(test, unix))]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::host::QUIET;

    /// Name of a case, and the reason if it failed.
    type Outcome = (String, Option<String>);

    /// Runs these shell scripts as children, one after the other. Returns the cases as
    /// (name, reason) and the number of messages.
    fn ran(scripts: &[&str]) -> (Result<Vec<Outcome>>, usize) {
        let (told, mut next) = (RefCell::new(0), 0);
        let tell = |_: &Message| {
            *told.borrow_mut() += 1;
            Ok(())
        };
        let command = || {
            let mut command = Command::new("sh");
            // The script prints what the program itself would print.
            command.args(["-c", &format!("cat > /dev/null; {}", scripts[next])]);
            next += 1;
            Ok(command)
        };
        let cases = run(command, &QUIET, &tell);
        let pair = |case: Case| (case.case, case.failed);
        (cases.map(|cases| cases.into_iter().map(pair).collect()), told.take())
    }

    fn say(message: &Message) -> String {
        format!("echo '{}'; ", serde_json::to_string(message).expect("JSON"))
    }

    fn begin(names: &[&str]) -> String {
        let cases = names.iter().map(|&name| name.to_owned()).collect();
        say(&Message::Begin { file: "f".into(), component: "noise".into(), cases })
    }

    fn case(name: &str) -> String {
        say(&Message::Case(Case { pass: Some(true), ..Case::new("f", name, "noise") }))
    }

    #[test]
    fn what_a_process_dies_at_has_failed_and_another_does_the_rest() {
        let dies = [begin(&["a"]), case("a"), begin(&["b", "c"]), case("b"), "kill -9 $$".into()];
        let lives = [begin(&["d"]), "echo noise; ".into(), case("d"), say(&Message::End)];
        let (cases, told) = ran(&[&dies.concat(), &lives.concat()]);
        let killed = Some("its process was killed".to_owned());
        let expected = [("a", None), ("b", None), ("c", killed), ("d", None)];
        assert_eq!(cases.expect("cases"), expected.map(|(name, why)| (name.to_owned(), why)));
        assert_eq!(told, 4);
    }

    /// This process has reported the case that made the device unusable.
    #[test]
    fn a_process_without_a_device_leaves_the_rest_to_another() {
        let gone = [begin(&["a"]), case("a"), begin(&["b"])].concat();
        let (cases, _) = ran(&[&gone, &[case("b"), say(&Message::End)].concat()]);
        let names: Vec<_> = cases.expect("cases").into_iter().collect();
        assert_eq!(names, [("a".to_owned(), None), ("b".to_owned(), None)]);
    }

    #[test]
    fn a_process_that_dies_before_its_cases_are_known_fails_the_file() {
        let (cases, told) = ran(&[&[begin(&[]), "exit 3".into()].concat(), &say(&Message::End)]);
        let why = Some("its process ended with exit code 3".to_owned());
        assert_eq!(cases.expect("cases"), [("the rest".to_owned(), why)]);
        assert_eq!(told, 2);
    }

    #[test]
    fn a_process_that_finishes_nothing_or_cannot_go_on_ends_the_run() {
        let (cases, _) = ran(&["exit 3"]);
        let error = cases.expect_err("nothing came").to_string();
        assert_eq!(error, "nothing can be computed there: its process ended with exit code 3");
        let (message, hint) = ("cannot verify f".to_owned(), Some("fetch it".to_owned()));
        let (cases, _) = ran(&[&say(&Message::Error { message, hint })]);
        let error = cases.expect_err("it cannot go on");
        assert_eq!(error.to_string(), "cannot verify f");
        assert_eq!(QUIET.hint(&error).as_deref(), Some("fetch it"));
    }
}
