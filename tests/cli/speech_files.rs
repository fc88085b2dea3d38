//! Speech models in qwentts.cpp's files, through the command line.

use crate::{
    Dir,
    foreign::{Weights, write_qwentts_codec, write_qwentts_talker, write_rounded_release},
};

const TEXT: [&str; 8] =
    ["speak", "Hello there.", "--voice", "ryan", "--max-new-tokens", "8", "--seed", "4"];

#[test]
fn a_directory_of_two_gguf_files_is_a_speech_model() {
    let dir = Dir::new();
    write_qwentts_talker(&dir.path("models"), "CustomVoice", Weights::Q8_0);
    write_qwentts_codec(&dir.path("models"), Weights::Q8_0);
    write_rounded_release(&dir.path("released"), "CustomVoice", Weights::Q8_0);
    let speak = |more: &[&str]| dir.run(&[&TEXT[..], more].concat()).succeeded();
    let file = "models/qwen-talker-0.6b-customvoice-Q8_0.gguf";
    let ways = [
        &["--model", "./models"][..],
        &["--model", file],
        &["--model", "qwen3-tts-0.6b-custom", "--models-dir", "models"],
        &["--models-dir", "models"],
    ];
    for (dtype, ways) in [("f32", &ways[..]), ("q8", &ways[..1])] {
        let expected = format!("released-{dtype}.wav");
        speak(&["--model", "./released", "--dtype", dtype, "-o", &expected]);
        for (index, &model) in ways.iter().enumerate() {
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
