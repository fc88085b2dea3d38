use super::*;
use crate::host::Quiet;

fn items(count: usize) -> Vec<Item> {
    (0..count).map(|i| Item { name: format!("item {i}"), group: 0 }).collect()
}

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

/// A child that dies at item 1 of four; the next one does the rest.
#[test]
fn an_item_that_kills_its_process_fails_and_the_rest_go_on() {
    let mut seen = Vec::new();
    let mut starts = Vec::new();
    let begin = |index: usize| format!(r#"echo '{{"begin":{{"index":{index},"name":"x"}}}}'; "#);
    let good = r#"echo '{"skipped":"as it should be"}'; echo noise; "#;
    let dies = format!("{}{good}{}echo 'error: a wheel' >&2; kill -9 $$", begin(0), begin(1));
    let lives = format!("{}{good}{}{good}", begin(2), begin(3));
    let part = run(
        "kernels",
        &items(4),
        None,
        &Quiet,
        |next| {
            starts.push(next);
            Ok(shell(if next == 0 { &dies } else { &lives }))
        },
        |line| seen.push(line.clone()),
    )
    .expect("commands");
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
        &Quiet,
        |_| {
            starts += 1;
            Ok(shell("exit 3"))
        },
        |_| (),
    )
    .expect("commands");
    assert_eq!((starts, part.failed), (2, 2));
    assert_eq!(part.problems[0], "item 0: its process ended with exit code 3");
}

/// The second of three items hangs.
#[test]
fn an_item_that_hangs_is_ended_and_the_rest_go_on() {
    let begin = |index: usize| format!(r#"echo '{{"begin":{{"index":{index},"name":"x"}}}}'; "#);
    let good = r#"echo '{"skipped":"as it should be"}'; "#;
    let hangs = format!("{}{good}{}exec sleep 60", begin(0), begin(1));
    let lives = format!("{}{good}", begin(2));
    let start = Instant::now();
    let part = run(
        "kernels",
        &items(3),
        Some(Duration::from_secs(2)),
        &Quiet,
        |next| Ok(shell(if next == 0 { &hangs } else { &lives })),
        |_| (),
    )
    .expect("commands");
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    assert_eq!((part.failed, part.skipped), (1, 2));
    assert_eq!(part.problems, ["item 1: it was not done after 2 s and was ended"]);
}

/// A host that was told to stop.
struct Stopped;

impl Host for Stopped {
    fn line(&self, _: &str) {}

    fn note(&self, _: &str) {}

    fn pass_on(&self, _: &str) {}

    fn output(&self, _: &str) -> std::io::Result<()> {
        Ok(())
    }

    fn write(&self, _: &std::path::Path, _: &str) -> std::io::Result<()> {
        Ok(())
    }

    fn is_cancelled(&self) -> bool {
        true
    }

    fn hint(&self, _: &anyhow::Error) -> Option<String> {
        None
    }
}

/// A child that hangs in a driver does not hear Ctrl-C, and the report must still be written.
#[test]
fn after_ctrl_c_a_child_that_hangs_is_ended() {
    let start = Instant::now();
    let begin = r#"echo '{"begin":{"index":0,"name":"x"}}'; exec sleep 60"#;
    let mut seen = 0;
    let ended = follow(shell(begin), None, &Stopped, |_| seen += 1);
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    assert_eq!((seen, ended.too_long), (1, None));
    assert_eq!(ended.problem().as_deref(), Some("its process was killed"));
}

/// A stored result has the whole limit, however many a set has.
#[test]
fn each_stored_result_has_the_time_of_an_item() {
    let row = r#"{"verified":{"set":"a","component":"DiT","passed":1,"failed":0,"skipped":0,"worst_share":0.5}}"#;
    let begin = r#"echo '{"begin":{"index":0,"name":"x"}}'; "#;
    let slow = format!("{begin}for i in 1 2 3; do sleep 0.8; echo '{row}'; done");
    let limit = Some(Duration::from_secs(2));
    let part = run("verify", &items(1), limit, &Quiet, |_| Ok(shell(&slow)), |_| ());
    let part = part.expect("a part");
    assert_eq!((part.passed, part.failed), (3, 0));
}

#[test]
fn a_program_that_is_not_there_is_a_failure() {
    let absent = |_| Ok(Command::new("/nonexistent/program"));
    let part = run("bench", &items(1), None, &Quiet, absent, |_| ()).expect("a part");
    assert_eq!(part.failed, 1);
    assert!(part.problems[0].starts_with("item 0: it could not be started: "));
}

#[test]
fn what_fails_without_a_row_is_named_by_its_item() {
    let begin = r#"echo '{"begin":{"index":0,"name":"x"}}'; echo '{"problem":"too hot"}'"#;
    let part = run("bench", &items(1), None, &Quiet, |_| Ok(shell(begin)), |_| ()).expect("a part");
    assert_eq!((part.passed, part.failed), (0, 1));
    assert_eq!(part.problems, ["item 0: too hot"]);
}
