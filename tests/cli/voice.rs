//! `voice`: voices of recordings that are kept.

use std::fs;

use serde_json::{Value, json};

use crate::{
    Dir, Run,
    server::{Server, id},
    speak::base,
};

/// A place with a recording.
fn dir() -> Dir {
    let dir = Dir::new();
    dir.tiny(&["rain", "-o", "me.wav"]).succeeded();
    dir
}

fn make(dir: &Dir, name: &str, more: &[&str]) -> Run {
    let model = base();
    let make = ["voice", "make", name, "--reference", "me.wav", "--model", &model];
    dir.run_at_home(&[&make[..], more].concat())
}

fn speak(dir: &Dir, more: &[&str]) -> Run {
    let model = base();
    let short = ["speak", "fine", "--model", &model, "--max-new-tokens", "6", "--seed", "4"];
    dir.run_at_home(&[&short[..], more].concat())
}

#[test]
fn a_voice_does_not_replace_the_settings() {
    let dir = Dir::new();
    let kept = "home/acestep/voices/me.safetensors";
    fs::create_dir_all(dir.path("home/acestep/voices")).expect("a folder");
    dir.write(kept, "threads = 1");
    let more = ["--config", kept, "--force"];
    make(&dir, "me", &more).failed(2).says("me.safetensors` would be written over itself");
    assert_eq!(dir.read(kept), b"threads = 1");
}

/// The same samples as with the recording, without it.
#[test]
fn a_kept_voice_speaks_as_its_recording() {
    let dir = dir();
    for (name, words) in [("plain", &[][..]), ("whole", &["--transcript", "the rain"])] {
        let [file, kept] = ["a", "b"].map(|own| format!("{name}_{own}.wav"));
        let reference = [&["--reference", "me.wav", "-o", &file], words].concat();
        speak(&dir, &reference).succeeded();
        let run = make(&dir, name, words).succeeded();
        let path = run.text();
        assert!(path.ends_with(&format!("voices/{name}.safetensors\n")), "{path}");
        let run = speak(&dir, &["--voice", name, "-o", &kept]).succeeded();
        assert!(!run.stderr.contains("read anew"), "{}", run.stderr);
        let bytes = |name: &str| fs::read(dir.path(name)).expect("a sound");
        assert_eq!(bytes(&file), bytes(&kept), "{name}");
    }
    let other = speak(&dir, &["--voice", "whole", "--dtype", "f32", "-o", "c.wav"]).succeeded();
    other.says("note: the state of the voice cannot be used").says("read anew");
    let other = speak(&dir, &["--voice", "whole", "--language", "french", "-o", "d.wav"]);
    other.succeeded().says("it was made for language auto");
}

/// The state of the voice is of that language too, so it is used.
#[test]
fn a_kept_voice_speaks_its_own_language_if_none_is_given() {
    let dir = dir();
    make(&dir, "me", &["--transcript", "the rain", "--language", "French"]).succeeded();
    let speak = |more: &[&str], output: &str| {
        let run = speak(&dir, &[more, &["-o", output]].concat()).succeeded();
        (fs::read(dir.path(output)).expect("a sound"), run.stderr.contains("read anew"))
    };
    let recording = ["--reference", "me.wav", "--transcript", "the rain", "--language"];
    let of = |language: &'static str| [&recording[..], &[language]].concat();
    let (french, auto) = (speak(&of("french"), "a.wav"), speak(&of("auto"), "b.wav"));
    assert_ne!(french, auto);
    assert_eq!(speak(&["--voice", "me"], "c.wav"), french);
    // A language that is asked for is spoken, without the state.
    let asked = speak(&["--voice", "me", "--language", "auto"], "d.wav");
    assert_eq!(asked, (auto.0, true));
}

#[test]
fn voices_are_listed_shown_and_removed() {
    let dir = dir();
    dir.run_at_home(&["voice", "list"]).succeeded().says("no voice is kept yet");
    make(&dir, "me", &["--transcript", "the rain", "--language", "FR"]).succeeded();
    let list = dir.run_at_home(&["voice", "list"]).succeeded().text().to_owned();
    assert!(list.starts_with("me ") && list.contains("with its words"), "{list}");
    let show = dir.run_at_home(&["voice", "show", "me", "--json"]).succeeded().json();
    assert_eq!((&show["language"], &show["transcript"]), (&"french".into(), &"the rain".into()));
    assert!(show["frames"].as_u64().is_some_and(|frames| frames > 1), "{show}");
    make(&dir, "me", &[]).failed(1).says("exists already").says("--force");
    make(&dir, "me", &["--force"]).succeeded();
    let show = dir.run_at_home(&["voice", "show", "me"]).succeeded().text().to_owned();
    assert!(show.contains("words      none"), "{show}");
    dir.run_at_home(&["voice", "remove", "me", "you"]).failed(2).says("no voice is called `you`");
    dir.run_at_home(&["voice", "remove", "me", "me"]).succeeded().says("me is deleted");
    dir.run_at_home(&["voice", "show", "me"]).failed(2).says("no voice is called `me`");
}

/// The model of the voice is named, and not one that takes no recording.
#[test]
fn an_absent_model_of_a_voice_is_named() {
    let dir = dir();
    let pull = "model pull qwen3-tts-0.6b-base";
    let absent = |run: Run| {
        let run = run.failed(1).says(pull);
        assert!(!run.stderr.contains("tiny-speech"), "{}", run.stderr);
    };
    absent(dir.run_at_home(&["voice", "make", "you", "--reference", "me.wav"]));
    // A model is worth its download only if the recording is there.
    for args in [
        &["voice", "make", "you", "--reference", "no.wav"][..],
        &["speak", "fine", "--reference", "no.wav"],
        &["understand", "no.wav"],
        &["codec", "encode", "no.wav"],
    ] {
        dir.run_at_home(args).failed(1).says("cannot read `no.wav`");
    }
    make(&dir, "me", &[]).succeeded();
    absent(dir.run_at_home(&["speak", "fine", "--voice", "me"]));
    for (args, says) in [
        (["speak", "a", "--model", "turbo"], "`turbo` makes songs, not speech"),
        (["generate", "a", "--model", "tiny-speech"], "`tiny-speech` makes speech, not songs"),
    ] {
        let other = if args[0] == "speak" { "generate" } else { "speak" };
        dir.run_at_home(&args)
            .failed(1)
            .says(says)
            .says(&format!("acestep {other} --model {}", args[3]));
    }
}

#[test]
fn wrong_names_models_and_files_are_refused() {
    let dir = dir();
    for name in ["a/b", "", "..", "a b"] {
        make(&dir, name, &[]).failed(2).says("cannot be the name of a voice");
    }
    make(&dir, "Serena", &[]).failed(2).says("is a voice of the model `tiny-speech`");
    let named = ["voice", "make", "me", "--reference", "me.wav", "--model", "tiny-speech"];
    dir.run_at_home(&named).failed(2).says("takes no `--reference`");
    speak(&dir, &["--voice", "me"]).failed(2).says("no voice is called `me`");
    speak(&dir, &["--voice", "me", "--reference", "me.wav"]).failed(2).says("cannot be used with");
    let path = make(&dir, "me", &[]).succeeded().text().to_owned();
    let path = path.trim();
    let bytes = fs::read(path).expect("the voice");
    fs::write(path, &bytes[..bytes.len() / 2]).expect("a cut voice");
    speak(&dir, &["--voice", "me"]).failed(1).says("cannot be used as a voice").says("hint: ");
    let list = dir.run_at_home(&["voice", "list"]).succeeded();
    assert!(list.text().contains("cannot be used as a voice"), "{}", list.text());
    make(&dir, "me", &["--force"]).succeeded();
    let named = ["speak", "fine", "--model", "tiny-speech", "--voice", "me"];
    dir.run_at_home(&named).failed(2).says("`me` is a kept voice").says("--model");
    speak(&dir, &["--voice", "mee"]).failed(2).says("did you mean `me`?");
}

/// A recording that a client sends is the same voice as on the command line.
#[test]
fn a_voice_is_made_and_removed_over_http() {
    let dir = dir();
    make(&dir, "own", &["--transcript", "the rain"]).succeeded();
    speak(&dir, &["--voice", "own", "-o", "own.wav"]).succeeded();
    let serve = ["serve", "--port", "0", "--data-dir", "jobs", "--model", "tiny"];
    let model = base();
    let mut command = dir.command(&[&serve[..], &["--speech-model", &model]].concat());
    command.env("XDG_DATA_HOME", dir.path("home"));
    let server = Server::run(command);
    let recording = dir.read("me.wav");
    let send = |name: &str| {
        let texts = [("name", name), ("ref_text", "the rain")];
        server.form("/v1/audio/voices", &texts, ("audio_sample", &recording))
    };
    let voice = send("sent");
    assert_eq!((&voice["id"], &voice["transcripts"]), (&json!("sent"), &json!(["the rain"])));
    assert_eq!(send("sent")["error"]["code"], "voice_exists");
    assert_eq!(send("../sent")["error"]["param"], "name");
    let request = json!({ "text": "fine", "voice": "sent", "seed": 4, "max_new_tokens": 6 });
    let speak = json!({ "kind": "speak", "request": request });
    let job = server.submit("?wait=60", &speak);
    assert_eq!(job["state"], "done", "{job:#}");
    let sound = server.get(&format!("/v1/jobs/{}/tracks/1", id(&job)));
    assert!(sound == dir.read("own.wav"), "another voice");
    let removed = server.delete("/v1/audio/voices/sent");
    assert_eq!(removed["deleted"], true, "{removed:#}");
    assert!(!dir.path("home/acestep/voices/sent.safetensors").exists());
    let refused: Value = server.submit("", &speak);
    assert_eq!(refused["error"]["code"], "voice_not_found");
}
