//! The server with a dialogue model and with Magpie TTS: the files of the command line.

use std::fs;

use acestep_import::NemoArchive;
use serde_json::{Value, json};

use crate::{
    Dir, Run,
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
    for (from, to) in MODELS {
        crate::copy(&crate::goldens(from), &dir.path("models").join(to));
    }
    dir
}

/// Gives the voices of the archive names, as those of the release of July 2026 have.
fn name_voices(dir: &Dir) {
    let path = dir.path("models/magpie_tts_multilingual_357m/magpie_tts_multilingual_357m.nemo");
    let archive = NemoArchive::open(&path).expect("an archive");
    let member = |name: &str| archive.artefact(name).expect(name).to_vec();
    let config = String::from_utf8(member("model_config.yaml")).expect("UTF-8");
    let others = config.lines().filter_map(|line| Some(line.split_once("nemo:")?.1));
    let names = ["model_weights.ckpt"].into_iter().chain(others);
    let mut members: Vec<(&str, Vec<u8>)> = names.map(|name| (name, member(name))).collect();
    let voices = json!({ "Aria": 0, "Jason": 1, "John": 2, "Leo": 3, "Sofia": 4 });
    members.push(("speakers.json", voices.to_string().into_bytes()));
    let named = format!("{config}\nspeaker_map: nemo:speakers.json\n");
    members.push(("model_config.yaml", named.into_bytes()));
    let mut builder = tar::Builder::new(Vec::new());
    for (name, content) in members {
        let mut header = tar::Header::new_ustar();
        header.set_size(content.len() as u64);
        builder.append_data(&mut header, name, &content[..]).expect(name);
    }
    fs::write(&path, builder.into_inner().expect("an archive")).expect("written");
}

fn run(dir: &Dir, args: &[&str]) -> Run {
    Run::of(dir.command(args).env("ACESTEP_MODELS_DIR", dir.path("models")))
}

/// Row 11: the server is ready when the model was tried. Rows 1, 3, 5, 7 and 10: its files are opened before that. A
/// voice that is damaged is named.
#[test]
fn row_11_a_warm_server_speaks_a_dialogue_as_the_command_line_does() {
    let dir = dir();
    name_voices(&dir);
    let serve = ["serve", "--port", "0", "--data-dir", "data", "--model", "tiny"];
    let warm = ["--speech-model", "dia2-1b", "--warm", "dia2-1b"];
    let mut command = dir.command(&[&serve[..], &warm].concat());
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
    run(&dir, &[&speak[..], &short[..]].concat()).succeeded();
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
    let speak = ["speak", "The old dog.", "--model", "magpie-357m", "--voice", "leo"];
    run(&dir, &[&speak[..], &short[..]].concat()).succeeded();
    let request = json!({
        "text": "The old dog.", "model": "magpie-357m", "voice": "LEO", "max_decoder_steps": 12, "seed": 4,
    });
    let job = server.submit("?wait=60", &json!({ "kind": "speak", "request": request }));
    let track = server.get(&format!("/v1/jobs/{}/tracks/1.wav", id(&job)));
    assert!(track == dir.read("magpie.wav"), "{job:#}");
    assert_eq!(job["resolved"]["language"], "en");
    assert_eq!(job["resolved"]["voice"], "Leo");
}

/// Names are not case-sensitive. The settings that are typed in full are those of the archive.
#[test]
fn magpie_speaks_spanish_with_a_named_voice() {
    let dir = dir();
    name_voices(&dir);
    let usual = "--use-cfg true --apply-attention-prior true --attention-prior-epsilon 0.1 \
                 --attention-prior-lookahead-window 5 --start-prior-after-n-audio-steps 0 \
                 --ignore-finished-sentence-tracking true --min-generated-frames 4 \
                 --eos-detection-method argmax_or_multinomial_any --use-local-transformer true";
    let speak = |more: &str, to: &str| {
        let text = ["speak", "hola mundo", "--model", "magpie-357m", "--max-decoder-steps", "12"];
        let more = more.split_whitespace().chain(["--seed", "4", "-o", to]);
        run(&dir, &text.into_iter().chain(more).collect::<Vec<_>>()).succeeded();
        dir.read(to)
    };
    let named = speak("--voice sofia --language es", "named.wav");
    assert!(named.len() > 44, "{}", named.len());
    for (index, same) in ["", usual].iter().enumerate() {
        let made = speak(&format!("--voice 4 --language ES {same}"), &format!("same_{index}.wav"));
        assert!(made == named, "{same}");
    }
    let others = ["--language es", "--voice sofia", "--voice sofia --language es --use-cfg false"];
    for (index, other) in others.iter().enumerate() {
        assert!(speak(other, &format!("other_{index}.wav")) != named, "{other}");
    }
    let unknown = ["speak", "a", "--model", "magpie-357m", "--voice", "zebedee"];
    let unknown = run(&dir, &unknown).failed(2);
    unknown.says("the model has no voice `zebedee`").says("one of Aria, Jason, John, Leo, Sofia");
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
        run(&dir, &[&text[..], model].concat()).succeeded();
        dir.read(to)
    };
    let named = speak(&["--model", "magpie-357m"], "named.wav");
    assert!(named.len() > 44, "{}", named.len());
    assert!(speak(&[], "first.wav") == named, "another model");
    assert!(speak(&["--model", "Magpie"], "family.wav") == named, "another model");
    let renamed = fs::rename(models.join("magpie_tts_multilingual_357m"), models.join("mine"));
    renamed.expect("renamed");
    assert!(speak(&["--model", "mine"], "mine.wav") == named, "another model");
    let unknown = run(&dir, &["speak", "a", "--model", "magpie-357"]).failed(1);
    unknown.says("did you mean `magpie-357m`?").says("dia2-2b").says("tiny-speech");
}
