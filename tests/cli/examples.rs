//! The scripts of `examples/`.
#![cfg(unix)]

use std::{fs, path::Path, process::Command};

use crate::{DRAWS, Dir, Run, names, take_environment};

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../examples"))
}

fn run(dir: &Dir, script: &str, args: &[&str]) -> Run {
    let program = dir.command(args);
    let mut command = Command::new("bash");
    command.arg(folder().join(script)).args(args).current_dir(dir.path("."));
    take_environment(&mut command, &program);
    command
        .env("ACESTEP", program.get_program())
        .env("FORMAT_FLAGS", format!("--model tiny --seed 1 {}", DRAWS.join(" ")));
    Run::of(&mut command)
}

#[test]
fn every_way_of_working_makes_a_song() {
    let scripts = ["dit-only", "format", "full", "partial", "simple"];
    let present =
        names(folder()).into_iter().filter_map(|name| Some(name.strip_suffix(".sh")?.to_owned()));
    assert_eq!(present.collect::<Vec<_>>(), scripts);
    let song = ["--model", "tiny", "--duration", "1", "--seed", "1", "--json", "-o", "a.wav"];
    let thinking = [&song[..], &["--thinking"], &DRAWS].concat();
    for script in scripts {
        let dir = Dir::new();
        let without = script == "dit-only";
        let args = if without { &song[..] } else { &thinking };
        let run = run(&dir, &format!("{script}.sh"), args).succeeded();
        // In scripts of two steps, the first step prints its file name to standard output.
        let json = &run.text()[run.text().find('{').expect("JSON")..];
        let object: serde_json::Value = serde_json::from_str(json).expect("one JSON object");
        assert_eq!(object["language_model"].is_null(), without, "{script}: {json}");
        let reader = hound::WavReader::new(std::io::Cursor::new(dir.read("a.wav"))).expect("a WAV");
        assert_eq!(reader.duration(), 48_000, "{script}");
        assert_eq!(dir.path("format-plan.json").exists(), script == "format");
    }
}

#[test]
fn the_page_names_every_script_and_every_script_its_request() {
    let page = fs::read_to_string(folder().join("README.md")).expect("a page");
    for name in names(folder()) {
        if let Some(way) = name.strip_suffix(".sh") {
            assert!(page.contains(&format!("`{name}`")), "{name}");
            let script = fs::read_to_string(folder().join(&name)).expect("a script");
            assert!(script.contains(&format!("$here/{way}.json")), "{name}");
        }
    }
}
