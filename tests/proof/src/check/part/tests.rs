use super::*;
use crate::host::{CANCELLED, QUIET};

fn items(count: usize) -> Vec<Item> {
    (0..count).map(|i| Item { name: format!("item {i}"), group: 0 }).collect()
}

/// Says that an item begins.
fn begin(index: usize) -> String {
    format!(r#"echo '{{"begin":{{"index":{index},"name":"x"}}}}'; "#)
}

/// Says that an item was left out.
const GOOD: &str = r#"echo '{"skipped":"as it should be"}'; "#;

/// Runs `count` items with a script that depends on the first of them.
fn ran(
    count: usize,
    limit: Option<Duration>,
    mut script: impl FnMut(usize) -> String,
    take: impl FnMut(&Line),
) -> Summary {
    let command = |next| Ok(shell(&script(next)));
    run("kernels", &items(count), limit, &QUIET, command, take).expect("a part")
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
    let good = format!("{GOOD}echo noise; ");
    let dies = format!("{}{good}{}echo 'error: a wheel' >&2; kill -9 $$", begin(0), begin(1));
    let lives = format!("{}{good}{}{good}", begin(2), begin(3));
    let script = |next| {
        starts.push(next);
        if next == 0 { dies.clone() } else { lives.clone() }
    };
    let part = ran(4, None, script, |line| seen.push(line.clone()));
    assert_eq!(starts, [0, 2]);
    assert_eq!(seen.len(), 7);
    assert_eq!((part.passed, part.failed, part.skipped), (0, 1, 3));
    assert_eq!(part.problems, ["item 1: its process was killed (error: a wheel)"]);
    assert_eq!(part.not_run, ["as it should be"; 3]);
}

#[test]
fn a_child_that_says_nothing_fails_its_first_item_only() {
    let mut starts = 0;
    let script = |_| {
        starts += 1;
        "exit 3".to_owned()
    };
    let part = ran(2, None, script, |_| ());
    assert_eq!((starts, part.failed), (2, 2));
    assert_eq!(part.problems[0], "item 0: its process ended with exit code 3");
}

/// The second of three items hangs.
#[test]
fn an_item_that_hangs_is_ended_and_the_rest_go_on() {
    let script = |next| match next {
        0 => format!("{}{GOOD}{}exec sleep 60", begin(0), begin(1)),
        _ => format!("{}{GOOD}", begin(2)),
    };
    let start = Instant::now();
    let part = ran(3, Some(Duration::from_secs(2)), script, |_| ());
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    assert_eq!((part.failed, part.skipped), (1, 2));
    assert_eq!(part.problems, ["item 1: it was not done after 2 s and was ended"]);
}

/// A child that hangs in a driver does not hear Ctrl-C, and the report must still be written.
#[test]
fn after_ctrl_c_a_child_that_hangs_is_ended() {
    let start = Instant::now();
    let hangs = format!("{}exec sleep 60", begin(0));
    let mut seen = 0;
    let ended = follow(shell(&hangs), None, &CANCELLED, |_| seen += 1);
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    assert_eq!((seen, ended.too_long), (1, None));
    assert_eq!(ended.problem().as_deref(), Some("its process was killed"));
}

/// A stored result has the whole limit, however many a set has.
#[test]
fn each_stored_result_has_the_time_of_an_item() {
    let row = r#"{"verified":{"set":"a","component":"DiT","passed":1,"failed":0,"skipped":0,"worst_share":0.5}}"#;
    let slow = format!("{}for i in 1 2 3; do sleep 0.8; echo '{row}'; done", begin(0));
    let part = ran(1, Some(Duration::from_secs(2)), |_| slow.clone(), |_| ());
    assert_eq!((part.passed, part.failed), (3, 0));
}

#[test]
fn a_program_that_is_not_there_is_a_failure() {
    let absent = |_| Ok(Command::new("/nonexistent/program"));
    let part = run("bench", &items(1), None, &QUIET, absent, |_| ()).expect("a part");
    assert_eq!(part.failed, 1);
    assert!(part.problems[0].starts_with("item 0: it could not be started: "));
}

#[test]
fn what_fails_without_a_row_is_named_by_its_item() {
    let script = |_| begin(0) + r#"echo '{"problem":"too hot"}'"#;
    let part = ran(1, None, script, |_| ());
    assert_eq!((part.passed, part.failed), (0, 1));
    assert_eq!(part.problems, ["item 0: too hot"]);
}
