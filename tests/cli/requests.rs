//! Request files: reading, overriding, saving.

use serde_json::{Value, json};

use crate::Dir;

#[test]
fn a_saved_request_makes_the_same_song() {
    let dir = Dir::new();
    let args = ["rain", "--lyrics", "[Verse]\nla", "--bpm", "90", "--keyscale", "F# minor"];
    let more = ["--shift", "2", "--infer-method", "sde", "--save-request", "-o", "a.wav"];
    let run = dir.tiny(&[&args[..], &more].concat()).succeeded();
    assert_eq!(run.text(), "a.wav\na.json\n");
    let run = dir.run(&["generate", "--request", "a.json", "-o", "b.wav"]).succeeded();
    assert!(!run.stderr.contains("not used"), "{}", run.stderr);
    assert_eq!(dir.read("a.wav"), dir.read("b.wav"));
}

#[test]
fn a_saved_request_of_a_model_that_is_a_path_finds_it_again() {
    let dir = Dir::new();
    dir.checkpoint();
    std::fs::create_dir(dir.path("elsewhere")).expect("a folder");
    let args = ["generate", "rain", "--model", "./acestep-v15-turbo", "--duration", "1"];
    let args = [&args[..], &["--no-thinking"]].concat();
    dir.run(&[&args[..], &["--save-request", "-o", "a.wav"]].concat()).succeeded();
    let mut command = dir.command(&["generate", "--request", "../a.json", "-o", "../b.wav"]);
    let output = command.current_dir(dir.path("elsewhere")).output().expect("runs");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(dir.read("a.wav"), dir.read("b.wav"));
}

#[test]
fn a_saved_request_with_codes_or_own_times_or_tiles_makes_the_same_song() {
    let dir = Dir::new();
    for (name, flags) in [
        ("codes", &["--audio-codes", "5,17,9,2,63999", "--audio-cover-strength", "0.5"][..]),
        ("times", &["--timesteps", "1,0.6,0.3", "--rng", "mt19937", "--no-normalization"]),
        ("tiles", &["--vae-chunk", "40", "--vae-overlap", "0"]),
    ] {
        let (a, b) = (format!("{name}.wav"), format!("{name}-again.wav"));
        dir.tiny(&[&["rain", "--save-request", "-o", &a], flags].concat()).succeeded();
        let request = format!("{name}.json");
        dir.run(&["generate", "--request", &request, "-o", &b]).succeeded();
        assert_eq!(dir.read(&a), dir.read(&b), "{name}");
    }
}

#[test]
fn a_saved_request_leaves_nothing_open() {
    let dir = Dir::new();
    dir.tiny(&["rain", "--seed", "7", "--save-request", "-o", "a.wav"]).succeeded();
    assert_eq!(
        dir.json("a.json"),
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
            "thinking": false,
        })
    );
}

#[test]
fn flags_go_before_the_file() {
    let dir = Dir::new();
    let request = json!({ "caption": "rain", "duration": 1, "seed": 1, "timesteps": [1, 0.5, 0] });
    dir.write("r.json", request.to_string());
    let plan = |flags: &[&str]| dir.planned("r.json", flags).succeeded().json()["plan"].clone();
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
    let dir = Dir::new();
    let args = ["generate", "--model", "tiny", "--request", "-", "--dry-run", "--json"];
    let run = dir.run_with_stdin(&args, br#"{"caption": "rain", "duration": 3}"#).succeeded();
    assert_eq!(run.json()["plan"]["frames"], 75);
    let run = dir.run_with_stdin(&[&args[..], &["--lyrics", "@-"]].concat(), b"{}").failed(2);
    run.says("`--request -` and `--lyrics` both read standard input");
}

/// A pipe cannot be read twice, so the request, or a song with one, is read once.
#[cfg(unix)]
#[test]
fn a_request_comes_through_a_pipe_and_in_a_song_too() {
    let dir = Dir::new();
    dir.write("r.json", r#"{"caption": "rain", "duration": 3}"#);
    let args = ["--request", "r.json", "--seed", "1", "-o", "song.wav"];
    dir.tiny(&args).succeeded();
    let wanted = ["generate", "--model", "tiny", "--dry-run", "--json", "--request"];
    for path in ["-", "/dev/stdin"] {
        for content in [dir.read("r.json"), dir.read("song.wav")] {
            let run = dir.run_with_stdin(&[&wanted[..], &[path]].concat(), &content).succeeded();
            assert_eq!(run.json()["plan"]["caption"], "rain", "{path}");
        }
    }
}

/// Relative paths of adapters start at the request's folder, not at the working directory.
///
/// (The file here is empty; the error contains its full path.)
#[test]
fn an_adapter_is_found_beside_its_request() {
    let dir = Dir::new();
    std::fs::create_dir(dir.path("project")).expect("a folder");
    dir.write("project/r.json", r#"{"caption": "rain", "adapter": "mine.safetensors"}"#);
    dir.write("project/mine.safetensors", "");
    let run = dir.tiny(&["--request", "project/r.json", "--dry-run"]).failed(1);
    run.says("project/mine.safetensors` is cut: it has 0 bytes");
}

#[test]
fn a_bad_request_names_the_file_and_the_fault() {
    let dir = Dir::new();
    for (text, says) in [
        (&b"{"[..], "cause: the request is not a JSON object"),
        (b"[]", "cause: the request is not a JSON object"),
        (b"{\"caption\": \"\xff\"}", "the request `r.json` is not UTF-8 text: line 1"),
        (br#"{"captoin": "x"}"#, "hint: did you mean `caption`?"),
        (br#"{"caption": 5}"#, "cause: the request's `caption` is 5, but it must be a text"),
        (br#"{"caption": "x", "global_caption": "y"}"#, "is not in this version"),
    ] {
        dir.write("r.json", text);
        let args = ["generate", "--model", "tiny", "--request", "r.json"];
        dir.run(&args).failed(1).says("r.json").says(says);
    }
    dir.run(&["generate", "--request", "no.json"]).failed(1).says("cannot read `no.json`");
    dir.run(&["generate", "--request", "."]).failed(1).says("cannot read `.`");
}

#[test]
fn the_model_of_a_request_is_used_unless_another_is_typed() {
    let dir = Dir::new();
    dir.checkpoint();
    let plan = |request: &str, more: &[&str]| {
        dir.write("r.json", request);
        let args = ["generate", "--request", "r.json", "--models-dir", ".", "--dry-run", "--json"];
        dir.run(&[&args[..], &["--no-thinking"], more].concat())
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
    run.says("error: the request `r.json` asks for the model `acestep-v15-sft-BF16.gguf`, which cannot be")
        .says("cause: model `acestep-v15-sft-BF16.gguf` is not on this machine")
        .says("acestep model pull sft")
        .says("to make it with another model, pass --model");
    let typed = plan(absent, &["--model", "tiny"]).succeeded();
    assert_eq!(typed.json()["plan"]["model"], "tiny");
}

#[test]
fn what_is_typed_takes_the_place_of_what_excludes_it() {
    let dir = Dir::new();
    let plan = |request: Value, flags: &[&str]| {
        dir.write("r.json", request.to_string());
        dir.planned("r.json", flags).succeeded().json()["plan"].clone()
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

/// In upstream's "simple mode" the language model writes caption and lyrics from a description.
#[test]
fn a_wish_is_the_caption_where_no_language_model_hears_it() {
    let dir = Dir::new();
    dir.write("simple.json", r#"{"description": "a soft love song", "instrumental": true}"#);
    let plan = |flags: &[&str]| dir.planned("simple.json", flags).succeeded();
    let run = plan(&[]);
    assert_eq!(run.json()["plan"]["caption"], "a soft love song");
    assert_eq!(run.json()["plan"]["lyrics"], "[Instrumental]");
    assert_eq!(
        run.json()["notices"][0],
        "`lm_mode` inspire has no effect without the language model, caption and lyrics are used as \
         they stand: pass --thinking to ask it"
    );
    plan(&["--no-thinking"]).says("without the language model the caption is used as it stands");
    assert!(!plan(&["--thinking"]).stderr.contains("without the language model"));
}

#[test]
fn a_saved_request_asks_no_language_model() {
    let dir = Dir::new();
    let request = json!({
        "caption": "rain", "duration": 1, "thinking": true, "lm_model": "acestep-5Hz-lm-4B-Q8_0",
        "lm_mode": "generate", "lm_temperature": 0.5, "lm_cfg_scale": 2.5, "lm_top_k": 5,
        "lm_top_p": 0.5, "lm_repetition_penalty": 1.1, "lm_negative_prompt": "noise", "lm_seed": 3,
        "use_cot_metas": true, "use_cot_caption": true, "use_cot_language": true,
        "use_constrained_decoding": true, "lm_prompt_style": "closed",
    });
    dir.write("r.json", request.to_string());
    let args = ["generate", "--request", "r.json", "--model", "tiny", "--no-thinking"];
    dir.run(&[&args[..], &["--save-request", "-o", "a.wav"]].concat()).succeeded();
    let saved = dir.json("a.json");
    let keys: Vec<_> = saved.as_object().expect("an object").keys().collect();
    assert!(!keys.iter().any(|key| key.starts_with("lm_") || key.starts_with("use_")), "{keys:?}");
    assert_eq!(saved["thinking"], false);
}

#[test]
fn each_song_of_a_request_can_have_codes_of_its_own() {
    let dir = Dir::new();
    let request = json!({ "caption": "rain", "seed": 7, "audio_codes": ["5,17,9", "2,63999,1"] });
    dir.write("r.json", request.to_string());
    let args = ["generate", "--request", "r.json", "--model", "tiny", "--save-request"];
    dir.run(&[&args[..], &["-o", "a.wav"]].concat()).succeeded();
    assert_eq!(dir.json("a.json")["audio_codes"], request["audio_codes"]);
    assert_eq!(dir.json("a.json").get("thinking"), None);
    dir.run(&["generate", "--request", "a.json", "-o", "b.wav"]).succeeded();
    for (a, b) in [("a_1.wav", "b_1.wav"), ("a_2.wav", "b_2.wav")] {
        assert_eq!(dir.read(a), dir.read(b));
    }
    assert_ne!(dir.read("a_1.wav"), dir.read("a_2.wav"));
    let run = dir.run(&[&args[..], &["--batch-size", "3"]].concat()).failed(2);
    run.says("there are audio codes for 2 songs, but 3 are made");
}

#[test]
fn typed_codes_and_thinking_exclude_each_other_and_go_before_the_file() {
    let dir = Dir::new();
    let run = dir.tiny(&["rain", "--audio-codes", "5,6", "--thinking"]).failed(2);
    run.says("`--thinking` writes the codes that `--audio-codes` gives");
    dir.write("thinking.json", r#"{"caption": "x", "thinking": true, "lm_top_k": 5}"#);
    dir.write("codes.json", r#"{"caption": "x", "audio_codes": "5,6,7"}"#);
    let plan = |request: &str, flags: &[&str]| dir.planned(request, flags).succeeded();
    let run = plan("thinking.json", &["--audio-codes", "5,6"]);
    assert_eq!(run.json()["plan"]["audio_codes"], 2);
    assert!(!run.stderr.contains("language model"), "{}", run.stderr);
    let run = plan("codes.json", &["--thinking"]);
    assert_eq!(run.json()["plan"]["audio_codes"], 0);
    run.says("the request's audio codes are not used: --thinking writes new ones");
    let run = plan("codes.json", &["--lm-top-k", "5"]);
    assert_eq!(run.json()["plan"]["audio_codes"], 3);
    run.says("its flags have no effect: the audio codes are there already");
}

#[test]
fn what_the_language_model_cannot_do_is_refused_before_anything_is_read() {
    let dir = Dir::new();
    let free = ["rain", "--thinking", "--batch-size", "2", "--no-constrained-decoding"];
    let run = dir.tiny(&free).failed(2);
    run.says("2 songs are made with one length, which `--no-constrained-decoding`");
    let open = ["--thinking", "--lyrics", "la", "--batch-size", "2", "--no-use-cot-metas"];
    let run = dir.run(&[&["generate", "rain", "--model", "tiny"], &open[..]].concat()).failed(2);
    run.says("2 songs are made with one length, which `--no-use-cot-metas` leaves open");
    dir.tiny(&["rain", "--genres", "no.txt"]).failed(1).says("cannot read `no.txt`");
    dir.write("long.txt", " ".repeat(1_000_001));
    let run = dir.tiny(&["rain", "--lyrics", "@long.txt"]).failed(2);
    run.says("`--lyrics (1000001 characters)` is out of range: at most 1000000 characters");
}
