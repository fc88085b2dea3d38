//! Request files: read, overridden, saved, read again.

use serde_json::{Value, json};

use crate::Place;

fn saved(place: &Place, name: &str) -> Value {
    serde_json::from_slice(&place.read(name)).expect("JSON")
}

#[test]
fn a_saved_request_makes_the_same_song() {
    let place = Place::new();
    let args = ["rain", "--lyrics", "[Verse]\nla", "--bpm", "90", "--keyscale", "F# minor"];
    let more = ["--shift", "2", "--infer-method", "sde", "--save-request", "-o", "a.wav"];
    let run = place.tiny(&[&args[..], &more].concat()).succeeded();
    assert_eq!(run.text(), "a.wav\na.json\n");
    let run = place.run(&["generate", "--request", "a.json", "-o", "b.wav"]).succeeded();
    assert!(!run.stderr.contains("not used"), "{}", run.stderr);
    assert_eq!(place.read("a.wav"), place.read("b.wav"));
}

#[test]
fn a_saved_request_of_a_model_that_is_a_path_finds_it_again() {
    let place = Place::new();
    place.checkpoint();
    std::fs::create_dir(place.path("elsewhere")).expect("a folder");
    let args = ["generate", "rain", "--model", "./acestep-v15-turbo", "--duration", "1"];
    place.run(&[&args[..], &["--save-request", "-o", "a.wav"]].concat()).succeeded();
    let mut command = place.command(&["generate", "--request", "../a.json", "-o", "../b.wav"]);
    let output = command.current_dir(place.path("elsewhere")).output().expect("runs");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(place.read("a.wav"), place.read("b.wav"));
}

#[test]
fn a_saved_request_with_codes_or_own_times_makes_the_same_song() {
    let place = Place::new();
    for (name, flags) in [
        ("codes", &["--audio-codes", "5,17,9,2,63999", "--audio-cover-strength", "0.5"][..]),
        ("times", &["--timesteps", "1,0.6,0.3", "--rng", "mt19937", "--no-normalization"]),
    ] {
        let (a, b) = (format!("{name}.wav"), format!("{name}-again.wav"));
        place.tiny(&[&["rain", "--save-request", "-o", &a], flags].concat()).succeeded();
        let request = format!("{name}.json");
        place.run(&["generate", "--request", &request, "-o", &b]).succeeded();
        assert_eq!(place.read(&a), place.read(&b), "{name}");
    }
}

#[test]
fn a_saved_batch_makes_the_same_songs() {
    let place = Place::new();
    let args = ["rain", "--batch-size", "2", "--save-request", "-o", "a.wav"];
    place.tiny(&args).succeeded();
    place.run(&["generate", "--request", "a.json", "-o", "b.wav"]).succeeded();
    assert_eq!(place.read("a_1.wav"), place.read("b_1.wav"));
    assert_eq!(place.read("a_2.wav"), place.read("b_2.wav"));
}

#[test]
fn a_saved_request_leaves_nothing_open() {
    let place = Place::new();
    place.tiny(&["rain", "--seed", "7", "--save-request", "-o", "a.wav"]).succeeded();
    assert_eq!(
        saved(&place, "a.json"),
        json!({
            "caption": "rain",
            "lyrics": "",
            "duration": 1.0,
            "vocal_language": "unknown",
            "inference_steps": 8,
            "shift": 3.0,
            "infer_method": "ode",
            "seed": 7,
            "batch_size": 1,
            "task_type": "text2music",
            "enable_normalization": true,
            "normalization_db": -1.0,
            "instruction": "Fill the audio semantic mask based on the given conditions:",
            "rng": "philox",
            "vae_chunk": 512,
            "vae_overlap": 64,
            "model": "tiny",
        })
    );
}

#[test]
fn flags_go_before_the_file() {
    let place = Place::new();
    let request = json!({ "caption": "rain", "duration": 1, "seed": 1, "timesteps": [1, 0.5, 0] });
    place.write("r.json", request.to_string());
    let plan = |flags: &[&str]| {
        let args = ["generate", "--request", "r.json", "--model", "tiny", "--dry-run", "--json"];
        place.run(&[&args, flags].concat()).succeeded().json()["plan"].clone()
    };
    let plain = plan(&[]);
    assert_eq!(plain["caption"], "rain");
    assert_eq!(plain["inference_steps"], 2);
    let flagged = plan(&["snow", "--duration", "2", "--seed", "9", "--steps", "8"]);
    assert_eq!(flagged["caption"], "snow");
    assert_eq!(flagged["frames"], 50);
    assert_eq!(flagged["seeds"], json!([9]));
    assert_eq!(flagged["inference_steps"], 8);
}

#[test]
fn a_request_comes_from_standard_input_too() {
    let place = Place::new();
    let args = ["generate", "--model", "tiny", "--request", "-", "--dry-run", "--json"];
    let run = place.run_with_stdin(&args, br#"{"caption": "rain", "duration": 3}"#).succeeded();
    assert_eq!(run.json()["plan"]["frames"], 75);
    let run = place.run_with_stdin(&[&args[..], &["--lyrics", "@-"]].concat(), b"{}").failed(2);
    run.says("`--request -` and `--lyrics` both read standard input");
}

#[test]
fn a_bad_request_names_the_file_and_the_fault() {
    let place = Place::new();
    for (text, says) in [
        (&b"{"[..], "cause: the request is not a JSON object"),
        (b"[]", "cause: the request is not a JSON object"),
        (b"{\"caption\": \"\xff\"}", "the request `r.json` is not UTF-8 text: line 1"),
        (br#"{"captoin": "x"}"#, "hint: did you mean `caption`?"),
        (br#"{"caption": 5}"#, "cause: the request's `caption` is 5, but it must be a text"),
        (br#"{"caption": "x", "src_audio": "a.wav"}"#, "is not in this version"),
    ] {
        place.write("r.json", text);
        let args = ["generate", "--model", "tiny", "--request", "r.json"];
        place.run(&args).failed(1).says("r.json").says(says);
    }
    place.run(&["generate", "--request", "no.json"]).failed(1).says("cannot read `no.json`");
    place.run(&["generate", "--request", "."]).failed(1).says("cannot read `.`");
}

#[test]
fn the_model_of_a_request_is_used_unless_another_is_typed() {
    let place = Place::new();
    place.checkpoint();
    let plan = |request: &str, more: &[&str]| {
        place.write("r.json", request);
        let args = ["generate", "--request", "r.json", "--models-dir", ".", "--dry-run", "--json"];
        place.run(&[&args, more].concat())
    };
    for request in [
        r#"{"caption": "x", "synth_model": "acestep-v15-turbo-Q8_0.gguf"}"#,
        r#"{"caption": "x", "dit_model": "acestep-v15-turbo"}"#,
        r#"{"caption": "x"}"#,
    ] {
        assert_eq!(plan(request, &[]).succeeded().json()["plan"]["model"], "turbo", "{request}");
    }
    let absent = r#"{"caption": "x", "synth_model": "acestep-v15-sft-BF16.gguf"}"#;
    let run = plan(absent, &[]).failed(1).says("--model");
    run.says("error: the request `r.json` asks for the model `acestep-v15-sft`, which cannot be")
        .says("cause: model `acestep-v15-sft` is not on this machine")
        .says("hf download ACE-Step/acestep-v15-sft")
        .says("to make it with another model, pass --model");
    let typed = plan(absent, &["--model", "tiny"]).succeeded();
    assert_eq!(typed.json()["plan"]["model"], "tiny");
}

#[test]
fn what_is_typed_takes_the_place_of_what_excludes_it() {
    let place = Place::new();
    let plan = |request: Value, flags: &[&str]| {
        place.write("r.json", request.to_string());
        let args = ["generate", "--request", "r.json", "--model", "tiny", "--dry-run", "--json"];
        place.run(&[&args, flags].concat()).succeeded().json()["plan"].clone()
    };
    let sung = json!({ "caption": "x", "lyrics": "la" });
    assert_eq!(plan(sung, &["--instrumental"])["lyrics"], "[Instrumental]");
    let played = json!({ "caption": "x", "instrumental": true });
    assert_eq!(plan(played, &["--lyrics", "la"])["lyrics"], "la");
    let pair = json!({ "caption": "x", "seed": [7, 8], "batch_size": 2 });
    assert_eq!(plan(pair.clone(), &["--seed", "1,2,3"])["seeds"], json!([1, 2, 3]));
    assert_eq!(plan(pair.clone(), &["--seed", "5"])["seeds"], json!([5, 6]));
    assert_eq!(
        plan(pair.clone(), &["--seed", "5", "--batch-size", "3"])["seeds"],
        json!([5, 6, 7])
    );
    let drawn = plan(pair, &["--batch-size", "3"])["seeds"].clone();
    assert_eq!(drawn.as_array().expect("seeds").len(), 3);
}

#[test]
fn a_saved_request_holds_the_tiles() {
    let place = Place::new();
    let tiles = ["--vae-chunk", "40", "--vae-overlap", "0"];
    let args = ["rain", "--save-request", "-o", "a.wav"];
    place.tiny(&[&args, &tiles[..]].concat()).succeeded().says("can be heard where chunks meet");
    place.run(&["generate", "--request", "a.json", "-o", "b.wav"]).succeeded();
    assert_eq!(place.read("a.wav"), place.read("b.wav"));
    place.tiny(&["rain", "--vae-chunk", "0"]).failed(2).says("`--vae-chunk 0` is out of range");
}

/// Upstream's "simple mode": a description from which its language model writes caption and lyrics.
#[test]
fn a_request_for_the_language_model_alone_says_what_is_missing() {
    let place = Place::new();
    place.write("simple.json", r#"{"description": "a soft love song", "instrumental": false}"#);
    let run = place.run(&["generate", "--model", "tiny", "--request", "simple.json"]).failed(2);
    assert!(run.stderr.contains("no language model: `description` is not read"), "{}", run.stderr);
}
