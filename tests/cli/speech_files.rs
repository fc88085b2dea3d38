//! Speech models in qwentts.cpp's files, through the command line.

use std::path::Path;

use crate::{
    Dir,
    foreign::{
        Weights, write_gguf_models, write_qwentts_codec, write_qwentts_talker,
        write_rounded_release,
    },
};

const TEXT: [&str; 8] =
    ["speak", "Hello there.", "--voice", "ryan", "--max-new-tokens", "8", "--seed", "4"];

/// Writes a talker and the codec.
fn write(to: &Path, weights: Weights) {
    write_qwentts_talker(to, "CustomVoice", weights);
    write_qwentts_codec(to, weights);
}

#[test]
fn a_directory_of_two_gguf_files_is_a_speech_model() {
    let dir = Dir::new();
    write(&dir.path("models"), Weights::Q8_0);
    write_rounded_release(&dir.path("released"), "CustomVoice", Weights::Q8_0);
    let speak = |more: &[&str]| dir.run(&[&TEXT[..], more].concat()).succeeded();
    let file = "models/qwen-talker-0.6b-customvoice-Q8_0.gguf";
    let types = ["f32", "q8"];
    for dtype in types {
        let expected = format!("released-{dtype}.wav");
        speak(&["--model", "./released", "--dtype", dtype, "-o", &expected]);
        for (index, model) in [
            &["--model", "./models"][..],
            &["--model", file],
            &["--model", "qwen3-tts-0.6b-custom", "--models-dir", "models"],
            &["--models-dir", "models"],
        ]
        .into_iter()
        .enumerate()
        {
            let made = format!("{index}-{dtype}.wav");
            let run = speak(&[model, &["--dtype", dtype, "-o", &made]].concat());
            run.says("Qwen3-TTS-12Hz-0.6B-CustomVoice on cpu");
            assert!(dir.read(&made) == dir.read(&expected), "{model:?} {dtype}");
        }
    }
    let doctor = dir.run(&["doctor", "--models-dir", "models", "--no-song"]);
    let line = "qwen-talker-0.6b-customvoice-Q8_0.gguf (GGUF, Q8_0)";
    assert!(doctor.text().contains(line), "{}", doctor.text());
}

#[test]
fn songs_and_speech_in_gguf_files_are_told_apart() {
    let dir = Dir::new();
    write(&dir.path("speech"), Weights::F32);
    write_gguf_models(&dir.path("songs"), Weights::F32);
    let speak = |model: &str| dir.run(&[&TEXT[..], &["--model", model]].concat()).failed(1);
    speak("songs/acestep-v15-turbo-F32.gguf")
        .says("it holds a diffusion transformer of ACE-Step 1.5, and no talker")
        .says("qwen-talker-0.6b-base-Q8_0.gguf");
    speak("./songs").says("holds no talker").says("it holds the Oobleck audio autoencoder");
    let song =
        |model: &str| dir.run(&["generate", "rain", "--no-thinking", "--model", model]).failed(1);
    song("speech/qwen-talker-0.6b-customvoice-F32.gguf")
        .says("it holds the talker of a Qwen3-TTS model, which makes no songs")
        .says("acestep-dit");
    song("./speech")
        .says(
            "speech` holds GGUF files (`qwen-talker-0.6b-customvoice-F32.gguf` is the talker of a",
        )
        .says("not a model");
    std::fs::remove_file(dir.path("speech/qwen-tokenizer-12hz-F32.gguf")).expect("removed");
    speak("./speech")
        .says("holds no codec, and none that fits was found")
        .says("put the codec of qwentts.cpp, `qwen-tokenizer-12hz-F32.gguf`, into `");
}
