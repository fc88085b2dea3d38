//! `speak` with a dialogue model: a script, its words, recordings of the speakers.

use std::{io::Write as _, process::Stdio};

use crate::{Dir, Run, goldens, hub::Hub, models::User, speak::base};

/// The tiny model.
fn model() -> String {
    goldens("checkpoints_dia2/Dia2-tiny-alt").display().to_string()
}

/// A script for the tiny model, at most 40 steps.
fn dialogue(dir: &Dir, args: &[&str]) -> Run {
    let short = ["speak", "--model", &model(), "--max-steps", "40", "--seed", "4"];
    dir.run(&[&short[..], args].concat())
}

#[test]
fn a_script_is_spoken_and_its_words_have_times() {
    let dir = Dir::new();
    let script = "[S1] hello there, [S2] my friend";
    let args = [script, "--json", "-o", "a.wav", "--timestamps", "a.srt"];
    let object = dialogue(&dir, &args).succeeded().json();
    assert_eq!(object["sample_rate"], 24_000);
    let words: Vec<_> = object["words"].as_array().expect("words").iter().collect();
    assert_eq!(words.first().expect("a word")["text"], "hello");
    let srt = dir.text("a.srt");
    assert!(srt.starts_with("1\n00:00:0") && srt.contains("\nhello\n"), "{srt}");
    assert_eq!(srt.matches(" --> ").count(), words.len());
    let again = dialogue(&dir, &[script, "--json", "-o", "b.wav"]).succeeded().json();
    assert_eq!(again["codes"], object["codes"]);
    assert_eq!(dir.read("a.wav"), dir.read("b.wav"));
    let other = [script, "--json", "-o", "c.wav", "--cfg-filter-k", "2"];
    assert_ne!(dialogue(&dir, &other).succeeded().json()["codes"], object["codes"]);
}

/// The first frame is complete after more than three steps. The times of an earlier run stay.
#[test]
fn a_speech_without_sound_writes_nothing_and_names_the_limit() {
    let dir = Dir::new();
    dir.write("a.srt", "earlier");
    let files = ["-o", "a.wav", "--timestamps", "a.srt", "--force"];
    let short = ["speak", "hello", "--model", &model(), "--max-steps", "3", "--seed", "4"];
    dir.run(&[&short[..], &files].concat())
        .failed(1)
        .says("the model did not end within `--max-steps`")
        .says("the speech ended before the first frame: there is nothing to write")
        .says("hint: raise the limit that the note names");
    assert_eq!(dir.read("a.srt"), b"earlier");
    assert!(!dir.path("a.wav").exists());
}

/// The lines come one by one, after a byte-order mark; the sound is as for the whole text.
#[test]
fn a_script_that_arrives_line_by_line_sounds_as_the_whole() {
    let dir = Dir::new();
    let script = "[S1] hello there, my friend\n[S2]\nhow are you today";
    dir.write("talk.txt", script);
    dialogue(&dir, &["@talk.txt", "-o", "a.wav"]).succeeded();
    let short = ["speak", "-", "--follow", "--model", &model(), "--max-steps", "40", "--seed", "4"];
    let mut command = dir.command(&[&short[..], &["-o", "b.wav"]].concat());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all("\u{feff}".as_bytes()).expect("it reads");
    for line in script.lines() {
        writeln!(stdin, "{line}\n").expect("it reads");
    }
    drop(stdin);
    Run::from(child.wait_with_output().expect("it ends")).succeeded();
    assert_eq!(dir.read("a.wav"), dir.read("b.wav"));
    dialogue(&dir, &["hello", "--follow"]).failed(2).says("reads the text from standard input");
    dir.run_with_stdin(&[&short[..], &["-o", "c.wav"]].concat(), b"hello\n\xe9t\xe9\n")
        .failed(1)
        .says("is not UTF-8 text: line 2 ");
    let other = ["speak", "-", "--follow", "--model", "tiny-speech", "-o", "c.wav"];
    dir.run(&other).failed(2).says("`tiny-speech` takes no text while it speaks");
}

/// The lines wait in the pipe meanwhile.
#[test]
fn lines_that_arrive_before_the_model_is_pulled_are_spoken() {
    let hub = Hub::new();
    let checkpoints = goldens("checkpoints_dia2");
    for (repo, name) in [("nari-labs/Dia2-1B", "Dia2-tiny-alt"), ("kyutai/mimi", "mimi")] {
        for file in crate::names(&checkpoints.join(name)) {
            let content = std::fs::read(checkpoints.join(name).join(&file)).expect("a file");
            hub.file(repo, &file, content);
        }
    }
    let user = User::of(hub);
    user.dir.write("talk.txt", "[S1] hello there, my friend\n[S2]\nhow are you today");
    let short = ["--model", "dia2-1b", "--max-steps", "40", "--seed", "4"];
    let follow = ["speak", "-", "--follow", "--yes", "-o", "a.wav"];
    let mut command = user.command(&[&follow[..], &short].concat());
    command.stdin(std::fs::File::open(user.dir.path("talk.txt")).expect("a file"));
    Run::of(&mut command).succeeded();
    let whole = ["speak", "@talk.txt", "--offline", "-o", "b.wav"];
    user.run(&[&whole[..], &short].concat()).succeeded();
    assert_eq!(user.dir.read("a.wav"), user.dir.read("b.wav"));
}

/// The script goes on after the recordings, with and without their files.
#[test]
fn the_voices_of_two_speakers_are_kept() {
    let dir = Dir::new();
    let run = |args: &[&str]| dir.run_at_home(args);
    let sound = ["speak", "Hello.", "--model", "tiny-speech", "--max-new-tokens", "20"];
    run(&[&sound[..], &["--seed", "4", "-o", "me.wav"]].concat()).succeeded();
    dir.write("me.json", r#"[{"text": "hello", "start": 0.1, "end": 0.4}]"#);
    let model = model();
    let make = ["voice", "make", "both", "--model", &model, "--speaker-1", "me.wav"];
    let both = [&make[..], &["--speaker-2", "me.wav", "--words-2", "me.json"]].concat();
    run(&both).succeeded().says("two speakers, with its words, by Dia2-tiny-alt");
    let show = run(&["voice", "show", "both", "--json"]).succeeded().json();
    assert_eq!(show["transcripts"], serde_json::json!(["hello", "hello"]));
    for file in ["me.wav", "me.json"] {
        std::fs::remove_file(dir.path(file)).expect("a file");
    }
    let speak = |more: &[&str]| {
        let short = ["speak", "[S1] hello there", "--model", &model, "--max-steps", "20"];
        run(&[&short[..], &["--seed", "4", "--voice", "both"], more].concat())
    };
    let first = speak(&["-o", "a.wav"]).succeeded();
    assert!(!first.stderr.contains("read anew"), "{}", first.stderr);
    speak(&["-o", "b.wav"]).succeeded();
    assert_eq!(dir.read("a.wav"), dir.read("b.wav"));
    // In another type the recordings are read anew from their codes.
    speak(&["--dtype", "f32", "-o", "c.wav"]).succeeded().says("its recordings are read anew");
    speak(&["--speaker-1", "me.wav", "-o", "d.wav"]).failed(2).says("cannot be used with");
    run(&["speak", "hello", "--voice", "both", "--model", &base(), "-o", "e.wav"])
        .failed(1)
        .says("it was made with a model of another family");
    run(&["voice", "make", "x", "--model", &model, "--reference", "a.wav"])
        .failed(2)
        .says("takes no `--reference`");
}

#[test]
fn recordings_of_speakers_need_their_words() {
    let dir = Dir::new();
    let sound =
        ["Hello there.", "--model", "tiny-speech", "--max-new-tokens", "20", "-o", "me.wav"];
    dir.run(&[&["speak", "--seed", "4"][..], &sound].concat()).succeeded();
    let with = ["[S1] hello", "--prefix-speaker-1", "me.wav", "-o", "a.wav"];
    dialogue(&dir, &with).failed(2).says("me.json");
    dir.write("me.json", r#"[{"text": "hello", "start": 0.1, "end": 0.4}]"#);
    dialogue(&dir, &with).succeeded();
    let both = ["[S1] hello", "--speaker-2", "me.wav", "-o", "b.wav"];
    dialogue(&dir, &both).failed(2).says("--speaker-1");
}

#[test]
fn scripts_without_words_and_flags_of_another_family_are_refused() {
    let dir = Dir::new();
    for script in ["", "[S1] [S2]", ": :"] {
        dialogue(&dir, &[script]).failed(2).says("there is nothing to say in the script");
    }
    let run = dialogue(&dir, &["hello", "--top-p", "0.5"]).failed(2);
    let run = run.says("takes no `--top-p`").says("it takes `--cfg-scale`, ");
    assert!(!run.stderr.contains("snapshot") && !run.stderr.contains("prefix_"), "{}", run.stderr);
    let two = dialogue(&dir, &["hello", "--lines", "--batch-size", "2"]).failed(2);
    two.says("takes no `--batch-size`").says("it takes `--cfg-scale`, ");
    dialogue(&dir, &["hello", "--cfg-scale", "nan"]).failed(2).says("not a finite number");
    let times = ["speak", "hello", "--model", &base(), "--timestamps", "a.srt"];
    dir.run(&times).failed(2).says("does not tell the times of words");
    let scale = ["speak", "hello", "--model", "tiny-speech", "--cfg-scale", "2"];
    dir.run(&scale).failed(2).says("`tiny-speech` takes no `--cfg-scale`");
}
