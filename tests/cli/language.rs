//! `plan`, `inspire` and `format`: the language model alone, and its output files.
//!
//! The tiny language model is a random network, so nothing here depends on its words.

use std::fs;

use serde_json::{Value, json};

use crate::{DRAWS, Place, Run, names};

/// Runs a command with the tiny language model and a seed.
fn ask(place: &Place, verb: &str, args: &[&str]) -> Run {
    place.run(&[&[verb, "--model", "tiny", "--seed", "1"], &DRAWS[..], args].concat())
}

#[test]
fn a_plan_is_a_request_that_generate_takes() {
    let place = Place::new();
    let args = ["rain", "--lyrics", "la", "--duration", "2", "--bpm", "90", "--force"];
    let run = ask(&place, "plan", &args).succeeded();
    assert_eq!(run.text(), "plan.json\n");
    let plan = place.json("plan.json");
    for (key, value) in [
        ("lyrics", json!("la")),
        ("bpm", json!(90)),
        ("duration", json!(2.0)),
        ("seed", json!(1)),
        ("model", json!("tiny")),
    ] {
        assert_eq!(plan[key], value, "{key}");
    }
    assert!(!plan.as_object().expect("an object").keys().any(|key| key.starts_with("lm_")));
    assert_eq!(plan["audio_codes"].as_str().expect("a text").split(',').count(), 10);
    let last = run.stderr.lines().last().expect("a summary");
    assert!(
        last.starts_with("seed 1 · ") && last.contains(" tokens of text, 10 codes in "),
        "{last}"
    );
    let args = ["generate", "--request", "plan.json", "-o", "a.wav", "--json"];
    let song = place.run(&args).succeeded().json();
    assert_eq!(song["language_model"], Value::Null);
    assert_eq!(song["outputs"][0]["seconds"], 2.0);
}

/// A song does not depend on whether it is planned in a separate run.
#[test]
fn a_planned_song_is_the_song_that_generate_makes_at_once() {
    let place = Place::new();
    let args = ["rain", "--lyrics", "la", "--duration", "1"];
    ask(&place, "plan", &args).succeeded();
    place.run(&["generate", "--request", "plan.json", "-o", "a.wav"]).succeeded();
    place.thinking(&["rain", "--lyrics", "la", "--seed", "1", "-o", "b.wav"]).succeeded();
    assert_eq!(place.read("a.wav"), place.read("b.wav"));
}

#[test]
fn the_parts_of_a_plan_go_to_files_for_other_programs() {
    let place = Place::new();
    let song = ["rain", "--lyrics", "[Verse]\nla", "--duration", "1", "--bpm", "90"];
    let outputs =
        ["--output-codes", "c.txt", "--output-dir", "fields", "--output-text", "said.txt"];
    let run = ask(&place, "plan", &[&song[..], &outputs].concat()).succeeded();
    let fields = ["caption", "lyrics", "bpm", "duration", "keyscale", "timesignature", "language"];
    let written = ["plan.json", "c.txt", "said.txt"].map(str::to_owned).into_iter();
    let written: Vec<_> = written.chain(fields.map(|name| format!("fields/{name}"))).collect();
    assert_eq!(run.text().lines().collect::<Vec<_>>(), written);
    assert_eq!(names(&place.path("fields")).len(), 7);
    let plan = place.json("plan.json");
    let field =
        |name: &str| String::from_utf8(place.read(&format!("fields/{name}"))).expect("text");
    assert_eq!((field("bpm"), field("duration")), ("90".into(), "1".into()));
    assert_eq!(field("lyrics"), "[Verse]\nla");
    assert_eq!(field("caption"), plan["caption"].as_str().expect("a text"));
    assert_eq!(place.read("c.txt"), plan["audio_codes"].as_str().expect("a text").as_bytes());
    assert!(place.read("said.txt").starts_with(b"<think>\nbpm: 90\n"));

    let codes = ["--audio-codes", "@c.txt", "--lyrics", "[Verse]\nla", "--json", "-o", "a.wav"];
    let song = place.run(&[&["generate", "rain", "--model", "tiny"], &codes[..]].concat());
    assert_eq!(song.succeeded().json()["plan"]["audio_codes"], 5);

    let two =
        ["rain", "--duration", "1", "--batch-size", "2", "-o", "-", "--output-codes", "c.txt"];
    let run = ask(&place, "plan", &two).succeeded();
    // Standard output contains only the request.
    let plan = run.json();
    for (i, name) in ["c_1.txt", "c_2.txt"].into_iter().enumerate() {
        let codes = plan["audio_codes"][i].as_str().expect("a text");
        assert_eq!(place.read(name), codes.as_bytes());
    }
}

#[test]
fn existing_files_are_kept_without_force() {
    let place = Place::new();
    fs::create_dir(place.path("fields")).expect("a folder");
    for (name, args) in [
        ("plan.json", &[][..]),
        ("c.txt", &["--output-codes", "c.txt"]),
        ("t.txt", &["--output-text", "t.txt"]),
        ("fields/bpm", &["--output-dir", "fields"]),
    ] {
        place.write(name, "mine");
        let args = [&["rain", "--duration", "1"], args].concat();
        ask(&place, "plan", &args).failed(1).says(&format!("`{name}` exists already"));
        assert_eq!(place.read(name), b"mine");
        ask(&place, "plan", &[&args[..], &["--force"]].concat()).succeeded();
        assert_ne!(place.read(name), b"mine");
        fs::remove_file(place.path("plan.json")).expect("it was written");
    }
}

#[test]
fn outputs_that_cannot_be_are_refused_before_any_work() {
    let place = Place::new();
    place.write("file", "");
    for (args, code, says) in [
        (&["-o", "-", "--json"][..], 2, "`--output -` and `--json` both want standard output"),
        (&["--no-codes", "--output-codes", "c"], 2, "`--output-codes` has nothing to write"),
        (&["-o", "a", "--output-text", "a"], 2, "`a` would be written twice"),
        (&["-o", "no/such"], 1, "cannot create `no/such`"),
        (&["-o", "."], 1, "it is a directory"),
        (&["--output-dir", "file"], 1, "`file"),
        (&["--output-dir", "file/deep/d"], 1, "cannot create `file/deep`"),
        (&["-o", "d/no/such", "--output-dir", "d"], 1, "cannot create `d/no/such`"),
        (&["-o", "d", "--output-dir", "./d"], 2, "`d` cannot be a file and the folder"),
        (&["-o", "d", "--output-dir", "d/e"], 2, "`d` cannot be a file and the folder"),
        (&["-o", "a", "--output-text", "./a"], 2, "`./a` would be written twice"),
        (&["-o", "d/bpm", "--output-dir", "./d"], 2, "`./d/bpm` would be written twice"),
        (&["--output-text", "-"], 2, "`--output-text -`: only the request goes to standard"),
        (&["--output-codes", "-"], 2, "`--output-codes -`: only the request"),
        (&["--output-dir", "-"], 2, "`--output-dir -`: only the request"),
    ] {
        ask(&place, "plan", &[&["rain", "--duration", "1"], args].concat()).failed(code).says(says);
    }
    assert_eq!(place.files(), ["file"]);
}

#[test]
fn a_folder_that_is_new_takes_the_other_outputs_too() {
    let place = Place::new();
    let outputs = ["-o", "a/plan.json", "--output-dir", "./a/b", "--output-text", "a/b/said"];
    let args = ["rain", "--duration", "1", "--no-codes"];
    ask(&place, "plan", &[&args[..], &outputs].concat()).succeeded();
    assert_eq!(names(&place.path("a")), ["b", "plan.json"]);
    assert_eq!(names(&place.path("a/b")).len(), 8);
}

#[test]
fn the_marker_of_an_instrumental_is_no_lyrics() {
    let place = Place::new();
    for marker in ["[Instrumental]", " [INST]\n"] {
        let args = ["rain", "--instrumental", "--lyrics", marker, "--no-codes", "-o", "-"];
        ask(&place, "plan", &args).succeeded();
    }
    let args = ["rain", "--instrumental", "--lyrics", "la", "--no-codes"];
    ask(&place, "plan", &args).failed(2).says("exclude each other");
}

#[test]
fn codes_of_the_request_are_left_out_with_a_word() {
    let place = Place::new();
    place.write("r.json", r#"{"caption": "rain", "duration": 1, "audio_codes": "5,17,9"}"#);
    let args = ["--request", "r.json", "--no-codes", "-o", "-"];
    let run = ask(&place, "plan", &args).succeeded();
    assert_eq!(run.json().get("audio_codes"), None);
    run.says("note: the request's audio codes are not used: it is planned again, without codes");
}

#[test]
fn json_has_the_request_and_what_the_model_did() {
    let place = Place::new();
    let args = ["rain", "--duration", "1", "--batch-size", "2", "--json"];
    let object = ask(&place, "plan", &args).succeeded().json();
    let keys: Vec<_> = object.as_object().expect("an object").keys().collect();
    let expected =
        ["request", "metadata", "text", "outputs", "notices", "language_model", "elapsed"];
    assert_eq!(keys, expected);
    assert_eq!(object["request"], place.json("plan.json"));
    assert_eq!(object["outputs"], json!(["plan.json"]));
    assert!(object["metadata"]["caption"].is_string(), "{object}");
    assert!(object["text"].as_str().is_some_and(|text| text.starts_with("<think>\n")));
    let model = &object["language_model"];
    assert_eq!((&model["model"], &model["code_tokens"]), (&json!("tiny"), &json!(12)));
    assert_eq!(model["writes_codes"], true);
    assert!(model["first_token"].as_f64() <= model["text"].as_f64(), "{model}");
}

#[test]
fn without_codes_the_seeds_of_all_songs_stay() {
    let place = Place::new();
    // The text is sampled once, so the songs need no common length here.
    let args = ["plan", "rain", "--model", "tiny", "--seed", "1,7,9", "--no-codes", "-o", "-"];
    let run = place.run(&[&args[..], &DRAWS].concat()).succeeded();
    assert_eq!(run.json()["seed"], json!([1, 7, 9]));
    assert_eq!(run.json().get("audio_codes"), None);
    assert!(place.files().is_empty());
}

#[test]
fn an_inspiration_needs_a_description_and_writes_the_rest() {
    let place = Place::new();
    let run = ask(&place, "inspire", &["a lullaby", "--duration", "60", "-o", "-"]).succeeded();
    let request = run.json();
    assert_ne!(request["caption"], "a lullaby");
    assert!(request["lyrics"].is_string());
    assert_eq!(request["duration"], 60.0);
    assert_eq!(request.get("audio_codes"), None);
    let args = ["a lullaby", "--duration", "1", "--codes", "--instrumental", "-o", "-"];
    let request = ask(&place, "inspire", &args).succeeded().json();
    assert_eq!(request["audio_codes"].as_str().expect("a text").split(',').count(), 5);
    for nothing in [&[][..], &[""], &["--caption", " "]] {
        ask(&place, "inspire", nothing).failed(2).says("there is no description to be inspired by");
    }
    let run = ask(&place, "inspire", &["a lullaby", "--lyrics", "la"]).failed(2);
    run.says("`--lyrics` has no place: inspire writes the lyrics").says("acestep plan");
    ask(&place, "plan", &[]).failed(2).says("caption and lyrics are both empty");
    ask(&place, "format", &[]).failed(2).says("caption and lyrics are both empty");
}

#[test]
fn formatting_keeps_the_users_numbers() {
    let place = Place::new();
    let args = ["rock", "--lyrics", "la la", "--bpm", "140", "--vocal-language", "de", "-o", "-"];
    let request = ask(&place, "format", &args).succeeded().json();
    assert_eq!((&request["bpm"], &request["vocal_language"]), (&json!(140), &json!("de")));
    assert_ne!(request["caption"], "rock");
    let run = ask(&place, "format", &["rock", "--lyrics", "la", "--instrumental"]).failed(2);
    run.says("exclude each other");
}

#[test]
fn an_instruction_of_ones_own_is_asked_in_place_of_the_models() {
    let place = Place::new();
    let own = |system: &str, user: &str| {
        let args = ["--system", system, "--user", user, "--no-codes", "-o", "-"];
        ask(&place, "plan", &args).succeeded().json()
    };
    assert!(own("Write a sea shanty", "about a lighthouse")["caption"].is_string());
    ask(&place, "plan", &["--system", "Write"]).failed(2).says("--user <TEXT>");
    ask(&place, "plan", &["--user", "Write"]).failed(2).says("--system <TEXT>");
    let both = ["rain", "--system", "Write", "--user", "it"];
    ask(&place, "plan", &both).failed(2).says("[CAPTION]' cannot be used with");
    ask(&place, "plan", &["rain", "--user", "it"]).failed(2).says("'--user <TEXT>'");
}

#[test]
fn genres_are_read_from_a_file() {
    let place = Place::new();
    place.write("genres.txt", "# mine\nlo-fi hip hop\n\njazz\n");
    place.write("empty.txt", "# none\n\n");
    let args = |file: &'static str| ["a lullaby", "-o", "-", "--genres", file];
    ask(&place, "inspire", &args("genres.txt")).succeeded();
    ask(&place, "inspire", &args("empty.txt")).failed(1).says("error: `empty.txt` names no genre");
    ask(&place, "inspire", &args("no.txt")).failed(1).says("cannot read `no.txt`");
}

#[test]
fn what_was_written_is_kept_where_it_cannot_be_used() {
    let place = Place::new();
    let args = ["rain", "--max-tokens", "5", "--output-text", "said.txt"];
    let run = ask(&place, "plan", &args);
    assert_eq!((run.code, run.text()), (Some(1), "said.txt\n"), "{}", run.stderr);
    assert!(place.read("said.txt").starts_with(b"<think>"));
    assert_eq!(place.files(), ["said.txt"]);
    ask(&place, "plan", &[&args[..], &["--force", "--json"]].concat()).failed(1);
}

#[test]
fn a_language_model_from_a_folder_is_the_built_in_one() {
    let place = Place::new();
    place.language_model();
    let args = ["rain", "--lyrics", "la", "--duration", "1", "-o", "-"];
    let built_in = ask(&place, "plan", &args).succeeded();
    for choice in [&["--lm-model", "0.6B"][..], &["--lm-model", "./acestep-5Hz-lm-0.6B"]] {
        let run = ask(&place, "plan", &[&args[..], &["--models-dir", "."], choice].concat());
        assert_eq!(run.succeeded().stdout, built_in.stdout, "{choice:?}");
    }
}

#[test]
fn a_folder_that_is_no_language_model_is_refused() {
    let place = Place::new();
    let model = place.language_model();
    place.checkpoint();
    let run = |path: &str| {
        ask(&place, "plan", &["rain", "--duration", "1", "--force", "--lm-model", path])
    };
    run("./Qwen3-Embedding-0.6B").failed(1).says("whose tokenizer has no audio codes");
    run("./vae").failed(1).says("holds the Oobleck audio autoencoder, not a language model");
    run("./vae/config.json").failed(1).says("is neither GGUF nor safetensors");
    let whole = fs::read(model.join("model.safetensors")).expect("weights");
    for cut in [0, 100, whole.len() - 1] {
        fs::write(model.join("model.safetensors"), &whole[..cut]).expect("writes");
        run("./acestep-5Hz-lm-0.6B").failed(1).says("model.safetensors").says("\nhint: ");
    }
    fs::write(model.join("model.safetensors"), whole).expect("writes");
    run("./acestep-5Hz-lm-0.6B").succeeded();
    fs::write(model.join("tokenizer.json"), "{").expect("writes");
    run("./acestep-5Hz-lm-0.6B").failed(1).says("tokenizer").says("\nhint: ");
}
