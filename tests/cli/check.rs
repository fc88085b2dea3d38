//! `acestep check` on the CPU: reports and failures.

use acestep_engine::device::BUILT_IN;
use serde_json::Value;

use crate::{Dir, goldens, names};

/// Reads the report of a run, as JSON and as Markdown.
fn report(dir: &Dir, out: &str) -> (Value, String) {
    let page = dir.text(format!("{out}/check.md"));
    (dir.json(&format!("{out}/check.json")), page)
}

/// Copies a golden file.
fn golden(dir: &Dir, name: &str, to: &str) {
    let to = dir.path(to);
    std::fs::create_dir_all(to.parent().expect("a folder")).expect("a folder");
    std::fs::copy(goldens("a").join(name), to).expect("a golden");
}

#[test]
fn a_quick_check_of_kernels_and_lengths_passes_and_is_written_down() {
    let dir = Dir::new();
    let args = ["check", "--device", "cpu", "--dtype", "f32", "--quick"];
    let args = [&args[..], &["--only", "kernels,lengths,types"]].concat();
    let args = [&args[..], &["--out", "a/b"]].concat();
    let run = dir.run_with(&args, &[("ACESTEP_COMMIT", "abc1234")]).succeeded();
    assert_eq!(run.text(), "a/b/check.json\na/b/check.md\n");
    assert_eq!(names(&dir.path("a/b")), ["check.json", "check.md"]);
    assert!(run.stderr.starts_with("checking cpu ("), "{}", run.stderr);
    assert!(run.stderr.contains("kernels    1/18  rms_norm 3 x 5\n"), "{}", run.stderr);

    let (json, page) = report(&dir, "a/b");
    assert_eq!((&json["commit"], &json["quick"]), (&"abc1234".into(), &true.into()));
    assert_eq!(json["machine"]["device"], "cpu");
    let part = |index: usize| -> [u64; 2] {
        ["passed", "failed"].map(|key| json["parts"][index][key].as_u64().expect("a count"))
    };
    let types = json["kernels"].as_array().expect("kernels").len() / 18;
    assert_eq!((part(0), part(1)), ([18 * types as u64, 0], [2, 0]));
    // Two networks, each in bf16 and in int8.
    assert_eq!(part(2), [4, 0]);
    let rounded = json["rounded"].as_array().expect("rows");
    assert_eq!((&rounded[3]["dtype"], rounded.len()), (&"q8".into(), 4));
    // On the CPU, plain operations and kernels differ by rounding, and songs do not differ.
    let swiglu = json["kernels"].as_array().expect("kernels").iter();
    let mut swiglu = swiglu.filter(|row| row["operation"] == "swiglu" && row["dtype"] == "f32");
    let error = swiglu.next().expect("a row")["error"].as_f64().expect("an error");
    assert!(error < 5e-6, "{error}");
    let song = &json["lengths"][1];
    assert_eq!((&song["seconds"], &song["samples"]), (&6.1.into(), &(152 * 1920).into()));
    assert_eq!((&song["repeats"], &song["sound"]["relative_rms"]), (&true.into(), &0.0.into()));
    assert!(song["quietest"].as_f64().expect("a level") > 1e-2);
    assert!(page.contains("| program | acestep 0.1.0, commit abc1234 |\n"), "{page}");
    assert!(page.contains("| PyTorch | not compared |\n"), "{page}");
    assert!(page.contains("| 6.1 s | f32 | ok | 0.0e0 | 0.0e0 |"), "{page}");
}

#[test]
fn a_golden_that_differs_is_a_failure_and_the_other_parts_run() {
    let dir = Dir::new();
    golden(&dir, "silence.safetensors", "set/silence.safetensors");
    golden(&dir, "../rng/rng.safetensors", "set/rng.safetensors");
    crate::verify::harm(&dir.path("set/rng.safetensors"), "randn.seed0.n5");

    let only = ["--only", "verify,lengths", "--goldens", "set"];
    let run =
        dir.run(&[&["check", "--device", "cpu", "--dtype=f32", "--quick"], &only[..]].concat());
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    let (json, page) = report(&dir, ".");
    let name = "set/rng.safetensors: randn.seed0.n5";
    assert_eq!(json["parts"][0]["problems"], serde_json::json!([name]));
    assert_eq!(json["parts"][0]["failed"], 1);
    assert_eq!(
        (&json["parts"][1]["name"], &json["parts"][1]["passed"]),
        (&"lengths".into(), &2.into())
    );
    assert!(page.contains(&format!("verify failed:\n\n- {name}\n")), "{page}");
    assert!(run.stderr.contains(&format!("note: {name}\n")), "{}", run.stderr);
}

#[test]
fn the_built_in_results_are_compared_once_and_those_in_bf16_have_rows_of_their_own() {
    let dir = Dir::new();
    dir.run(&["check", "--device", "cpu", "--only", "verify"]).succeeded();
    let (json, page) = report(&dir, ".");
    // The same numbers as `verify`.
    assert_eq!(
        (&json["parts"][0]["passed"], &json["parts"][0]["skipped"]),
        (&180.into(), &47.into())
    );
    let rows = json["verified"].as_array().expect("rows");
    for component in ["DiT", "VAE decoder", "text encoder", "language model"] {
        for name in [component.to_owned(), format!("{component} in bf16")] {
            let mut rows = rows.iter().filter(|row| row["component"] == *name);
            let row = rows.next().unwrap_or_else(|| panic!("no {name} in {json:#}"));
            assert!(row["passed"].as_u64() > Some(0) && rows.next().is_none(), "{name}");
            assert!(page.contains(&format!("| built in | {name} | ")), "{page}");
        }
    }
}

#[test]
fn a_folder_of_sets_is_compared_set_by_set_and_one_without_its_checkpoints_fails() {
    let dir = Dir::new();
    golden(&dir, "silence.safetensors", "sets/b/silence.safetensors");
    golden(&dir, "silence.safetensors", "sets/a/silence.safetensors");
    golden(&dir, "../rng/rng.safetensors", "sets/a/rng.safetensors");
    dir.write("sets/README.md", "no set");
    let run = dir.run(&["check", "--device", "cpu", "--only", "verify", "--goldens", "sets"]);
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert!(run.stderr.contains("verify     2/2  stored results, b\n"), "{}", run.stderr);
    let (json, page) = report(&dir, ".");
    let problem = "stored results, b: nothing of it could be compared: are its checkpoints there?";
    assert_eq!(json["parts"][0]["problems"], serde_json::json!([problem]));
    assert!(json["parts"][0]["passed"].as_u64() > Some(0));
    assert!(page.contains("| a | silence | 0 | 0 | 1 |"), "{page}");
    assert!(page.contains("| b | silence | 0 | 0 | 1 |"), "{page}");
}

/// A script can therefore have defaults.
#[test]
fn of_a_flag_that_is_typed_twice_the_last_counts_and_parts_are_added() {
    let dir = Dir::new();
    golden(&dir, "silence.safetensors", "set/silence.safetensors");
    golden(&dir, "../rng/rng.safetensors", "set/rng.safetensors");
    let twice = ["--out", "a", "--goldens", "nowhere", "--out", "b", "--goldens", "set"];
    let parts = ["--only", "verify", "--only", "kernels", "--torch", "python"];
    let rest = ["--device", "abacus", "--device", "cpu", "--quick", "--torch", "python3"];
    let run = dir.run(&[&["check"], &twice[..], &parts, &rest].concat()).succeeded();
    assert_eq!(run.text(), "b/check.json\nb/check.md\n");
    assert_eq!(report(&dir, "b").0["parts"].as_array().map(Vec::len), Some(2));
    run.says(
        "note: `--torch` is not used: PyTorch is measured beside `bench`, which is left out\n",
    );
}

#[test]
fn a_processor_is_checked_only_by_name() {
    let dir = Dir::new();
    let why = if BUILT_IN == ["cpu"] { "this build has only cpu" } else { "none was found" };
    for device in [&[][..], &["--device", "auto"]] {
        let run = dir.run(&[&["check", "--quick"], device].concat()).failed(1);
        run.says(&format!("error: there is no GPU to check: {why}\n"))
            .says("hint: pass `--device cpu` to try the check itself\n");
    }
    assert!(dir.files().is_empty(), "{:?}", dir.files());
}

/// Writes a shell script `text` into the folder and makes it executable.
#[cfg(unix)]
fn program(dir: &Dir, name: &str, text: &str) {
    use std::os::unix::fs::PermissionsExt;

    dir.write(name, format!("#!/bin/sh\n{text}\n"));
    let all = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(dir.path(name), all).expect("a program");
}

/// Runs the script with the folder's program and Python.
#[cfg(unix)]
fn script(dir: &Dir, flags: &[&str]) -> crate::Run {
    let mut command = std::process::Command::new("bash");
    command
        .args(["-c", "PATH=\"$PWD:$PATH\" exec bash \"$0\" \"$@\""])
        .arg(goldens("../../scripts/gpu-check").canonicalize().expect("a script"))
        .args(flags)
        .current_dir(dir.path("."))
        .env("ACESTEP", dir.path("acestep"))
        .env_remove("MODELS")
        .env("TMPDIR", dir.path("."))
        .env("GPU_CHECK_TAR", dir.path("all.tar.gz"));
    crate::Run::of(&mut command).succeeded()
}

/// The program prints its arguments.
#[cfg(unix)]
#[test]
fn the_script_gives_defaults_that_flags_replace() {
    let dir = Dir::new();
    program(&dir, "acestep", "printf '%s\\n' \"$@\"");
    let asked = |has_torch: bool, flags: &[&str]| {
        program(&dir, "python3", &format!("exit {}", u8::from(!has_torch)));
        script(&dir, flags).text().lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let goldens = goldens("").canonicalize().expect("a folder").display().to_string();
    let defaults = ["check", "--goldens", &goldens, "--out", "gpu-check"];
    assert_eq!(asked(false, &[]), defaults);
    assert_eq!(asked(true, &[]), [&defaults[..], &["--torch", "python3"]].concat());
    for (flags, finds_torch) in [
        (&["--torch=py", "--out", "a b"][..], false),
        (&["--only", "verify,kernels"], false),
        (&["--only", "lengths,bench"], true),
    ] {
        let torch: &[&str] = if finds_torch { &["--torch", "python3"] } else { &[] };
        assert_eq!(asked(true, flags), [&defaults[..], torch, flags].concat(), "{flags:?}");
    }
}

/// Runs the script with a program that prints its arguments and fails as `doctor`. Returns its steps
/// without their times.
#[cfg(unix)]
fn visit(dir: &Dir, flags: &[&str]) -> Vec<String> {
    let begin = "test $1 != check || echo 'checking cuda:1 (a card in a box) in f16'; ";
    program(dir, "acestep", &format!("{begin}echo \"$@\"; test \"$1\" != doctor"));
    script(dir, flags);
    let steps = dir.text("gpu-check/steps.txt");
    let ends = steps.lines().filter_map(|line| line.rsplit_once(','));
    ends.map(|(step, _)| step.to_owned()).collect()
}

/// A failed step does not stop the following steps. Speech of all families runs side by side.
#[cfg(unix)]
#[test]
fn every_step_of_a_visit_leaves_its_log() {
    let dir = Dir::new();
    let mut steps = visit(&dir, &["--first", "--device", "cuda:1"]);
    steps[5..8].sort();
    assert_eq!(
        steps,
        [
            "== machine: ok",
            "== doctor: exit code 1",
            "== kernels-quick: ok",
            "== tiny-song: ok",
            "== demo-song: ok",
            "== speak-dia2: ok",
            "== speak-magpie: ok",
            "== speak-qwen3-tts: ok",
            "== demo-song-again: ok"
        ]
    );
    let log = dir.text("gpu-check/kernels-quick.log");
    assert!(log.contains("--only kernels --quick --limit 20 --device cuda:1"), "{log}");
    let song = dir.text("gpu-check/demo-song.log");
    assert!(song.contains("--duration 20 --device cuda:1 --dtype f16"), "{song}");
    for family in ["dia2", "magpie", "qwen3-tts"] {
        let log = dir.text(format!("gpu-check/speak-{family}.log"));
        assert!(log.contains("--device cuda:1 --dtype f16"), "{log}");
        let mut models = log.split_whitespace().filter(|word| word.contains("checkpoints_"));
        assert!(models.all(|path| std::path::Path::new(path).is_dir()), "{log}");
    }
    // A machine that returns few files returns this one.
    let mut list = std::process::Command::new("tar");
    list.args(["-tzf", "all.tar.gz"]).current_dir(dir.path("."));
    let list = String::from_utf8(list.output().expect("tar").stdout).expect("UTF-8");
    let logs = list.lines().filter(|name| name.ends_with(".log")).count();
    assert_eq!((logs, list.contains("demo/")), (9, false), "{list}");
}

/// Sets are compared side by side, and beside the kernels.
#[cfg(unix)]
#[test]
fn a_visit_compares_the_stored_results_of_every_family() {
    let dir = Dir::new();
    let mut steps = visit(&dir, &["--proof"]);
    steps[..7].sort();
    let sets = ["a", "dia2", "magpie", "qwen3_tts", "xl"];
    let expected = ["== kernels: ok", "== lengths: ok"].map(str::to_owned).into_iter();
    let expected = expected.chain(sets.iter().map(|set| format!("== verify-{set}: ok")));
    let songs = ["== song-1s: ok", "== song-600s: ok"].map(str::to_owned);
    assert_eq!(steps, expected.chain(songs).collect::<Vec<_>>());
    for set in sets {
        let log = dir.text(format!("gpu-check/verify-{set}.log"));
        let goldens = log.split_whitespace().rfind(|word| word.starts_with('/')).expect("a path");
        assert!(goldens.ends_with(&format!("/{set}")), "{log}");
        assert!(std::path::Path::new(goldens).join("manifest.json").is_file(), "{log}");
    }
}

#[cfg(unix)]
#[test]
fn a_visit_without_pytorch_says_so_and_measures_the_rest() {
    for (has_torch, flags, steps) in [
        (false, &["--speed"][..], &["== no PyTorch: no comparison", "== speed: ok"][..]),
        (true, &["--speed", "--preset", "vae"], &["== speed: ok"]),
    ] {
        let dir = Dir::new();
        program(&dir, "python3", &format!("exit {}", u8::from(!has_torch)));
        assert_eq!(visit(&dir, flags), steps);
        let log = dir.text("gpu-check/speed.log");
        assert_eq!(log.contains("--torch python3"), has_torch, "{log}");
        assert_eq!(log.matches("--preset").count(), 1, "{log}");
    }
}

/// Speech has presets of its own; without `MODELS` there is no song.
#[cfg(unix)]
#[test]
fn a_visit_measures_speech_on_a_gpu_even_if_none_is_named() {
    let dir = Dir::new();
    let speeds = ["dia2-2b", "magpie-2607", "qwen3-tts-0.6b"];
    let expected = speeds.iter().map(|preset| format!("== speed-{preset}: ok"));
    let expected = expected.chain(["== stress-qwen3-tts: ok".to_owned()]);
    assert_eq!(visit(&dir, &["--whole"]), expected.collect::<Vec<_>>());
    assert!(dir.path("acestep-gpu-check").is_dir(), "songs are written there");
    let log = dir.text("gpu-check/speed-dia2-2b.log");
    assert_eq!(
        log.trim(),
        "bench --preset dia2-2b --stage backbone,depformer,mimi --device cuda:0"
    );
}

/// The fake Python writes a file when it runs.
#[cfg(unix)]
#[test]
fn after_a_press_of_ctrl_c_pytorch_is_not_begun() {
    use std::process::Stdio;

    let dir = Dir::new();
    program(&dir, "python", "touch began");
    let python = dir.path("python").display().to_string();
    let check = ["check", "--device", "cpu", "--dtype", "f32", "--quick", "--preset", "vae"];
    let check = [&check[..], &["--torch", &python, "--only", "bench"]].concat();
    let mut program = crate::running::Running::start(&mut dir.command(&check), Stdio::null());
    program.read_until(|line| line.starts_with("bench "));
    program.interrupt();
    let (code, rest) = program.end();
    assert_eq!(code, Some(130), "{rest}");
    // The report covers the results until then.
    assert_eq!(dir.files(), ["check.json", "check.md", "python"], "{rest}");

    // Without Ctrl-C, Python runs.
    let run = dir.run(&check).succeeded();
    run.says("note: not compared with PyTorch: PyTorch is not there, or does not start\n");
    assert!(dir.files().contains(&"began".to_owned()));
}

#[test]
fn what_cannot_be_read_ends_the_check_before_it_begins() {
    let dir = Dir::new();
    std::fs::create_dir(dir.path("empty")).expect("a folder");
    dir.write("file", "");
    let check = |args: &[&str]| {
        let cpu: &[&str] = if args.contains(&"--device") { &[] } else { &["--device", "cpu"] };
        dir.run(&[&["check", "--quick"], cpu, args].concat())
    };
    check(&["--goldens", "empty"]).failed(1).says("holds no goldens");
    check(&["--goldens", "nowhere"]).failed(1).says("cannot list `nowhere`");
    check(&["--models", "empty"]).failed(1).says("model `turbo` is not on this machine");
    check(&["--only", "kernels", "--out", "file"]).failed(1).says("cannot make the folder `file`");
    check(&["--device", "abacus"]).failed(2).says("abacus");
    // The part `device` exists, but users cannot select it.
    for part in ["everything", "device"] {
        let run = check(&["--only", part]).failed(2);
        run.says("[possible values: verify, kernels, lengths, types, bench]");
    }
    assert_eq!(dir.files(), ["empty", "file"]);
}
