//! `acestep verify`: the goldens pass, and errors are found.

use std::{fs, path::Path};

use safetensors::{SafeTensors, tensor::TensorView};
use serde_json::{Value, json};

use super::{Dir, copy, goldens};

/// Returns the report of a set, and the exit code.
fn verify(dir: &Dir, set: &Path, models: &Path) -> (Value, Option<i32>) {
    let [set, models] = [set, models].map(|path| path.display().to_string());
    let run = dir.run(&["verify", "--goldens", &set, "--models", &models, "--json"]);
    let report = serde_json::from_slice(&run.stdout);
    (report.unwrap_or_else(|error| panic!("{error}: {}", run.stderr)), run.code)
}

/// Copies goldens of the set `a` into a new set.
pub(super) fn set_of(set: &Path, files: &[impl AsRef<Path>]) {
    for file in files {
        let to = set.join(file);
        fs::create_dir_all(to.parent().expect("a folder")).expect("a folder");
        fs::copy(goldens("a").join(file), to).expect("a golden");
    }
}

/// Changes the exponent of a tensor's first value.
pub(super) fn harm(file: &Path, tensor: &str) {
    let mut bytes = fs::read(file).expect("a file of tensors");
    let tensors = SafeTensors::deserialize(&bytes).expect("safetensors");
    let values = tensors.tensor(tensor).expect("a tensor").data();
    let place_in_file = values.as_ptr() as usize - bytes.as_ptr() as usize;
    bytes[place_in_file + 3] ^= 0x04;
    fs::write(file, bytes).expect("a changed file");
}

fn failed(report: &Value) -> Vec<&Value> {
    report["cases"].as_array().expect("cases").iter().filter(|case| case["pass"] == false).collect()
}

/// Returns the number of cases that passed, failed and were skipped.
fn counts(report: &Value) -> [u64; 3] {
    ["passed", "failed", "skipped"].map(|key| report[key].as_u64().expect("a count"))
}

/// Goldens: `tests/goldens/a` and `xl`, created by the reference in f32, and some of them in bf16.
#[test]
fn every_computed_case_of_the_public_sets_equals_the_reference() {
    let dir = Dir::new();
    for (set, models, expected) in [
        ("a", "checkpoints_a", [301, 0, 335]),
        ("xl", "checkpoints_xl", [82, 0, 3]),
        ("qwen3_tts", "checkpoints_qwen3_tts", [190, 0, 17]),
        ("dia2", "checkpoints_dia2", [66, 0, 8]),
        ("magpie", "checkpoints_magpie", [143, 0, 135]),
    ] {
        let (report, code) = verify(&dir, &goldens(set), &goldens(models));
        assert_eq!(failed(&report), Vec::<&Value>::new(), "set {set}");
        // A skipped case must not pass unnoticed.
        assert_eq!((counts(&report), code), (expected, Some(0)), "set {set}");
    }
}

/// Each case stores its own type.
#[test]
fn a_type_is_only_for_a_model_that_is_compared_with_itself() {
    let verify = |args: &[&str]| Dir::new().run(&[&["verify"], args].concat());
    verify(&["--dtype", "bf16"]).failed(2).says("--model");
    verify(&["--model", "tiny-speech", "--goldens", "a"]).failed(2).says("cannot be used with");
    verify(&["--model", "tiny-speech", "--frames", "0"]).failed(2).says("--frames");
    let run = verify(&["--model", "tiny-speech", "--frames", "4", "--json"]).succeeded();
    let found = run.json();
    assert_eq!((&found["dtype"], &found["frames"]), (&"bf16".into(), &4.into()));
    let codes = found["codes"].as_array().expect("a share for each codebook");
    assert!(codes.len() == 16 && codes.iter().all(|share| share.as_f64() > Some(0.5)), "{found}");
    assert!(found["logits"].as_f64() < Some(0.02), "{found}");
}

#[test]
fn number_streams_equal_the_reference() {
    let dir = Dir::new();
    let set = goldens("rng").display().to_string();
    let run = dir.run(&["verify", "--goldens", &set, "-q"]);
    assert_eq!((run.code, run.text()), (Some(0), "cpu: 22 passed, 0 failed, 1 skipped\n"));
}

#[test]
fn the_built_in_set_passes_without_any_file() {
    let run = Dir::new().run(&["verify", "--json"]);
    let report = run.json();
    assert_eq!((run.code, counts(&report)), (Some(0), [180, 0, 47]));
    assert_eq!(report["device"], "cpu");
    let keys: Vec<String> =
        report["cases"][0].as_object().expect("a case").keys().cloned().collect();
    let promised = "file case component max_abs relative_rms tolerance pass skipped failed";
    assert_eq!(keys.join(" "), promised, "the form of a case");
    let mut cases = report["cases"].as_array().expect("cases").iter();
    let case = cases.find(|case| case["case"] == "build_dit_inputs.0.caption_ids_full");
    let why = "needs the real vocabulary: pass `--tokenizer DIR`";
    assert_eq!(case.expect("a case")["skipped"], why);
}

/// The velocity of the first case is changed. The source of the second has twice the frames and half
/// the channels of its noise, so no network can concatenate them.
#[test]
fn a_changed_golden_and_a_case_that_panics_fail_and_the_others_go_on() {
    let dir = Dir::new();
    let set = dir.path("set");
    copy(&goldens("xl"), &set);
    let file = set.join("dit_forward.safetensors");
    harm(&file, "case0.velocity");
    let bytes = fs::read(&file).expect("a file of tensors");
    let tensors = SafeTensors::deserialize(&bytes).expect("safetensors");
    let altered = tensors.iter().map(|(name, view)| {
        let mut shape = view.shape().to_vec();
        if name == "case1.context_latents" {
            shape = vec![shape[0], 2 * shape[1], shape[2] / 2];
        }
        (name, TensorView::new(view.dtype(), shape, view.data()).expect("as many bytes"))
    });
    let altered = safetensors::serialize(altered, None).expect("safetensors");
    fs::write(file, altered).expect("a changed file");

    let (report, code) = verify(&dir, &set, &goldens("checkpoints_xl"));
    assert_eq!(code, Some(1));
    let (panicked, changed): (Vec<&Value>, Vec<&Value>) = failed(&report)
        .into_iter()
        .partition(|case| case["case"].as_str().is_some_and(|name| name.starts_with("case1.")));
    let names: Vec<&Value> = changed.iter().map(|case| &case["case"]).collect();
    assert_eq!(names, ["case0.velocity"]);
    let velocity =
        panicked.iter().find(|case| case["case"] == "case1.velocity").expect("it failed");
    let why = velocity["failed"].as_str().expect("a reason");
    assert!(why.starts_with("it panicked: ") && !why.contains('\n'), "{why}");
    // As many cases as in `every_computed_case_of_the_public_sets_equals_the_reference`.
    let [passed, failed, skipped] = counts(&report);
    assert_eq!((passed + failed, skipped), (82, 3));
    assert!(failed < 20, "{failed}");

    for other in ["audio_tokenizer", "cond_encoder"] {
        fs::remove_file(set.join(other).with_extension("safetensors")).expect("a golden");
    }
    let models = goldens("checkpoints_xl").display().to_string();
    let run = dir.run(&["verify", "--goldens", "set", "--models", &models, "-q"]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(1), ""));
    let line = run.text().lines().find(|line| line.contains("case1.velocity")).expect("a line");
    assert!(line.starts_with("FAIL  DiT ") && line.contains("  it panicked: "), "{line}");
}

/// The second file is cut, which ends the run. The results before it must be printed by then.
#[test]
fn each_result_is_printed_when_it_is_there() {
    let dir = Dir::new();
    let set = dir.path("set");
    fs::create_dir(&set).expect("a folder");
    fs::copy(goldens("xl").join("silence.safetensors"), set.join("silence.safetensors"))
        .expect("a golden");
    fs::write(set.join("vae_decode.safetensors"), "cut").expect("a file");
    let models = goldens("checkpoints_xl").display().to_string();
    let run = dir.run(&["verify", "--goldens", "set", "--models", &models]);
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("not a whole safetensors file"), "{}", run.stderr);
    assert!(run.text().starts_with("pass  silence "), "{}", run.text());
    assert_eq!(run.text().lines().count(), 1, "{}", run.text());
}

#[test]
fn a_changed_weight_of_the_language_model_fails_from_its_layer_on() {
    let dir = Dir::new();
    let (set, models) = (dir.path("set"), dir.path("models"));
    set_of(&set, &["lm.safetensors", "manifest.json"]);
    let folder = models.join("acestep-5Hz-lm-0.6B");
    copy(&goldens("checkpoints_a").join("acestep-5Hz-lm-0.6B"), &folder);
    let (report, code) = verify(&dir, &set, &models);
    assert_eq!((counts(&report), code), ([11, 0, 0], Some(0)));

    harm(&folder.join("model.safetensors"), "model.norm.weight");
    let (report, code) = verify(&dir, &set, &models);
    assert_eq!(code, Some(1));
    let names: Vec<&Value> = failed(&report).iter().map(|case| &case["case"]).collect();
    let expected = [
        "case0.act.norm.out",
        "case0.prefill_logits",
        "case0.decode_logits",
        "case1.prefill_logits",
        "case1.decode_logits",
        "leftpad.logits",
        "leftpad.cfg2_logits",
        "case0.decode_logits_bf16",
        "case1.decode_logits_bf16",
    ];
    assert_eq!(names, expected);
}

#[test]
fn one_changed_word_or_number_fails_and_nothing_else() {
    let changes = [
        ("lm_e2e.json", "/cases/3/calls/0/generated/7", "llm_dit_cfg2.call0.generated"),
        ("lm_e2e.json", "/cases/5/result/metadata/bpm", "llm_dit_two_phase.result"),
    ];
    let dir = Dir::new();
    let set = dir.path("set");
    // A set must have some tensors.
    set_of(&set, &["silence.safetensors"]);
    for (file, pointer, _) in changes {
        let path = if set.join(file).exists() { set.join(file) } else { goldens("a").join(file) };
        let text = fs::read_to_string(path).expect("a golden");
        let mut content: Value = serde_json::from_str(&text).expect("JSON");
        *content.pointer_mut(pointer).expect(pointer) = Value::from(12345);
        fs::write(set.join(file), content.to_string()).expect("a changed golden");
    }
    let (report, code) = verify(&dir, &set, &goldens("checkpoints_a"));
    assert_eq!(code, Some(1));
    let names: Vec<&Value> = failed(&report).iter().map(|case| &case["case"]).collect();
    assert_eq!(names, changes.map(|(_, _, case)| case));
}

/// Creates a vocabulary as large as the real one: the tiny one with additional unused words.
fn large_vocabulary(folder: &Path) {
    let tiny = goldens("checkpoints_a").join("acestep-5Hz-lm-0.6B");
    let text = fs::read_to_string(tiny.join("vocab.json")).expect("a vocabulary");
    let mut ids: Value = serde_json::from_str(&text).expect("JSON");
    let words: Vec<String> = ids.as_object().expect("ids").keys().cloned().collect();
    let mut merges = fs::read_to_string(tiny.join("merges.txt")).expect("merges");
    // Each more token is two of the old ones.
    let (mut id, pairs) =
        (words.len(), words.iter().flat_map(|a| words.iter().map(move |b| (a, b))));
    for (a, b) in pairs {
        let word = format!("{a}{b}");
        if id < 151_643 && ids.get(&word).is_none() {
            ids[word] = Value::from(id);
            merges += &format!("{a} {b}\n");
            id += 1;
        }
    }
    assert_eq!(id, 151_643);
    fs::create_dir_all(folder).expect("a folder");
    fs::write(folder.join("vocab.json"), ids.to_string()).expect("a vocabulary");
    fs::write(folder.join("merges.txt"), merges).expect("merges");
}

/// The real vocabulary is not part of the project. This replacement has the right special tokens
/// and wrong words.
#[test]
fn the_full_goldens_are_computed_with_a_vocabulary_that_is_passed() {
    let dir = Dir::new();
    set_of(&dir.path("set"), &["silence.safetensors", "logic/tokenizer_cases.json"]);
    let models = goldens("checkpoints_a").display().to_string();
    let cases = |tokenizer: &str| -> Vec<Value> {
        let args = ["verify", "--goldens", "set", "--models", &models, "--json"];
        let run = dir.run(&[&args[..], &["--tokenizer", tokenizer]].concat());
        assert_eq!(run.code, Some(1), "{}", run.stderr);
        run.json()["cases"].as_array().expect("cases").clone()
    };
    let outcomes = |cases: &[Value], part: &str| -> [usize; 3] {
        let of = |pass: Value| {
            let fits = |case: &&Value| {
                case["pass"] == pass && case["case"].as_str().is_some_and(|c| c.contains(part))
            };
            cases.iter().filter(fits).count()
        };
        [Value::from(true), Value::from(false), Value::Null].map(of)
    };

    large_vocabulary(&dir.path("alone"));
    large_vocabulary(&dir.path("both/acestep-5Hz-lm-4B"));
    large_vocabulary(&dir.path("both/Qwen3-Embedding-0.6B"));
    // Without a tokenizer.json, one vocabulary serves the language model and the text encoder.
    for tokenizer in ["alone", "both"] {
        let cases = cases(tokenizer);
        // The tests of the tokenizers compare these.
        assert_eq!(outcomes(&cases, "tiny"), [0, 0, 0]);
        assert_eq!(outcomes(&cases, "full_info."), [5, 0, 0]);
        let [passed, failed, skipped] = outcomes(&cases, "full.");
        assert_eq!((passed + failed, skipped), (117, 0));
        assert!(failed > 39, "{failed}");
    }

    fs::remove_dir_all(dir.path("both/acestep-5Hz-lm-4B")).expect("a folder");
    let cases = cases("both");
    assert_eq!(outcomes(&cases, ".lm_"), [0, 0, 78]);
    let case = cases.iter().find(|case| case["case"] == "full.0.lm_ids").expect("a case");
    assert_eq!(case["skipped"], "the directory of `--tokenizer` has only the other tokenizer");
}

/// The tokens after the vocabulary begin at 151643: `<|im_start|>` is the second, `<tts_pad>` the 29th.
#[test]
fn prompts_of_speech_are_read_with_a_vocabulary_that_is_passed() {
    let dir = Dir::new();
    let set = dir.path("set");
    set_of(&set, &["silence.safetensors"]);
    fs::create_dir(set.join("logic")).expect("a folder");
    let full = json!([
        { "text": "", "ids": [151_644, 151_645] },
        { "text": "<tts_pad>", "ids": [151_644, 151_671, 151_645] },
        { "text": "<tts_pad>", "ids": [151_644, 151_672, 151_645] },
    ]);
    let ids = json!({ "strings": { "text": "<|im_start|>{text}<|im_end|>" }, "full": full });
    fs::write(set.join("logic/prompt_ids.json"), ids.to_string()).expect("a golden");
    large_vocabulary(&dir.path("both/Qwen3-Embedding-0.6B"));
    let models = goldens("checkpoints_qwen3_tts").display().to_string();
    let cases = |more: &[&str]| -> Vec<(String, Value)> {
        let args = ["verify", "--goldens", "set", "--models", &models, "--json"];
        let run = dir.run(&[&args[..], more].concat());
        let report = run.json();
        let cases = report["cases"].as_array().expect("cases").iter();
        let own = cases.filter(|case| case["file"] == "logic/prompt_ids.json");
        own.map(|case| (case["case"].as_str().expect("a name").to_owned(), case["pass"].clone()))
            .collect()
    };
    let named = |name: &str, pass: Value| (name.to_owned(), pass);
    let skipped = ["full.0", "full.1", "full.2"].map(|name| named(name, Value::Null));
    assert_eq!(cases(&[]), skipped);
    let told = dir.run(&["verify", "--goldens", "set", "--models", &models]);
    let line = told.text().lines().find(|line| line.contains("full.0")).expect("a case");
    let why = "needs the real vocabulary: pass `--tokenizer DIR`";
    assert!(line.starts_with("skip") && line.ends_with(why), "{line}");
    let compared = [("full.0", true), ("full.1", true), ("full.2", false)];
    let both = |(name, pass): (&str, bool)| {
        [name.to_owned(), format!("{name}.local")].map(|name| named(&name, pass.into()))
    };
    let expected: Vec<_> = compared.into_iter().flat_map(both).collect();
    assert_eq!(cases(&["--tokenizer", "both"]), expected);
}

#[test]
fn a_directory_without_the_real_vocabulary_is_refused() {
    let dir = Dir::new();
    let tiny = goldens("checkpoints_a");
    copy(&tiny.join("acestep-5Hz-lm-0.6B"), &dir.path("broken"));
    dir.write("broken/tokenizer.json", "{}");
    dir.write("file", "");
    fs::create_dir(dir.path("empty")).expect("a folder");
    for (tokenizer, problem) in [
        (tiny.join("acestep-5Hz-lm-0.6B"), "has a vocabulary of 958 tokens, not the real one"),
        (tiny.join("Qwen3-Embedding-0.6B"), "has a vocabulary of 446 tokens, not the real one"),
        (tiny, "has a vocabulary of 446 tokens, not the real one"),
        (dir.path("empty"), "/empty` holds no tokenizer"),
        (dir.path("file"), "/file` is not a directory"),
        (dir.path("nowhere"), "/nowhere` is not a directory"),
        (dir.path("broken"), "/broken` is neither the language model's"),
    ] {
        let tokenizer = tokenizer.display().to_string();
        let run = dir.run(&["verify", "--tokenizer", &tokenizer]).failed(1);
        run.says(problem)
            .says("\nhint: `--tokenizer` takes the folder of a released language model");
    }
}

#[test]
fn what_cannot_be_computed_is_skipped_with_the_reason() {
    let dir = Dir::new();
    let (set, models) = (dir.path("set"), dir.path("models"));
    copy(&goldens("a"), &set);
    copy(&goldens("checkpoints_a").join("vae"), &models.join("vae"));
    fs::copy(set.join("silence.safetensors"), set.join("hologram.safetensors")).expect("a file");
    fs::write(set.join("logic/rules.json"), r#"{"sum": [3]}"#).expect("a file");
    let (report, code) = verify(&dir, &set, &models);
    assert_eq!(code, Some(0));
    let reason = |file: &str| {
        let cases = report["cases"].as_array().expect("cases");
        let case = cases.iter().find(|case| case["file"] == file).expect("a case");
        assert_eq!(case["pass"], Value::Null);
        case["skipped"].as_str().expect("a reason").to_owned()
    };
    assert_eq!(reason("dit_time.safetensors"), "no turbo model among the checkpoints");
    assert_eq!(reason("lm.safetensors"), "no language model among the checkpoints");
    assert_eq!(reason("lm_e2e.json"), "no language model among the checkpoints");
    assert_eq!(reason("hologram.safetensors"), "this version does not know this case");
    assert!(reason("logic/rules.json").starts_with("no network is in it"));
}

#[test]
fn a_folder_without_goldens_or_a_cut_golden_is_an_error() {
    let dir = Dir::new();
    let set = dir.path("set");
    fs::create_dir(&set).expect("a folder");
    let models = goldens("checkpoints_a").display().to_string();
    let args = ["verify", "--goldens", "set", "--models", &models];
    dir.run(&args).failed(1).says("holds no goldens");

    let bytes = fs::read(goldens("a").join("vae_decode.safetensors")).expect("a golden");
    fs::write(set.join("vae_decode.safetensors"), &bytes[..bytes.len() / 2]).expect("half");
    dir.run(&args).failed(1).says("not a whole safetensors file");
}
