//! `plan`, `inspire` and `format`: the language model alone, and its output files.
//!
//! The tiny language model is a random network, so nothing here depends on its words.

use std::fs;

use serde_json::{Value, json};

use crate::{DRAWS, Dir, Run, names};

/// Runs a command with the tiny language model and a seed.
fn ask(dir: &Dir, verb: &str, args: &[&str]) -> Run {
    dir.run(&[&[verb, "--model", "tiny", "--seed", "1"], &DRAWS[..], args].concat())
}

#[test]
fn a_plan_is_a_request_that_generate_takes() {
    let dir = Dir::new();
    let args = ["rain", "--lyrics", "la", "--duration", "2", "--bpm", "90", "--force"];
    let run = ask(&dir, "plan", &args).succeeded();
    assert_eq!(run.text(), "plan.json\n");
    let plan = dir.json("plan.json");
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
    let song = dir.run(&args).succeeded().json();
    assert_eq!(song["language_model"], Value::Null);
    assert_eq!(song["outputs"][0]["seconds"], 2.0);
}

/// A song does not depend on whether it is planned in a separate run.
#[test]
fn a_planned_song_is_the_song_that_generate_makes_at_once() {
    let dir = Dir::new();
    let args = ["rain", "--lyrics", "la", "--duration", "1"];
    ask(&dir, "plan", &args).succeeded();
    dir.run(&["generate", "--request", "plan.json", "-o", "a.wav"]).succeeded();
    dir.thinking(&["rain", "--lyrics", "la", "--seed", "1", "-o", "b.wav"]).succeeded();
    assert_eq!(dir.read("a.wav"), dir.read("b.wav"));
}

#[test]
fn the_parts_of_a_plan_go_to_files_for_other_programs() {
    let dir = Dir::new();
    let song = ["rain", "--lyrics", "[Verse]\nla", "--duration", "1", "--bpm", "90"];
    let outputs =
        ["--output-codes", "c.txt", "--output-dir", "fields", "--output-text", "said.txt"];
    let run = ask(&dir, "plan", &[&song[..], &outputs].concat()).succeeded();
    let fields = ["caption", "lyrics", "bpm", "duration", "keyscale", "timesignature", "language"];
    let written = ["plan.json", "c.txt", "said.txt"].map(str::to_owned).into_iter();
    let written: Vec<_> = written.chain(fields.map(|name| format!("fields/{name}"))).collect();
    assert_eq!(run.text().lines().collect::<Vec<_>>(), written);
    assert_eq!(names(&dir.path("fields")).len(), 7);
    let plan = dir.json("plan.json");
    let field = |name: &str| dir.text(format!("fields/{name}"));
    assert_eq!((field("bpm"), field("duration")), ("90".into(), "1".into()));
    assert_eq!(field("lyrics"), "[Verse]\nla");
    assert_eq!(field("caption"), plan["caption"].as_str().expect("a text"));
    assert_eq!(dir.read("c.txt"), plan["audio_codes"].as_str().expect("a text").as_bytes());
    assert!(dir.read("said.txt").starts_with(b"<think>\nbpm: 90\n"));

    let codes = ["--audio-codes", "@c.txt", "--lyrics", "[Verse]\nla", "--json", "-o", "a.wav"];
    let song = dir.run(&[&["generate", "rain", "--model", "tiny"], &codes[..]].concat());
    assert_eq!(song.succeeded().json()["plan"]["audio_codes"], 5);

    let two =
        ["rain", "--duration", "1", "--batch-size", "2", "-o", "-", "--output-codes", "c.txt"];
    let run = ask(&dir, "plan", &two).succeeded();
    // Standard output contains only the request.
    let plan = run.json();
    for (i, name) in ["c_1.txt", "c_2.txt"].into_iter().enumerate() {
        let codes = plan["audio_codes"][i].as_str().expect("a text");
        assert_eq!(dir.read(name), codes.as_bytes());
    }
}

#[test]
fn existing_files_are_kept_without_force() {
    let dir = Dir::new();
    fs::create_dir(dir.path("fields")).expect("a folder");
    for (name, args) in [
        ("plan.json", &[][..]),
        ("c.txt", &["--output-codes", "c.txt"]),
        ("t.txt", &["--output-text", "t.txt"]),
        ("fields/bpm", &["--output-dir", "fields"]),
    ] {
        dir.write(name, "mine");
        let args = [&["rain", "--duration", "1"], args].concat();
        ask(&dir, "plan", &args).failed(1).says(&format!("`{name}` exists already"));
        assert_eq!(dir.read(name), b"mine");
        ask(&dir, "plan", &[&args[..], &["--force"]].concat()).succeeded();
        assert_ne!(dir.read(name), b"mine");
        fs::remove_file(dir.path("plan.json")).expect("it was written");
    }
}

#[test]
fn outputs_that_cannot_be_are_refused_before_any_work() {
    let dir = Dir::new();
    dir.write("file", "");
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
        ask(&dir, "plan", &[&["rain", "--duration", "1"], args].concat()).failed(code).says(says);
    }
    assert_eq!(dir.files(), ["file"]);
}

#[test]
fn a_folder_that_is_new_takes_the_other_outputs_too() {
    let dir = Dir::new();
    let outputs = ["-o", "a/plan.json", "--output-dir", "./a/b", "--output-text", "a/b/said"];
    let args = ["rain", "--duration", "1", "--no-codes"];
    ask(&dir, "plan", &[&args[..], &outputs].concat()).succeeded();
    assert_eq!(names(&dir.path("a")), ["b", "plan.json"]);
    assert_eq!(names(&dir.path("a/b")).len(), 8);
}

#[test]
fn the_marker_of_an_instrumental_is_no_lyrics() {
    let dir = Dir::new();
    for marker in ["[Instrumental]", " [INST]\n"] {
        let args = ["rain", "--instrumental", "--lyrics", marker, "--no-codes", "-o", "-"];
        ask(&dir, "plan", &args).succeeded();
    }
    let args = ["rain", "--instrumental", "--lyrics", "la", "--no-codes"];
    ask(&dir, "plan", &args).failed(2).says("exclude each other");
}

#[test]
fn codes_of_the_request_are_left_out_with_a_word() {
    let dir = Dir::new();
    dir.write("r.json", r#"{"caption": "rain", "duration": 1, "audio_codes": "5,17,9"}"#);
    let args = ["--request", "r.json", "--no-codes", "-o", "-"];
    let run = ask(&dir, "plan", &args).succeeded();
    assert_eq!(run.json().get("audio_codes"), None);
    run.says("note: the request's audio codes are not used: it is planned again, without codes");
}

#[test]
fn json_has_the_request_and_what_the_model_did() {
    let dir = Dir::new();
    let args = ["rain", "--duration", "1", "--batch-size", "2", "--json"];
    let object = ask(&dir, "plan", &args).succeeded().json();
    let keys: Vec<_> = object.as_object().expect("an object").keys().collect();
    let expected =
        ["request", "metadata", "text", "outputs", "notices", "language_model", "elapsed"];
    assert_eq!(keys, expected);
    assert_eq!(object["request"], dir.json("plan.json"));
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
    let dir = Dir::new();
    // The text is sampled once, so the songs need no common length here.
    let args = ["plan", "rain", "--model", "tiny", "--seed", "1,7,9", "--no-codes", "-o", "-"];
    let run = dir.run(&[&args[..], &DRAWS].concat()).succeeded();
    assert_eq!(run.json()["seed"], json!([1, 7, 9]));
    assert_eq!(run.json().get("audio_codes"), None);
    assert!(dir.files().is_empty());
}

#[test]
fn an_inspiration_needs_a_description_and_writes_the_rest() {
    let dir = Dir::new();
    let run = ask(&dir, "inspire", &["a lullaby", "--duration", "60", "-o", "-"]).succeeded();
    let request = run.json();
    assert_ne!(request["caption"], "a lullaby");
    assert!(request["lyrics"].is_string());
    assert_eq!(request["duration"], 60.0);
    assert_eq!(request.get("audio_codes"), None);
    let args = ["a lullaby", "--duration", "1", "--codes", "--instrumental", "-o", "-"];
    let request = ask(&dir, "inspire", &args).succeeded().json();
    assert_eq!(request["audio_codes"].as_str().expect("a text").split(',').count(), 5);
    for nothing in [&[][..], &[""], &["--caption", " "]] {
        ask(&dir, "inspire", nothing).failed(2).says("there is no description to be inspired by");
    }
    let run = ask(&dir, "inspire", &["a lullaby", "--lyrics", "la"]).failed(2);
    run.says("`--lyrics` has no place: inspire writes the lyrics").says("acestep plan");
    ask(&dir, "plan", &[]).failed(2).says("caption and lyrics are both empty");
    ask(&dir, "format", &[]).failed(2).says("caption and lyrics are both empty");
}

#[test]
fn formatting_keeps_the_users_numbers() {
    let dir = Dir::new();
    let args = ["rock", "--lyrics", "la la", "--bpm", "140", "--vocal-language", "de", "-o", "-"];
    let request = ask(&dir, "format", &args).succeeded().json();
    assert_eq!((&request["bpm"], &request["vocal_language"]), (&json!(140), &json!("de")));
    assert_ne!(request["caption"], "rock");
    let run = ask(&dir, "format", &["rock", "--lyrics", "la", "--instrumental"]).failed(2);
    run.says("exclude each other");
}

#[test]
fn an_instruction_of_ones_own_is_asked_in_place_of_the_models() {
    let dir = Dir::new();
    let own = |system: &str, user: &str| {
        let args = ["--system", system, "--user", user, "--no-codes", "-o", "-"];
        ask(&dir, "plan", &args).succeeded().json()
    };
    assert!(own("Write a sea shanty", "about a lighthouse")["caption"].is_string());
    ask(&dir, "plan", &["--system", "Write"]).failed(2).says("--user <TEXT>");
    ask(&dir, "plan", &["--user", "Write"]).failed(2).says("--system <TEXT>");
    let both = ["rain", "--system", "Write", "--user", "it"];
    ask(&dir, "plan", &both).failed(2).says("[CAPTION]' cannot be used with");
    ask(&dir, "plan", &["rain", "--user", "it"]).failed(2).says("'--user <TEXT>'");
}

#[test]
fn genres_are_read_from_a_file() {
    let dir = Dir::new();
    dir.write("genres.txt", "# mine\nlo-fi hip hop\n\njazz\n");
    dir.write("empty.txt", "# none\n\n");
    let args = |file: &'static str| ["a lullaby", "-o", "-", "--genres", file];
    ask(&dir, "inspire", &args("genres.txt")).succeeded();
    ask(&dir, "inspire", &args("empty.txt")).failed(1).says("error: `empty.txt` names no genre");
    ask(&dir, "inspire", &args("no.txt")).failed(1).says("cannot read `no.txt`");
}

#[test]
fn what_was_written_is_kept_where_it_cannot_be_used() {
    let dir = Dir::new();
    let args = ["rain", "--max-tokens", "5", "--output-text", "said.txt"];
    let run = ask(&dir, "plan", &args);
    assert_eq!((run.code, run.text()), (Some(1), "said.txt\n"), "{}", run.stderr);
    assert!(dir.read("said.txt").starts_with(b"<think>"));
    assert_eq!(dir.files(), ["said.txt"]);
    ask(&dir, "plan", &[&args[..], &["--force", "--json"]].concat()).failed(1);
}

#[test]
fn a_language_model_from_a_folder_is_the_built_in_one() {
    let dir = Dir::new();
    dir.language_model();
    let args = ["rain", "--lyrics", "la", "--duration", "1", "-o", "-"];
    let built_in = ask(&dir, "plan", &args).succeeded();
    for choice in [&["--lm-model", "0.6B"][..], &["--lm-model", "./acestep-5Hz-lm-0.6B"]] {
        let run = ask(&dir, "plan", &[&args[..], &["--models-dir", "."], choice].concat());
        assert_eq!(run.succeeded().stdout, built_in.stdout, "{choice:?}");
    }
}

#[test]
fn a_folder_that_is_no_language_model_is_refused() {
    let dir = Dir::new();
    let model = dir.language_model();
    dir.checkpoint();
    let run =
        |path: &str| ask(&dir, "plan", &["rain", "--duration", "1", "--force", "--lm-model", path]);
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
