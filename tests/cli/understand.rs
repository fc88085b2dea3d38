//! `understand`: metadata and codes of a song.

use serde_json::Value;

use crate::{DRAWS, Dir, Run};

/// Runs `understand` with a seed whose answer has few tokens.
fn understand(dir: &Dir, args: &[&str]) -> Run {
    dir.run(&[&["understand", "--model", "tiny", "--seed", "1"], &DRAWS[..], args].concat())
}

#[test]
fn a_song_is_read_back_as_a_request_that_makes_one() {
    let dir = Dir::new();
    dir.tiny(&["rain", "-o", "a.wav"]).succeeded();
    let run = understand(&dir, &["a.wav", "-o", "a.json", "--json"]).succeeded();
    let object = run.json();
    assert!(object["caption"].is_string() && object["lyrics"].is_string(), "{object}");
    assert_eq!(object["seed"], 1);
    assert!(object["bpm"].as_i64().is_some_and(|bpm| (30..=300).contains(&bpm)), "{object}");
    assert!(object["text"].as_str().is_some_and(|text| text.starts_with("<think>\n")));
    assert_eq!(object["language_model"]["model"], "tiny");
    // One second has five codes.
    assert_eq!(object["audio_codes"].as_str().expect("a text").split(',').count(), 5);
    let request = dir.json("a.json");
    for key in ["caption", "bpm", "audio_codes"] {
        assert_eq!(request[key], object[key], "{key}");
    }
    let args = ["generate", "--request", "a.json", "--model", "tiny", "--json", "-o", "b.wav"];
    let song = dir.run(&args).succeeded().json();
    assert_eq!(song["language_model"], Value::Null);
    assert_eq!(song["outputs"][0]["seconds"], 1.0);
}

#[test]
fn text_has_one_subject_a_line_and_is_the_same_for_a_seed() {
    let dir = Dir::new();
    let codes = ["--audio-codes", "5,17,9"];
    let run = understand(&dir, &codes).succeeded();
    let lines = |what: &str| run.text().lines().filter(|line| line.starts_with(what)).count();
    assert_eq!((lines("caption        "), lines("bpm            ")), (1, 1), "{}", run.text());
    assert_eq!(run.text(), understand(&dir, &codes).succeeded().text());
    for line in
        ["note: tiny is a random network: what it hears is", "tiny on cpu in bf16 · seed 1\n"]
    {
        assert!(run.stderr.contains(line), "{}", run.stderr);
    }
    dir.write("codes.txt", "5,17,9");
    let from_file = understand(&dir, &["--audio-codes", "@codes.txt", "-q"]).succeeded();
    assert_eq!((from_file.text(), &from_file.stderr[..]), (run.text(), ""));
}

#[test]
fn what_is_no_song_is_refused() {
    let dir = Dir::new();
    dir.write("notes.txt", "la la la");
    understand(&dir, &["notes.txt"])
        .failed(1)
        .says("error: cannot listen to `notes.txt`: it is no sound file that this program knows")
        .says("hint: WAV, AIFF, FLAC, MP3, Ogg Vorbis, Ogg Opus, M4A and AAC are read");
    understand(&dir, &["no.wav"]).failed(1).says("cannot read `no.wav`");
    understand(&dir, &["-"]).failed(1).says("hint: name a file: standard input is /dev/stdin");
    understand(&dir, &["."]).failed(1).says("`.`");
    dir.write("cut.wav", b"RIFF\x24\0\0\0WAVEfmt ");
    understand(&dir, &["cut.wav"]).failed(1).says("`cut.wav`");
    understand(&dir, &["--audio-codes", ""]).failed(2).says("`--audio-codes` has no codes in it");
    understand(&dir, &["--audio-codes", "5,x"]).failed(2).says("audio code 2 is `x`");
    understand(&dir, &["a.wav", "--audio-codes", "5"]).failed(2).says("cannot be used with");
    understand(&dir, &[]).failed(2).says("<SONG>");
    // It has no flags for codes or for a song's plan.
    for flag in ["--lm-cfg-scale=2", "--use-cot-metas", "--lm-prompt-style=open", "--thinking"] {
        understand(&dir, &["a.wav", flag]).failed(2).says("unexpected argument");
    }
}

#[test]
fn an_existing_request_is_kept_without_force() {
    let dir = Dir::new();
    dir.write("a.json", "mine");
    let args = ["--audio-codes", "5,17,9", "-o", "a.json"];
    understand(&dir, &args).failed(1).says("`a.json` exists already");
    assert_eq!(dir.read("a.json"), b"mine");
    understand(&dir, &[&args[..], &["--force"]].concat()).succeeded();
    assert_eq!(dir.json("a.json")["audio_codes"], "5,17,9");
}

#[test]
fn an_answer_that_does_not_end_is_an_error() {
    let dir = Dir::new();
    let run = understand(&dir, &["--audio-codes", "5,17,9", "--max-tokens", "4"]).failed(1);
    run.says("did not come to an end within 4 tokens").says("larger `--max-tokens`");
}

#[test]
fn the_request_does_not_replace_the_song_that_was_heard() {
    let dir = Dir::new();
    dir.tiny(&["rain", "-o", "a.wav"]).succeeded();
    let before = dir.read("a.wav");
    understand(&dir, &["a.wav", "-o", "./a.wav", "--force"])
        .failed(2)
        .says("`./a.wav` would be written over itself");
    assert_eq!(dir.read("a.wav"), before);
}

#[test]
fn a_reader_that_goes_loses_no_request() {
    let dir = Dir::new();
    let args = ["understand", "--model", "tiny", "--seed", "1", "--audio-codes", "5,17,9"];
    let mut command = dir.command(&[&args[..], &DRAWS, &["-o", "a.json"]].concat());
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let run = Run::of(command.stdout(writer)).succeeded();
    assert!(run.stderr.contains("request a.json"), "{}", run.stderr);
    assert_eq!(dir.json("a.json")["audio_codes"], "5,17,9");
}
