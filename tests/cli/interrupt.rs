//! Ctrl-C: exit code 130 and no partial file.
#![cfg(unix)]

use std::{
    fs::File,
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use crate::{
    Dir,
    running::{Running, wait_until},
};

/// Starts the program, and returns it when it is in the middle of its work.
fn busy(dir: &Dir, args: &[&str]) -> Running {
    let mut busy = Running::start(&mut dir.command(args), Stdio::null());
    let starts = ["tiny on cpu", "language model tiny"];
    busy.read_until(|line| starts.iter().any(|start| line.starts_with(start)));
    // A press during any step has the same result: most come in the middle of one.
    thread::sleep(Duration::from_millis(500));
    busy
}

/// Starts a song of ten minutes, which takes far longer than the test.
fn long_song(dir: &Dir, more: &[&str]) -> Running {
    let args = ["generate", "rain", "--model", "tiny", "--duration", "600", "-o", "a.wav"];
    busy(dir, &[&args, more].concat())
}

#[test]
fn one_press_ends_after_the_step_and_leaves_no_file() {
    let dir = Dir::new();
    let busy = long_song(&dir, &["--vae-chunk", "128", "--vae-overlap", "16"]);
    busy.interrupt();
    let (code, rest) = busy.end();
    assert_eq!(code, Some(130), "{rest}");
    let note = "\nnote: stopping after this step; press Ctrl-C again to stop at once\nstopped\n";
    assert_eq!(rest, note);
    assert!(dir.files().is_empty(), "{:?}", dir.files());
}

#[test]
fn two_presses_end_at_once_and_leave_no_file() {
    let dir = Dir::new();
    // The whole song is one tile, so one step takes far too long to wait for.
    let mut busy = long_song(&dir, &["--vae-chunk", "1000000"]);
    busy.interrupt();
    // Two signals at once would be one.
    busy.read_until(|line| line.contains("press Ctrl-C again"));
    let start = Instant::now();
    busy.interrupt();
    let (code, rest) = busy.end();
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    assert_eq!(code, Some(130), "{rest}");
    assert!(dir.files().is_empty(), "{:?}", dir.files());
}

#[test]
fn a_press_while_the_language_model_writes_leaves_no_file() {
    let dir = Dir::new();
    let song = ["rain", "--lyrics", "la", "--duration", "600", "--model", "tiny", "--bpm", "90"];
    let all = [&song[..], &["--keyscale", "C major", "--timesignature", "4"]].concat();
    let plan = [&["plan"], &all[..], &["--output-dir", "d", "--output-text", "t"]].concat();
    let generate = [&["generate"], &all[..], &["--thinking", "--batch-size", "8"]].concat();
    for args in [plan, generate] {
        let busy = busy(&dir, &args);
        busy.interrupt();
        let (code, rest) = busy.end();
        assert_eq!(code, Some(130), "{rest}");
        assert!(rest.ends_with("press Ctrl-C again to stop at once\nstopped\n"), "{rest}");
        assert!(dir.files().is_empty(), "{:?}", dir.files());
    }
}

/// The file of a speech grows while the speech is made.
#[test]
fn a_speech_that_is_stopped_leaves_no_file() {
    let dir = Dir::new();
    let text = "The sea is calm tonight. ".repeat(300);
    let short = ["--max-new-tokens", "8", "--max-text-tokens-per-segment", "12", "--seed", "4"];
    let args = [&["speak", &text, "--model", "tiny-speech", "-o", "a.wav"], &short[..]].concat();
    for presses in [1, 2] {
        let busy = Running::start(&mut dir.command(&args), Stdio::null());
        wait_until("there is sound", || !dir.files().is_empty());
        (0..presses).for_each(|_| busy.interrupt());
        let (code, rest) = busy.end();
        assert_eq!(code, Some(130), "{rest}");
        assert!(dir.files().is_empty(), "{:?}", dir.files());
    }
}

/// The first song is written while the second, long one is decoded in small tiles.
#[test]
fn songs_that_are_finished_are_named_when_the_others_are_not() {
    let dir = Dir::new();
    dir.write("a.json", r#"{"caption": "rain", "duration": 1, "seed": 7}"#);
    dir.write("b.json", r#"{"caption": "sun", "duration": 150, "seed": 7, "vae_chunk": 64}"#);
    let told = File::create(dir.path("told")).expect("a file");
    let two = ["generate", "--model", "tiny", "--request", "a.json", "--request", "b.json"];
    let busy = Running::start(&mut dir.command(&[&two[..], &["--json"]].concat()), told);
    wait_until("there is a song", || dir.path("a.wav").exists());
    busy.interrupt();
    let (code, rest) = busy.end();
    assert_eq!(code, Some(130), "{rest}");
    assert!(
        rest.contains("1.0 s of audio in") && rest.contains("note: not made: `b.wav`"),
        "{rest}"
    );
    assert_eq!(dir.files(), ["a.json", "a.wav", "b.json", "told"]);
    let objects = dir.json("told");
    assert_eq!(objects[0]["outputs"][0]["path"], "a.wav");
    assert_eq!(objects[1]["outputs"], serde_json::json!([]));
    assert_eq!(objects[1]["error"][0], "stopped");
}
