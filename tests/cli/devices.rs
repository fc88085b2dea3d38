//! Devices, dtypes, memory, `doctor` and `warmup`, without a GPU.

use acestep_engine::device::BUILT_IN;

use crate::{Dir, Run};

#[test]
fn a_device_that_is_not_built_in_is_refused_with_what_is() {
    let dir = Dir::new();
    let all = [("cuda", "cuda:0"), ("cuda:7", "cuda:7"), ("wgpu:1", "wgpu:1")];
    for (device, name) in all.into_iter().filter(|(device, _)| !BUILT_IN.contains(&&device[..4])) {
        let run = dir.tiny(&["rain", "--device", device]).failed(1);
        let built_in = BUILT_IN.join(", ");
        run.says(&format!("device `{name}` is not available: this build has only {built_in}"))
            .says("acestep doctor");
    }
    assert!(dir.files().is_empty());
}

#[test]
fn a_type_that_the_processor_does_not_compute_in_is_refused_by_every_verb() {
    let dir = Dir::new();
    dir.write("song.wav", "");
    for verb in [
        &["generate", "rain", "--model", "tiny"][..],
        &["plan", "rain", "--lm-model", "tiny"],
        &["inspire", "rain", "--lm-model", "tiny"],
        &["format", "rain", "--lm-model", "tiny"],
        &["understand", "song.wav", "--lm-model", "tiny"],
        &["bench"],
        &["warmup"],
    ] {
        let run = dir.run(&[verb, &["--dtype", "f16"]].concat()).failed(2);
        run.says("error: `--dtype f16` cannot be used: cpu computes in f32, bf16 or q8");
        let run = dir.run(&[verb, &["--dtype", "int4"]].concat()).failed(2);
        run.says("`--dtype int4` cannot be used: expected auto, f32, bf16, f16 or q8");
    }
    dir.tiny(&["rain", "--dtype", "f32", "--dry-run"]).succeeded().says("on cpu, f32");
    dir.tiny(&["rain", "--dtype", "bf16", "--dry-run"]).succeeded().says("on cpu, bf16");
    dir.tiny(&["rain", "--dtype", "q8", "--dry-run"]).succeeded().says("on cpu, q8");
}

#[test]
fn the_dry_run_says_what_each_stage_holds() {
    let dir = Dir::new();
    let run = dir.thinking(&["rain", "--seed", "7", "--dry-run", "--json"]).succeeded();
    let plan = &run.json()["plan"];
    let stages = plan["memory"]["stages"].as_array().expect("a list").clone();
    let names: Vec<_> = stages.iter().map(|stage| stage["stage"].clone()).collect();
    assert_eq!(names, ["plan", "codes", "text encoder", "condition", "diffusion", "VAE"]);
    let bytes = |stage: usize, key: &str| stages[stage][key].as_u64().expect("a number");
    // The tiny language model has 259 k parameters in bf16.
    assert_eq!(bytes(0, "weights_bytes") / 1000, 517);
    assert_eq!(stages[0]["weights_bytes"], plan["networks"][0]["bytes"]);
    // With guidance, codes use two cache rows.
    assert!(bytes(0, "cache_bytes") > 0 && bytes(1, "cache_bytes") > 0);
    assert_eq!(bytes(5, "cache_bytes"), 0);
    let peak = plan["memory"]["peak_bytes"].as_u64().expect("a number");
    let total = |i| bytes(i, "weights_bytes") + bytes(i, "cache_bytes") + bytes(i, "work_bytes");
    assert_eq!(Some(peak), (0..6).map(total).max());
    // Two songs need twice the work memory of one.
    let longer = dir.thinking(&["rain", "--seed", "7", "--dry-run", "--json", "--batch-size=2"]);
    let longer = longer.json()["plan"]["memory"]["stages"][5]["work_bytes"].as_u64();
    assert_eq!(longer, Some(2 * bytes(5, "work_bytes")));
}

#[test]
fn the_doctor_finds_everything_in_order_with_a_processor_alone() {
    let dir = Dir::new();
    let run = dir.run(&["doctor"]).succeeded();
    assert_eq!(run.stderr, "making a second of a song on cpu\n");
    for text in [
        "ok       acestep ",
        &format!("built with {}\n", BUILT_IN.join(", ")),
        "ok       device cpu ",
        "missing  model others ",
        "hint: run `acestep model pull turbo`",
        "ok       song cpu ",
        "everything that is here works\n",
    ] {
        assert!(run.text().contains(text), "wanted {text:?} in:\n{}", run.text());
    }
    assert!(dir.files().is_empty(), "{:?}", dir.files());
}

#[test]
fn the_level_of_the_cpu_and_the_threads_are_what_is_set() {
    let dir = Dir::new();
    let doctor = |name: &str, value: &str, more: &[&str]| {
        let args = [&["doctor", "--device", "cpu", "--no-song"], more].concat();
        dir.run_with(&args, &[(name, value)])
    };
    let cpu = |run: &Run| {
        let checks = run.json()["checks"].as_array().expect("checks").clone();
        checks.into_iter().find(|check| check["what"] == "device").expect("the CPU")
    };
    let run = doctor("ACESTEP_CPU", "portable", &["--json"]).succeeded();
    let found = cpu(&run);
    assert_eq!((&found["level"], &found["levels"][0]), (&"portable".into(), &"portable".into()));
    assert!(found["detail"].as_str().is_some_and(|text| text.contains(" at level portable, ")));
    let levels = found["levels"].as_array().expect("levels");
    let run = doctor("ACESTEP_CPU", "auto", &["--json"]).succeeded();
    assert_eq!(Some(&cpu(&run)["level"]), levels.last());

    let run = doctor("ACESTEP_CPU", "avx9", &[]).failed(2);
    let names: Vec<&str> = levels.iter().filter_map(|name| name.as_str()).collect();
    let all = format!("no level of this CPU, which has {}\n", names.join(", "));
    run.says("the variable ACESTEP_CPU is `avx9`: ").says(&all);

    let run = doctor("ACESTEP_THREADS", "1", &["--json"]).succeeded();
    assert_eq!(cpu(&run)["threads"], 1);
    doctor("ACESTEP_THREADS", "0", &[]).failed(2).says("a whole number from 1");
    dir.tiny(&["x", "--threads", "1"]).succeeded();
    for count in ["0", "-1", "1025"] {
        let run = dir.tiny(&["x", "--threads", count]).failed(2);
        run.says("--threads <N>': it is a whole number from 1 to 1024");
    }
    doctor("ACESTEP_THREADS", "1000000", &[]).failed(2).says("a whole number from 1 to 1024");
}

#[test]
fn a_type_that_a_device_lacks_is_missing_unless_the_device_was_chosen() {
    let dir = Dir::new();
    let run = dir.run(&["doctor", "--dtype", "f16"]).succeeded();
    assert_eq!(run.stderr, "");
    let line = "missing  song cpu               none made: it does not compute in f16\n";
    assert!(run.text().contains(line), "{}", run.text());
    let run = dir.run(&["doctor", "--dtype", "f16", "--device", "cpu"]);
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    let line = "BROKEN   song cpu               `--dtype f16` cannot be used: cpu computes in f32, bf16 or q8";
    assert!(run.text().contains(line), "{}", run.text());
    let run = dir.run(&["doctor", "--dtype", "int4"]).failed(2);
    run.says("`--dtype int4` cannot be used: expected auto, f32, bf16, f16 or q8");
    for dtype in ["f32", "bf16", "q8"] {
        let run = dir.run(&["doctor", "--dtype", dtype]).succeeded();
        assert!(run.text().contains("ok       song cpu "), "{dtype}: {}", run.text());
        assert!(run.text().contains("; f32, bf16, q8\n"), "{}", run.text());
    }
    dir.run(&["doctor", "--dtype", "bf16", "--device", "cpu"]).succeeded();
}

#[test]
fn the_doctor_ends_with_1_if_what_was_chosen_is_not_there() {
    let dir = Dir::new();
    let run = dir.run(&["doctor", "--device", "cuda:3", "--json"]);
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    let report = run.json();
    assert_eq!(report["ok"], false);
    let checks = report["checks"].as_array().expect("a list");
    let broken: Vec<_> = checks.iter().filter(|check| check["state"] == "broken").collect();
    assert_eq!(broken.len(), 1, "{report}");
    assert_eq!((&broken[0]["what"], &broken[0]["name"]), (&"device".into(), &"cuda:3".into()));
    // Without a device, no song is made.
    assert!(checks.iter().all(|check| check["what"] != "song"));
    dir.run(&["doctor", "--device", "gpu"]).failed(2).says("expected auto, cpu, cuda");
}

#[test]
fn the_doctor_finds_models_and_says_which_are_damaged() {
    let dir = Dir::new();
    dir.checkpoint();
    dir.language_model();
    let doctor = || dir.run(&["doctor", "--no-song", "--models-dir", ".", "--json"]);
    let state_of = |report: &serde_json::Value, name: &str| {
        let checks = report["checks"].as_array().expect("a list").clone();
        let check = checks.into_iter().find(|check| check["name"] == name);
        check.map(|check| check["state"].as_str().unwrap_or_default().to_owned())
    };
    let run = doctor().succeeded();
    for name in ["turbo", "lm-0.6b"] {
        assert_eq!(state_of(&run.json(), name).as_deref(), Some("ok"), "{name}");
    }
    assert_eq!(state_of(&run.json(), "base"), None);
    dir.write("vae/config.json", "{}");
    let run = doctor();
    assert_eq!(run.code, Some(1));
    assert_eq!(state_of(&run.json(), "turbo").as_deref(), Some("broken"));
    assert_eq!(state_of(&run.json(), "lm-0.6b").as_deref(), Some("ok"));
}

#[test]
fn a_processor_needs_no_warming_up() {
    let run = Dir::new().run(&["warmup"]).succeeded();
    run.says("there is nothing to do");
}
