//! `generate` with the language model: decisions, kept fields and messages.
//!
//! The tiny language model is a random network, so nothing here depends on its words.

use serde_json::{Value, json};

use crate::{DRAWS, Dir};

/// All fields that the language model would otherwise decide.
const ALL: [&str; 8] =
    ["--lyrics", "la", "--bpm", "90", "--keyscale", "C major", "--timesignature", "4"];

/// Returns the codes of a saved request, one list per song.
fn codes(request: &Value) -> Vec<Vec<u32>> {
    let list = |text: &Value| {
        let numbers = text.as_str().expect("a text").split(',');
        numbers.map(|code| code.parse().expect("a code")).collect()
    };
    match &request["audio_codes"] {
        Value::Array(songs) => songs.iter().map(list).collect(),
        one => vec![list(one)],
    }
}

/// Returns the codes that `plan` writes for the same song.
fn planned(dir: &Dir, args: &[&str]) -> Vec<Vec<u32>> {
    let plan = ["plan", "rain", "--model", "tiny", "-o", "-"];
    codes(&dir.run(&[&plan, &ALL[..], args].concat()).succeeded().json())
}

#[test]
fn a_caption_is_enough() {
    let dir = Dir::new();
    let args = ["rain", "--seed", "1", "--save-request", "-o", "a.wav", "--json"];
    let run = dir.thinking(&args).succeeded();
    let (object, request) = (run.json(), dir.json("a.json"));
    assert_eq!(object["outputs"][0]["seconds"], 1.0);
    assert_eq!(codes(&request)[0].len(), 5);
    assert_ne!(request["caption"], "rain");
    assert!(request["lyrics"].is_string());
    let model = &object["language_model"];
    assert_eq!(model["model"], "tiny");
    assert_eq!(model["code_tokens"], 6);
    assert_eq!(model["writes_codes"], true);
    assert_eq!(model["model_path"], "built-in/tiny/acestep-5Hz-lm-0.6B");
    for key in ["first_token", "text", "codes", "total"] {
        assert!(model[key].as_f64().is_some_and(|seconds| seconds > 0.0), "{key}: {model}");
    }
    assert!(model["text_tokens"].as_u64().is_some_and(|tokens| tokens > 0), "{model}");
    for key in ["text_tokens_per_second", "code_tokens_per_second"] {
        assert!(model[key].as_f64().is_some_and(|rate| rate > 0.0), "{key}: {model}");
    }
    let notices = object["notices"].as_array().expect("notices");
    let said = |text: &str| notices.iter().any(|notice| notice.as_str().unwrap().contains(text));
    assert!(said("the language model wrote the caption: "), "{notices:?}");
    assert!(said("of lyrics") || said("wrote no lyrics"), "{notices:?}");
    assert!(object["elapsed"]["total"].as_f64() >= model["total"].as_f64());
}

#[test]
fn what_the_user_gave_stays() {
    let dir = Dir::new();
    let given = ["--lyrics", "[Verse]\nla", "--bpm", "77", "--vocal-language", "fr"];
    let more = ["rain", "--keyscale", "F# minor", "--save-request", "-o", "a.wav", "--seed", "1"];
    dir.thinking(&[&given[..], &more].concat()).succeeded();
    let request = dir.json("a.json");
    for (key, value) in [
        ("lyrics", json!("[Verse]\nla")),
        ("bpm", json!(77)),
        ("vocal_language", json!("fr")),
        ("keyscale", json!("F# minor")),
        ("duration", json!(1.0)),
        ("seed", json!(1)),
    ] {
        assert_eq!(request[key], value, "{key}");
    }
    let kept = ["plan", "rain", "--model", "tiny", "--no-use-cot-caption", "--no-codes", "-o", "-"];
    let plan = dir.run(&[&kept, &given[..], &DRAWS].concat()).succeeded().json();
    assert_eq!((&plan["caption"], &plan["bpm"]), (&json!("rain"), &json!(77)));
}

/// There are five codes per second, rounded down.
#[test]
fn with_all_metadata_there_are_only_codes_to_write() {
    let dir = Dir::new();
    let args = ["generate", "rain", "--model", "tiny", "--thinking", "--duration", "1.5"];
    let output = ["--save-request", "--json", "-o", "a.wav"];
    let run = dir.run(&[&args[..], &ALL, &output].concat()).succeeded();
    assert_eq!(run.json()["language_model"]["text_tokens"], 0);
    assert_eq!(run.json()["outputs"][0]["seconds"], 1.4);
    assert_eq!(codes(&dir.json("a.json"))[0].len(), 7);
    assert_eq!(dir.json("a.json")["caption"], "rain");
    assert!(!run.stderr.contains("the language model"), "{}", run.stderr);
    for (seconds, count) in [("1", 5), ("2.99", 14)] {
        assert_eq!(planned(&dir, &["--duration", seconds])[0].len(), count, "{seconds}");
    }
    let short = ["generate", "rain", "--model", "tiny", "--thinking", "--duration", "0.19"];
    dir.run(&short).failed(2).says("audio codes are 0.2 s each, but the song has 0.19 s");
}

#[test]
fn codes_that_are_there_already_need_no_language_model() {
    let dir = Dir::new();
    let args = ["rain", "--audio-codes", "5,17,9", "--lm-model", "no/such", "--json"];
    let object = dir.tiny(&args).succeeded().json();
    assert_eq!(object["language_model"], Value::Null);
    assert_eq!(object["plan"]["audio_codes"], 3);
}

#[test]
fn without_thinking_it_decides_only_what_is_asked_by_name() {
    let dir = Dir::new();
    let song = |name: &str, flags: &[&str]| {
        let args = ["rain", "--lyrics", "la", "--no-thinking", "--seed", "1", "--save-request"];
        let output = ["--json", "-o", name];
        let run = dir.tiny(&[&args[..], flags, &output].concat()).succeeded();
        (run.json()["language_model"].clone(), dir.json(&name.replace("wav", "json")))
    };
    let (model, request) = song("plain.wav", &[]);
    assert_eq!((model, &request["caption"]), (Value::Null, &json!("rain")));
    let flags = [&DRAWS[..], &["--use-cot-metas", "--no-use-cot-caption"]].concat();
    let (model, request) = song("metas.wav", &flags);
    assert_eq!(model["code_tokens"], 0);
    assert!(model["text_tokens"].as_u64().is_some_and(|tokens| tokens > 0), "{model}");
    assert_eq!((&request["audio_codes"], &request["caption"]), (&Value::Null, &json!("rain")));
    assert!((30..=300).contains(&request["bpm"].as_i64().expect("a tempo")), "{request}");
}

#[test]
fn a_seed_makes_the_same_song_and_a_seed_of_its_own_plans_the_same() {
    let dir = Dir::new();
    let song = |name: &str, flags: &[&str]| {
        let args = ["rain", "--save-request", "-o", name];
        dir.thinking(&[&ALL, &args[..], flags].concat()).succeeded();
        (dir.read(name), codes(&dir.json(&name.replace("wav", "json"))))
    };
    let first = song("a.wav", &["--seed", "7"]);
    assert_eq!(first, song("b.wav", &["--seed", "7"]));
    let other = song("c.wav", &["--seed", "8", "--lm-seed", "7"]);
    assert_eq!(first.1, other.1);
    assert_ne!(first.0, other.0);
    let plan = |flags: &[&str]| planned(&dir, &[&["--duration", "1"], &DRAWS[..], flags].concat());
    assert_eq!(plan(&["--seed", "7"]), first.1);
    assert_ne!(plan(&["--seed", "8"]), first.1);
}

#[test]
fn a_song_of_a_batch_has_the_codes_that_it_has_alone() {
    let dir = Dir::new();
    let song = |flags: &[&str]| planned(&dir, &[&["--duration", "1"], &DRAWS[..], flags].concat());
    let batch = song(&["--seed", "3", "--batch-size", "3"]);
    assert_eq!(batch.len(), 3);
    let alone = ["3", "4", "5"].map(|seed| song(&["--seed", seed]).remove(0));
    assert_eq!(batch, alone);
    assert_ne!(batch[0], batch[1]);
    assert_eq!(song(&["--seed", "5,3"]), [alone[2].clone(), alone[0].clone()]);
    let args = ["rain", "--seed", "5,3", "--save-request", "-o", "a.wav"];
    dir.thinking(&[&ALL, &args[..]].concat()).succeeded();
    assert_eq!(codes(&dir.json("a.json")), [alone[2].clone(), alone[0].clone()]);
}

#[test]
fn a_saved_request_makes_the_same_song_without_the_language_model() {
    let dir = Dir::new();
    // The seed is fixed, because a random network does not stop with every seed.
    let args = ["rain", "--lm-seed", "1", "--batch-size", "2", "--save-request", "-o", "a.wav"];
    dir.thinking(&args).succeeded();
    let again = ["generate", "--request", "a.json", "--json", "-o", "b.wav"];
    let run = dir.run(&again).succeeded();
    assert_eq!(run.json()["language_model"], Value::Null);
    assert!(!run.stderr.contains("the language model"), "{}", run.stderr);
    for (a, b) in [("a_1.wav", "b_1.wav"), ("a_2.wav", "b_2.wav")] {
        assert_eq!(dir.read(a), dir.read(b));
    }
}

#[test]
fn a_dry_run_says_that_it_would_think() {
    let dir = Dir::new();
    let args = ["calm piano", "--thinking", "--seed", "7", "--dry-run"];
    let run = dir.tiny(&args).succeeded();
    insta::assert_snapshot!("dry-run-thinking", run.stderr);
    let object = dir.tiny(&[&args[..], &["--json"]].concat()).succeeded().json();
    let model = json!({ "model": "tiny", "model_path": "built-in/tiny/acestep-5Hz-lm-0.6B",
        "model_format": "built in", "model_types": ["F32"], "writes_codes": true });
    assert_eq!(object["language_model"], model);
    assert_eq!(object["plan"]["networks"][0]["name"], "language model");
    let says = "note: the language model decides the length; 30 s stands for it here";
    assert!(!run.stderr.contains("decides the length"), "{}", run.stderr);
    let open = ["generate", "rain", "--model", "tiny", "--thinking", "--dry-run"];
    dir.run(&open).succeeded().says(says);
    assert!(dir.files().is_empty());
}

#[test]
fn what_a_file_says_of_the_language_model_stops_no_song_without_it() {
    let dir = Dir::new();
    dir.write("r.json", r#"{"caption": "x", "lm_top_k": -5, "audio_codes": "5,17,9"}"#);
    dir.tiny(&["--request", "r.json", "--dry-run"]).succeeded();
    let typed = ["rain", "--audio-codes", "5", "--lm-top-k=-5", "--dry-run"];
    dir.tiny(&typed).failed(2).says("`--lm-top-k -5` is out of range");
    dir.write("t.json", r#"{"caption": "x", "lm_top_k": -5, "thinking": true}"#);
    dir.tiny(&["--request", "t.json", "--dry-run"]).failed(2).says("`--lm-top-k -5`");
}

#[test]
fn noise_from_a_file_decides_the_length_before_the_language_model_does() {
    let dir = Dir::new();
    dir.tiny(&["rain", "-o", "a.wav", "--dump-conditioning", "dump"]).succeeded();
    let noise = ["--noise", "dump/initial_noise.bin", "--thinking", "--lm-seed", "1", "--json"];
    let args = ["generate", "rain", "--model", "tiny", "-o", "b.wav"];
    let run = dir.run(&[&args[..], &ALL, &noise].concat()).succeeded();
    // 128 frames contain 25 whole codes of 0.2 s.
    assert_eq!(run.json()["outputs"][0]["seconds"], 5.0);
    run.says("note: the song is as long as the noise of `dump/initial_noise.bin`: 5.12 s");
}

#[cfg(unix)]
#[test]
fn the_language_models_work_is_kept_if_the_song_is_interrupted() {
    use crate::running::{Running, wait_until};

    let dir = Dir::new();
    let args = ["generate", "rain", "--model", "tiny", "--thinking", "--duration", "20"];
    let output = ["--seed", "1", "--save-request", "-o", "a.wav"];
    let mut command = dir.command(&[&args[..], &ALL, &output].concat());
    let program = Running::start(&mut command, std::process::Stdio::null());
    wait_until("there is a request", || dir.path("a.json").exists());
    program.interrupt();
    let (code, rest) = program.end();
    assert_eq!(code, Some(130), "{rest}");
    let note = "note: the request with the language model's codes is kept in `a.json`\nstopped\n";
    assert!(rest.ends_with(note), "{rest}");
    assert_eq!(dir.files(), ["a.json"]);
    assert_eq!(codes(&dir.json("a.json"))[0].len(), 100);
}

#[test]
fn an_answer_that_does_not_end_is_an_error_with_what_there_was() {
    let dir = Dir::new();
    let run = dir.thinking(&["rain", "--max-tokens", "6"]).failed(1);
    run.says("did not come to an end within 6 tokens; it had written: <think>")
        .says("hint: try another seed")
        .says("larger `--max-tokens`");
    let long = ["rain", "--max-seq", "128", "--lyrics", &"la ".repeat(200)];
    let run = dir.thinking(&long).failed(1);
    run.says("error: the language model would read and write ").says("tokens, of at most 128");
    assert!(dir.files().is_empty());
}

/// Any output of a random network leads to a song or to one error.
#[test]
fn free_decoding_never_breaks_the_program() {
    let dir = Dir::new();
    for seed in ["1", "2", "3"] {
        for metadata in [&[][..], &ALL] {
            let args = ["rain", "--no-constrained-decoding", "--seed", seed, "--force", "-q"];
            let run = dir.thinking(&[&args[..], metadata, &["--max-tokens", "300"]].concat());
            match run.code {
                Some(0) => assert!(run.text().ends_with(".wav\n")),
                _ => drop(run.failed(1).says("the language model")),
            }
        }
    }
}
