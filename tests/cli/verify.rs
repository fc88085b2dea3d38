//! `acestep verify`: the goldens pass, and what is wrong is not passed.

use std::{
    fs,
    path::{Path, PathBuf},
};

use safetensors::SafeTensors;
use serde_json::Value;

use super::Place;

fn goldens(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/goldens").join(name)
}

/// The report of a set, and the exit code.
fn verify(place: &Place, set: &Path, models: &Path) -> (Value, Option<i32>) {
    let [set, models] = [set, models].map(|path| path.display().to_string());
    let run = place.run(&["verify", "--goldens", &set, "--models", &models, "--json"]);
    let report = serde_json::from_slice(&run.stdout);
    (report.unwrap_or_else(|error| panic!("{error}: {}", run.stderr)), run.code)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a listing") {
        let path = entry.expect("an entry").path();
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() { copy(&path, &target) } else { drop(fs::copy(&path, &target)) }
    }
}

fn failed(report: &Value) -> Vec<&Value> {
    report["cases"].as_array().expect("cases").iter().filter(|case| case["pass"] == false).collect()
}

/// Goldens: `tests/goldens/a` and `xl`, made by the reference in f32.
#[test]
fn every_computed_case_of_the_public_sets_equals_the_reference() {
    let place = Place::new();
    for (set, models, least) in [("a", "checkpoints_a", 396), ("xl", "checkpoints_xl", 81)] {
        let (report, code) = verify(&place, &goldens(set), &goldens(models));
        assert_eq!(failed(&report), Vec::<&Value>::new(), "set {set}");
        assert_eq!((report["failed"].as_u64(), code), (Some(0), Some(0)), "set {set}");
        // A case that is skipped instead of computed must not go unseen.
        assert_eq!(report["passed"].as_u64(), Some(least), "set {set}");
    }
}

#[test]
fn number_streams_equal_the_reference() {
    let place = Place::new();
    let set = goldens("rng").display().to_string();
    let run = place.run(&["verify", "--goldens", &set, "-q"]);
    assert_eq!((run.code, run.text()), (Some(0), "cpu: 21 passed, 0 failed, 2 skipped\n"));
}

#[test]
fn the_built_in_set_passes_without_any_file() {
    let run = Place::new().run(&["verify", "--json"]);
    let report: Value = serde_json::from_slice(&run.stdout).expect("JSON");
    assert_eq!((run.code, report["failed"].as_u64()), (Some(0), Some(0)));
    assert_eq!(report["device"], "cpu");
    let keys: Vec<&String> = report["cases"][0].as_object().expect("a case").keys().collect();
    assert_eq!(
        keys,
        ["file", "case", "component", "max_abs", "tolerance", "pass", "skipped"],
        "the promised form of a case"
    );
}

#[test]
fn a_changed_golden_fails_with_exit_code_1() {
    let place = Place::new();
    let set = place.path("set");
    copy(&goldens("xl"), &set);
    let file = set.join("dit_forward.safetensors");
    let mut bytes = fs::read(&file).expect("a golden");
    let tensors = SafeTensors::deserialize(&bytes).expect("safetensors");
    let velocity = tensors.tensor("case0.velocity").expect("a stored output").data();
    let place_in_file = velocity.as_ptr() as usize - bytes.as_ptr() as usize;
    // The exponent of its first value.
    bytes[place_in_file + 3] ^= 0x04;
    fs::write(&file, bytes).expect("a changed golden");
    let (report, code) = verify(&place, &set, &goldens("checkpoints_xl"));
    assert_eq!(code, Some(1));
    let names: Vec<&Value> = failed(&report).iter().map(|case| &case["case"]).collect();
    assert_eq!(names, ["case0.velocity"]);
}

#[test]
fn what_cannot_be_computed_is_skipped_with_the_reason() {
    let place = Place::new();
    let (set, models) = (place.path("set"), place.path("models"));
    copy(&goldens("a"), &set);
    copy(&goldens("checkpoints_a").join("vae"), &models.join("vae"));
    fs::copy(set.join("silence.safetensors"), set.join("hologram.safetensors")).expect("a file");
    let (report, code) = verify(&place, &set, &models);
    assert_eq!(code, Some(0));
    let reason = |file: &str| {
        let cases = report["cases"].as_array().expect("cases");
        let case = cases.iter().find(|case| case["file"] == file).expect("a case");
        assert_eq!(case["pass"], Value::Null);
        case["skipped"].as_str().expect("a reason").to_owned()
    };
    assert_eq!(reason("dit_time.safetensors"), "no turbo model among the checkpoints");
    assert_eq!(reason("hologram.safetensors"), "this version does not know this case");
}

#[test]
fn a_folder_without_goldens_or_a_cut_golden_is_an_error() {
    let place = Place::new();
    let set = place.path("set");
    fs::create_dir(&set).expect("a folder");
    let models = goldens("checkpoints_a").display().to_string();
    let args = ["verify", "--goldens", "set", "--models", &models];
    let run = place.run(&args);
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("holds no goldens"), "{}", run.stderr);

    let bytes = fs::read(goldens("a").join("vae_decode.safetensors")).expect("a golden");
    fs::write(set.join("vae_decode.safetensors"), &bytes[..bytes.len() / 2]).expect("half");
    let run = place.run(&args);
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("not a whole safetensors file"), "{}", run.stderr);
}

#[test]
fn bench_refuses_durations_no_song_has() {
    for duration in ["0", "nan", "-1", "1e9"] {
        let argument = format!("--duration={duration}");
        let run = Place::new().run(&["bench", "--preset", "vae", &argument]);
        assert_eq!(run.code, Some(2), "{duration}");
        assert!(run.stderr.contains("out of range"), "{}", run.stderr);
    }
}

/// 24.37 GFLOP: the arithmetic of the released decoder over five frames.
#[test]
fn bench_reports_time_cost_and_share_of_the_machine() {
    let run = Place::new().run(&["bench", "--preset", "vae", "--duration", "0.2", "--json", "-q"]);
    let report: Value = serde_json::from_slice(&run.stdout).expect("JSON");
    assert_eq!((run.code, &report["preset"]), (Some(0), &Value::from("vae")));
    let stage = &report["stages"][0];
    let number = |key: &str| stage[key].as_f64().unwrap_or_else(|| panic!("no {key}: {stage}"));
    assert_eq!(stage["stage"], "vae");
    assert_eq!(number("flop"), 24_370_544_640.0);
    assert!(number("wall_s") > 0.0 && number("cpu_s") > 0.0 && number("runs") >= 1.0);
    let ceiling = report["ceilings"]["flop_per_s"].as_f64().expect("a ceiling");
    let share = number("flop") / number("wall_s") / ceiling;
    assert!((number("flop_share_of_ceiling") / share - 1.0).abs() < 1e-6);
}
