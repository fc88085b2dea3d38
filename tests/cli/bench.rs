//! `bench`: measurements, output and usage errors.

use std::fs;

use crate::Dir;

#[test]
fn bench_refuses_durations_no_song_has() {
    for duration in ["0", "nan", "-1", "1e9"] {
        let argument = format!("--duration={duration}");
        let run = Dir::new().run(&["bench", "--preset", "vae", &argument]).failed(2);
        run.says("out of range");
    }
}

/// The second run replaces the section that the first run wrote.
#[test]
fn results_become_a_section_of_a_page_that_keeps_the_rest() {
    let dir = Dir::new();
    let bench = ["bench", "--preset", "vae", "--stage", "vae", "--duration", "0.2", "--json", "-q"];
    let bench = [&bench[..], &["--dtype", "f32"]].concat();
    let run = dir.run(&bench).succeeded();
    fs::write(dir.path("a.json"), &run.stdout).expect("a file");
    let report = run.json();
    assert!(report["threads"].as_u64() > Some(0), "{report}");
    assert!(report["ceilings"]["registers"]["f32_flop_per_s"].as_f64() > Some(1e8), "{report}");
    let rows =
        r#"{"preset": "turbo", "stage": "vae", "dtype": "f32", "duration_s": 0.2, "wall_s": 0.5}"#;
    let peer = format!(r#"{{"name": "Other 1.0", "threads": 2, "rows": [{rows}]}}"#);
    fs::write(dir.path("peer.json"), peer).expect("a file");

    fs::write(dir.path("page.md"), "# Speed\n\nWords of ours.\n").expect("a page");
    let page = ["bench", "--from", "a.json", "--peers", "peer.json", "--page", "page.md"];
    for _ in 0..2 {
        let run = dir.run(&page).succeeded();
        assert_eq!(run.text(), "");
        let text = fs::read_to_string(dir.path("page.md")).expect("the page");
        assert!(text.starts_with("# Speed\n\nWords of ours.\n\n<!-- acestep bench: "), "{text}");
        assert_eq!(text.matches("### vae, 0.2 s").count(), 1, "{text}");
        assert!(text.contains("| Other 1.0 |") && text.contains("| 500 ms ("), "{text}");
    }

    let twice = dir.run(&["bench", "--from", "a.json", "--from", "a.json", "--page", "page.md"]);
    twice.failed(2).says("vae vae of 0.2 s in f32 on cpu twice");
}

#[test]
fn what_is_no_whole_result_is_an_error_that_names_the_file() {
    let dir = Dir::new();
    for text in ["", "{\"version\": \"0.1.0\", \"stages\": [{\"stage\": \"vae\"", "{}", "no JSON"] {
        fs::write(dir.path("cut.json"), text).expect("a file");
        let run = dir.run(&["bench", "--from", "cut.json", "--page", "page.md"]);
        assert_eq!(run.code, Some(1), "{text}");
        let message = "error: `cut.json` is not a whole result of `bench` in JSON\n  cause: ";
        assert!(run.stderr.starts_with(message), "{}", run.stderr);
        assert!(!dir.path("page.md").exists());
    }
    let run = dir.run(&["bench", "--from", "nowhere.json", "--page", "page.md"]);
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.starts_with("error: cannot read `nowhere.json`"), "{}", run.stderr);
    // Before anything is measured.
    dir.run(&["bench", "--page", "nowhere/a.md"]).failed(1).says("cannot create `nowhere/a.md`");
}

#[test]
fn bench_refuses_what_it_would_not_use() {
    let dir = Dir::new();
    for args in [
        &["--from", "a.json"][..],
        &["--peers", "a.json"],
        &["--from", "a.json", "--page", "b.md", "--preset", "vae"],
        &["--from", "a.json", "--page", "b.md", "--dtype", "bf16"],
        &["--stage", "load"],
        &["--preset", "vae", "--stage", "dit"],
    ] {
        let run = dir.run(&[&["bench"], args].concat());
        assert_eq!(run.code, Some(2), "{args:?}: {}", run.stderr);
    }
    let run = dir.run(&["bench", "--preset", "turbo", "--stage", "mimi"]).failed(2);
    run.says("hint: leave out --stage, or pass --preset dia2-1b or dia2-2b\n");
}

/// Loads encoder and decoder of the autoencoder that is built into the program. The released decoder needs 24.37
/// GFLOP for five frames.
#[test]
fn bench_loads_networks_and_reports_time_cost_and_share_of_the_machine() {
    let vae = ["bench", "--preset", "vae", "--stage", "vae", "--duration", "0.2"];
    let args = [&vae[..], &["--model", "tiny", "--json", "-q"]].concat();
    let report = Dir::new().run(&args).succeeded().json();
    assert_eq!(report["preset"], "vae");
    let stages = report["stages"].as_array().expect("stages");
    let names: Vec<_> = stages.iter().map(|stage| stage["stage"].as_str()).collect();
    assert_eq!(names, [Some("load"), Some("load"), Some("vae")]);
    let unit = stages[0]["unit"].as_str().expect("a text");
    assert!(unit.starts_with("VAE decoder, files of"), "{unit}");
    // Built-in weights need no reading, so there is no lower bound of the time.
    assert_eq!(stages[0]["floor_s"], 0.0);

    let stage = &stages[2];
    let number = |key: &str| stage[key].as_f64().unwrap_or_else(|| panic!("no {key}: {stage}"));
    assert_eq!(number("flop"), 24_370_544_640.0);
    assert!(number("wall_s") > 0.0 && number("cpu_s") > 0.0 && number("runs") >= 1.0);
    let ceiling = report["ceilings"]["flop_per_s"].as_f64().expect("a ceiling");
    let share = number("flop") / number("wall_s") / ceiling;
    assert!((number("flop_share_of_ceiling") / share - 1.0).abs() < 1e-6);
}

/// Keys and values of 30 layers, two rows, 8 heads of 128 numbers in f32, 125 steps: 61.44 MB.
#[test]
fn the_copy_of_a_kept_voice_is_measured() {
    let args = ["bench", "--preset", "dia2-1b", "--stage", "snapshot", "--json", "-q"];
    let report = Dir::new().run(&args).succeeded().json();
    let stage = &report["stages"][0];
    assert_eq!(stage["unit"], "2 rows of 125 steps");
    let (rate, time) = (stage["rate"]["value"].as_f64(), stage["wall_s"].as_f64());
    let bytes = rate.expect("a rate") * time.expect("a time") * 1e9;
    assert!((bytes - 61_440_000.0).abs() < 1.0, "{bytes}");
}

#[test]
fn a_sustained_load_is_for_speech_and_has_a_length() {
    let bench = |args: &[&str]| Dir::new().run(&[&["bench"], args].concat()).failed(2);
    bench(&["--stress", "5"]).says("is not for the preset turbo").says("qwen3-tts-0.6b");
    bench(&["--stress", "5", "--preset", "dia2-1b"])
        .says("`--stress` is not for the preset dia2-1b");
    bench(&["--stress", "0", "--preset", "qwen3-tts-0.6b"]).says("out of range: 0.01 to 1440");
    bench(&["--stress", "1", "--stage", "dit"]).says("cannot be used with");
}
