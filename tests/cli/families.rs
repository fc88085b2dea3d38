//! The server with a dialogue model and with Magpie TTS: the files of the command line.

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::{
    Dir, names,
    server::{Server, id},
};

/// The tiny models under the names of released ones.
const MODELS: [(&str, &str); 4] = [
    ("checkpoints_dia2/Dia2-tiny-alt", "Dia2-1B"),
    ("checkpoints_dia2/mimi", "mimi"),
    ("checkpoints_magpie/magpie_tts_multilingual_357m", "magpie_tts_multilingual_357m"),
    (
        "checkpoints_magpie/nemo-nano-codec-22khz-1.89kbps-21.5fps",
        "nemo-nano-codec-22khz-1.89kbps-21.5fps",
    ),
];

fn dir() -> Dir {
    let dir = Dir::new();
    let goldens = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/goldens");
    for (from, to) in MODELS {
        let (from, to) = (goldens.join(from), dir.path("models").join(to));
        fs::create_dir_all(&to).expect("a folder");
        for name in names(&from) {
            fs::copy(from.join(&name), to.join(&name)).expect("a copy");
        }
    }
    dir
}

fn run(dir: &Dir, args: &[&str]) {
    let mut command = dir.command(args);
    command.env("ACESTEP_MODELS_DIR", dir.path("models"));
    crate::Run::from(command.output().expect("it starts")).succeeded();
}

/// Row 11: the server is ready when the model was tried. Rows 1, 3, 5, 7 and 10: its files are opened before that. A
/// voice that is damaged is named.
#[test]
fn row_11_a_warm_server_speaks_a_dialogue_as_the_command_line_does() {
    let dir = dir();
    let mut command = dir.command(&[
        "serve",
        "--port",
        "0",
        "--data-dir",
        "data",
        "--model",
        "tiny",
        "--speech-model",
        "dia2-1b",
        "--warm",
        "dia2-1b",
    ]);
    command.env("ACESTEP_MODELS_DIR", dir.path("models"));
    command.env("XDG_DATA_HOME", dir.path("home"));
    let voices = dir.path("home").join("acestep/voices");
    fs::create_dir_all(&voices).expect("a folder");
    fs::write(voices.join("broken.safetensors"), "no voice").expect("written");
    let mut server = Server::run(command);
    let log = server.log_until(&["the model is warm", "dia2-1b"]);
    assert!(!log.contains("failed"), "{log}");
    let named = log.lines().find(|line| line.contains("a kept voice cannot be read"));
    assert!(named.is_some_and(|line| line.contains("broken")), "{log}");
    let constants = ["delays [2, 3, 3, 4, 4, 4, 4, 5]", "12.5 frames per second", "bos 64, pad 65"];
    assert!(constants.iter().all(|constant| log.contains(constant)), "{log}");
    let script = "[S1] hello there, [S2] my friend";
    let short = ["--max-steps", "40", "--seed", "4", "-o", "own.wav"];
    let speak = ["speak", script, "--model", "dia2-1b", "--timestamps", "own.srt"];
    run(&dir, &[&speak[..], &short[..]].concat());
    let request = json!({ "text": script, "max_steps": 40, "seed": 4, "timestamps": "srt", "chunk_frames": 2 });
    let job = server.submit("", &json!({ "kind": "speak", "request": request }));
    let streamed = server.get(&format!("/v1/jobs/{}/audio?format=pcm", id(&job)));
    let job = server.submit("?wait=60", &json!({ "kind": "speak", "request": request }));
    assert_eq!(job["state"], "done", "{job:#}");
    let output = |name: &str| server.get(&format!("/v1/jobs/{}/outputs/{name}", id(&job)));
    let own = dir.read("own.wav");
    assert!(output("1.wav") == own, "another file");
    assert!(streamed == own[44..], "{} bytes", streamed.len());
    assert!(output("1.words.srt") == dir.read("own.srt"), "other times");
    let names: Vec<&str> = job["outputs"]
        .as_array()
        .expect("outputs")
        .iter()
        .filter_map(|output| output["name"].as_str())
        .collect();
    let all = ["1.wav", "1.peaks.json", "1.words.json", "1.words.srt", "1.request.json"];
    assert_eq!(names, all);
    let request: Value = serde_json::from_slice(&output("1.request.json")).expect("JSON");
    assert_eq!((&request["text"], &request["seed"]), (&json!(script), &json!(4)));
    // Another family takes its place in memory.
    let short = ["--max-decoder-steps", "12", "--seed", "4", "-o", "magpie.wav"];
    let speak = ["speak", "The old dog.", "--model", "magpie-357m", "--voice", "2"];
    run(&dir, &[&speak[..], &short[..]].concat());
    let request = json!({
        "text": "The old dog.", "model": "magpie-357m", "voice": "2", "max_decoder_steps": 12, "seed": 4,
    });
    let job = server.submit("?wait=60", &json!({ "kind": "speak", "request": request }));
    let track = server.get(&format!("/v1/jobs/{}/tracks/1.wav", id(&job)));
    assert!(track == dir.read("magpie.wav"), "{job:#}");
    assert_eq!(job["resolved"]["language"], "en");
}

/// Magpie TTS alone: without a choice, by the name of its family, and in a directory of another name.
#[test]
fn magpie_is_found_without_a_choice_by_its_family_and_in_an_own_directory() {
    let dir = dir();
    let models = dir.path("models");
    for other in ["Dia2-1B", "mimi"] {
        fs::remove_dir_all(models.join(other)).expect("removed");
    }
    let speak = |model: &[&str], to: &str| {
        let text = ["speak", "The old dog.", "--max-decoder-steps", "4", "--seed", "4", "-o", to];
        run(&dir, &[&text[..], model].concat());
        dir.read(to)
    };
    let named = speak(&["--model", "magpie-357m"], "named.wav");
    assert!(named.len() > 44, "{}", named.len());
    assert!(speak(&[], "first.wav") == named, "another model");
    assert!(speak(&["--model", "Magpie"], "family.wav") == named, "another model");
    let renamed = fs::rename(models.join("magpie_tts_multilingual_357m"), models.join("mine"));
    renamed.expect("renamed");
    assert!(speak(&["--model", "mine"], "mine.wav") == named, "another model");
    let mut command = dir.command(&["speak", "a", "--model", "magpie-357"]);
    command.env("ACESTEP_MODELS_DIR", &models);
    let unknown = crate::Run::from(command.output().expect("it starts")).failed(1);
    unknown.says("did you mean `magpie-357m`?").says("dia2-2b").says("tiny-speech");
}
