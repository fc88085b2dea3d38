//! LoRA training: from a folder of songs to a song with the adapter.

use std::fs;

use acestep_train::run::digest;
use serde_json::Value;

use crate::Dir;

/// Creates a folder `songs` with two short songs and their captions.
fn with_songs() -> Dir {
    let dir = Dir::new();
    fs::create_dir(dir.path("songs")).expect("a folder");
    for (seed, name) in [("1", "a"), ("2", "b")] {
        let file = format!("songs/{name}.wav");
        dir.tiny(&["drums", "--seed", seed, "-o", &file]).succeeded();
        dir.write(&format!("songs/{name}.caption.txt"), "drums in the rain");
    }
    dir
}

#[test]
fn an_adapter_is_learned_shown_and_sung_with() {
    let dir = with_songs();
    let learn = ["train", "lora", "songs", "--model", "tiny", "--epochs", "4"];
    let more = ["--rank", "2", "--learning-rate", "0.02", "--warmup-steps", "2", "--json"];
    let run = dir.run(&[&learn[..], &more].concat()).succeeded();
    let run = run.says("8 steps on 2 songs, loss ");
    let said = run.json();
    assert_eq!((&said["songs"], &said["steps"], &said["rank"]), (&2.into(), &8.into(), &2.into()));
    assert_eq!(said["alpha"], 4.0);
    assert_eq!(said["dropout"], 0.1);
    let config = dir.json("songs-lora/adapter_config.json");
    assert_eq!((&config["r"], &config["peft_type"]), (&2.into(), &"LORA".into()));

    let shown = dir.run(&["adapter", "show", "songs-lora", "--model", "tiny"]).succeeded();
    assert!(shown.text().contains("LoRA, rank 2, alpha 4"), "{}", shown.text());
    dir.tiny(&["rain", "--seed", "7", "-o", "plain.wav"]).succeeded();
    dir.tiny(&["rain", "--seed", "7", "-o", "own.wav", "--adapter", "songs-lora"]).succeeded();
    assert_ne!(dir.sound("plain.wav"), dir.sound("own.wav"));

    // The same seed gives the same adapter, and files are replaced only with --force.
    let first = dir.read("songs-lora/adapter_model.safetensors");
    dir.run(&learn).failed(1).says("holds an adapter already").says("--force");
    dir.run(&[&learn[..], &["--force", "--dtype", "q8"]].concat()).failed(2);
    assert!(dir.read("songs-lora/adapter_model.safetensors") == first);
    dir.run(&[&learn[..], &more, &["--force"]].concat()).succeeded();
    assert!(dir.read("songs-lora/adapter_model.safetensors") == first);
}

#[test]
fn what_cannot_be_learned_is_said_before_anything_is_read() {
    let dir = with_songs();
    let learn = |more: &[&str]| {
        dir.run(&[&["train", "lora", "songs", "--model", "tiny"][..], more].concat())
    };
    learn(&["--rank", "0"]).failed(2).says("rank");
    learn(&["--alpha", "-1"]).failed(2);
    learn(&["--dropout", "1"]).failed(2).says("use 0 to 0.9");
    learn(&["--seed=-1"]).failed(2).says("a seed is a whole number from 0 to");
    learn(&["--learning-rate", "1e-300"]).failed(2).says("use 0.000000001 to 1");
    learn(&["--learning-rate", "nan"]).failed(2).says("learning-rate");
    learn(&["--max-duration", "1e9"]).failed(2).says("max-duration");
    learn(&["--dtype", "q8"]).failed(2).says("int8 weights cannot be trained");
    learn(&["--target-modules", "nose"]).failed(2).says("q_proj");
    fs::remove_file(dir.path("songs/b.caption.txt")).expect("a file");
    learn(&[]).failed(1).says("nothing says what `b.wav` is like").says("b.caption.txt");
    dir.write("songs/a.wav", "no sound");
    learn(&["--caption", "drums"]).failed(1).says("a.wav");
    fs::create_dir(dir.path("none")).expect("a folder");
    dir.run(&["train", "lora", "none", "--model", "tiny"]).failed(1).says("no song is in it");
    assert!(!dir.path("songs-lora").join("adapter_config.json").exists());
}

#[test]
fn a_state_of_something_else_is_refused_and_force_starts_again() {
    let dir = with_songs();
    let learn = |more: &[&str]| {
        let common = ["train", "lora", "songs", "--model", "tiny", "--epochs", "4"];
        dir.run(&[&common[..], more].concat())
    };
    let config = "songs-lora/adapter_config.json";
    learn(&["--rank", "2"]).succeeded();
    // The same state as after an interruption behind the last step.
    fs::remove_file(dir.path(config)).expect("a file");
    learn(&["--rank", "2"]).succeeded();
    fs::remove_file(dir.path(config)).expect("a file");
    learn(&["--rank", "3"]).failed(1).says("other settings").says("start again with `--force`");
    dir.write("songs-lora/training/state.bin", "damaged");
    learn(&["--rank", "2"]).failed(1).says("no state of a training run");
    learn(&["--rank", "3", "--force"]).succeeded();
    assert_eq!(dir.json(config)["r"], 3);
    let large = ["--epochs", "12", "--rank", "2", "--force", "--alpha", "1e38"];
    let run = dir.run(&[&["train", "lora", "songs", "--model", "tiny"], &large[..]].concat());
    run.failed(1).says("NaN or infinite");
    // A failed run keeps the old adapter.
    assert_eq!(dir.json(config)["r"], 3);
}

/// A run with `--force` that is stopped leaves its state beside the old adapter.
#[test]
fn a_stopped_run_that_replaces_an_adapter_is_continued_by_one_run_at_a_time() {
    let dir = with_songs();
    let learn = |more: &[&str]| {
        let common = ["train", "lora", "songs", "--model", "tiny", "--epochs", "4"];
        dir.run(&[&common[..], more].concat())
    };
    let [state, adapter] = ["training/state.bin", "adapter_model.safetensors"]
        .map(|name| format!("songs-lora/{name}"));
    learn(&[]).succeeded();
    learn(&[]).failed(1).says("holds an adapter already");
    // As if it had been stopped after step 5 of 8.
    let whole = dir.read(&state);
    let end = whole.iter().position(|&byte| byte == b'\n').expect("a header");
    let blobs = &whole[end + 1..];
    let mut header: Value = serde_json::from_slice(&whole[..end]).expect("JSON");
    let sizes: Vec<u64> = serde_json::from_value(header["sizes"].clone()).expect("sizes");
    header["step"] = 5.into();
    header["checksum"] = digest([format!("5 {sizes:?} {}", digest([blobs])).as_bytes()]).into();
    let stopped = [header.to_string().as_bytes(), b"\n", blobs].concat();
    dir.write(&state, &stopped);
    learn(&["--learning-rate", "0.01"]).failed(1).says("(changed: the learning rate)");

    let held = fs::File::create(dir.path("songs-lora/training/lock")).expect("a file");
    held.lock().expect("a lock");
    learn(&["--force"]).failed(1).says("another training run uses `").says("--output");
    assert!(dir.read(&state) == stopped);
    drop(held);
    let first = dir.read(&adapter);
    learn(&[]).succeeded().says("8 steps on 2 songs, loss ");
    assert!(dir.read(&adapter) != first);
    learn(&[]).failed(1).says("holds an adapter already");
}

/// A state knows what is in every song and what is said of it, not only its name and size.
#[test]
fn songs_that_changed_since_are_named_and_not_mixed_with_what_was_learned() {
    let dir = with_songs();
    let learn = |more: &[&str]| {
        let common = ["train", "lora", "songs", "--model", "tiny", "--epochs", "2"];
        dir.run(&[&common[..], more].concat())
    };
    // As if it had been stopped after its last step.
    let stopped = || {
        fs::remove_file(dir.path("songs-lora/adapter_config.json")).expect("a file");
    };
    let (sound, caption) = (dir.read("songs/a.wav"), "drums in the rain");
    learn(&[]).succeeded();
    stopped();
    let mut other = sound.clone();
    let last = other.len() - 1;
    other[last - 1_000] ^= 1;
    dir.write("songs/a.wav", &other);
    learn(&[])
        .failed(1)
        .says("other data (changed: sound of `a.wav`)")
        .says("start again with `--force`");
    dir.write("songs/a.wav", &sound);
    dir.write("songs/b.caption.txt", "drums in the sun");
    learn(&[]).failed(1).says("(changed: texts of `b.wav`)");
    dir.write("songs/b.caption.txt", caption);
    dir.write("songs/c.wav", &sound);
    dir.write("songs/c.caption.txt", caption);
    learn(&[]).failed(1).says("sound of `c.wav`, texts of `c.wav`");
    fs::remove_file(dir.path("songs/c.wav")).expect("a file");
    learn(&["--rank", "2"]).failed(1).says("(changed: --rank)");
    fs::rename(dir.path("songs/b.wav"), dir.path("b.wav")).expect("moved");
    learn(&[]).failed(1).says("sound of `b.wav` is gone");
    fs::rename(dir.path("b.wav"), dir.path("songs/b.wav")).expect("moved");
    learn(&[]).succeeded();
}

#[test]
fn a_data_set_of_upstream_is_learned_from() {
    let dir = with_songs();
    let json = r#"{"metadata": {"custom_tag": "zyx"}, "samples": [
        {"audio_path": "songs/a.wav", "caption": "drums", "bpm": 90, "labeled": true},
        {"audio_path": "songs/b.wav", "labeled": false}]}"#;
    dir.write("mine.json", json);
    let learn = ["train", "lora", "mine.json", "--model", "tiny", "--epochs", "2", "--json"];
    let run = dir.run(&learn).succeeded().says("note: 1 of the 2 songs are not labeled");
    assert_eq!(run.json()["songs"], 1);
    assert_eq!(dir.json("mine-lora/adapter_config.json")["lora_dropout"], 0.1);
}

#[test]
fn two_files_with_one_text_are_said() {
    let dir = with_songs();
    fs::copy(dir.path("songs/a.wav"), dir.path("songs/a.aiff")).expect("a copy");
    let run = dir.run(&["train", "lora", "songs", "--model", "tiny", "--epochs", "1", "--json"]);
    let run = run.succeeded().says("note: `a.aiff` and `a.wav` have the same texts");
    assert_eq!(
        (&run.json()["songs"], run.json()["notices"].as_array().map(Vec::len)),
        (&3.into(), Some(1))
    );
}
