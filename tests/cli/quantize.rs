//! `model quantize`: weights in int8 on disk, of every family.

use std::fs;

use crate::{Dir, Run, goldens};

/// Copies a directory of the goldens.
fn copy(dir: &Dir, from: &str) {
    let from = goldens(from);
    crate::copy(&from, &dir.path(from.file_name().expect("a name")));
}

/// Makes a sound in int8 before its model is quantised, and after; and once more with a file that
/// went wrong, which shows that it is read.
fn check(dir: &Dir, model: &str, make: &[&str], files: &[&str]) {
    let run = |output: &str| {
        let more = ["--model", model, "--dtype", "q8", "--seed", "4", "-o", output];
        dir.run(&[make, &more].concat())
    };
    run("before.wav").succeeded();
    let written = dir.run(&["model", "quantize", model]).succeeded();
    let file = |file: &&str| format!("{}/{file} · ", &model[1..]);
    let expected: Vec<String> = files.iter().map(file).collect();
    let lines: Vec<&str> = written.text().lines().collect();
    let fits = |(line, part): (&&str, &String)| line.contains(part.as_str());
    assert_eq!(lines.len(), files.len(), "{lines:?}");
    assert!(lines.iter().zip(&expected).all(fits), "{lines:?}");
    run("after.wav").succeeded();
    assert!(dir.read("after.wav") == dir.read("before.wav"), "{model}");

    let path = dir.path(model).join(files[0]);
    let whole = fs::read(&path).expect("a file");
    let mut other = whole.clone();
    let at = other.len() / 2;
    other[at..].fill(0x11);
    fs::write(&path, other).expect("changed");
    let changed = run("changed.wav");
    let is_heard =
        !dir.path("changed.wav").exists() || dir.read("changed.wav") != dir.read("before.wav");
    assert!(is_heard, "{model}: {}", changed.stderr);
    fs::write(&path, &whole[..whole.len() / 2]).expect("cut");
    run("cut.wav").failed(1).says(files[0]).says("is cut").says("quantise the model again");
    assert!(!dir.path("cut.wav").exists());
    for made in ["before.wav", "after.wav", "changed.wav"] {
        // The last one may not be there.
        let _ = fs::remove_file(dir.path(made));
    }
}

#[test]
fn songs_and_their_plans_are_the_same_from_quantised_files() {
    let dir = Dir::new();
    dir.checkpoint();
    let song = ["generate", "rain", "--duration", "1", "--no-tags"];
    let files = ["model.diffusion-transformer.q8"];
    check(&dir, "./acestep-v15-turbo", &[&song[..], &["--no-thinking"]].concat(), &files);
}

#[test]
fn a_plan_is_the_same_from_quantised_files() {
    let dir = Dir::new();
    dir.language_model();
    // `--lm-model` names the language model; the codes are what it makes.
    let lm = "./acestep-5Hz-lm-0.6B";
    let plan = |output: &str| {
        let args = ["plan", "rain", "--model", "tiny", "--lm-model", lm, "--dtype", "q8"];
        let more = ["--duration", "2", "--seed", "4", "--lm-seed", "4", "--json", "-o", output];
        dir.run(&[&args[..], &more].concat())
    };
    plan("before.json").succeeded();
    dir.run(&["model", "quantize", lm]).succeeded();
    plan("after.json").succeeded();
    assert!(dir.read("after.json") == dir.read("before.json"));
    let path = dir.path(lm).join("model.language-model.q8");
    let whole = fs::read(&path).expect("a file");
    fs::write(&path, &whole[..whole.len() / 2]).expect("cut");
    plan("cut.json").failed(1).says("model.language-model.q8").says("is cut");
}

#[test]
fn speech_is_the_same_from_quantised_files() {
    let dir = Dir::new();
    for model in ["Qwen3-TTS-12Hz-0.6B-CustomVoice", "Qwen3-TTS-Tokenizer-12Hz"] {
        copy(&dir, &format!("checkpoints_qwen3_tts/{model}"));
    }
    let qwen = "./Qwen3-TTS-12Hz-0.6B-CustomVoice";
    let speak = ["speak", "Hello there."];
    let short = ["--voice", "ryan", "--max-new-tokens", "8"];
    check(&dir, qwen, &[&speak[..], &short].concat(), &["model.talker.q8"]);

    for model in ["Dia2-tiny-alt", "mimi"] {
        copy(&dir, &format!("checkpoints_dia2/{model}"));
    }
    let files = ["model.backbone.q8", "model.depformer.q8"];
    check(&dir, "./Dia2-tiny-alt", &[&speak[..], &["--max-steps", "40"]].concat(), &files);
    // A name among the models. The family whose files they are says what is wrong with them.
    fs::create_dir(dir.path("models")).expect("a folder");
    for model in ["Dia2-tiny-alt", "mimi"] {
        fs::rename(dir.path(model), dir.path("models").join(model)).expect("a folder");
    }
    let run = || dir.run(&["model", "quantize", "Dia2-tiny-alt", "--models-dir", "models"]);
    run().succeeded();
    dir.write("models/Dia2-tiny-alt/model.safetensors", "cut");
    run().failed(1).says("Dia2-tiny-alt/model.safetensors` is cut");

    let [magpie, codec] =
        ["magpie_tts_multilingual_357m", "nemo-nano-codec-22khz-1.89kbps-21.5fps"];
    for model in [magpie, codec] {
        copy(&dir, &format!("checkpoints_magpie/{model}"));
    }
    let short = ["--voice", "2", "--max-decoder-steps", "12"];
    let file = |network: &str| format!("{magpie}.{network}.q8");
    let files = ["text-encoder", "decoder", "local-transformer"].map(file);
    let files = files.each_ref().map(String::as_str);
    check(&dir, &format!("./{magpie}"), &[&speak[..], &short].concat(), &files);
}

#[test]
fn a_model_without_a_folder_or_a_name_is_refused() {
    let dir = Dir::new();
    let quantize = |name: &str| -> Run { dir.run(&["model", "quantize", name]) };
    for name in ["tiny", "tiny-speech", "demo"] {
        quantize(name).failed(1).says("is part of the program");
    }
    quantize("turbo").failed(1).says("model pull turbo");
    quantize("lm-0.6b").failed(1).says("model pull lm-0.6b");
    quantize("turbot").failed(2).says("no model is called `turbot`").says("did you mean `turbo`?");
    for name in ["nanocodec", "vae"] {
        quantize(name).failed(2).says(&format!("no network of `{name}` runs in int8"));
    }
    // Other names of released models.
    quantize("1.7b").failed(1).says("model pull lm-1.7b");
    quantize("ACE-Step/acestep-v15-base").failed(1).says("model pull base");
    dir.run(&["model", "quantize"]).failed(2);
    assert_eq!(dir.files(), [""; 0]);
}
