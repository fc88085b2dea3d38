//! `acestep check` on the processor: what it writes, and how it fails.

use serde_json::Value;

use crate::{Place, names};

/// The report, after a run that wrote it.
fn report(place: &Place, out: &str) -> (Value, String) {
    let page = String::from_utf8(place.read(&format!("{out}/check.md"))).expect("UTF-8");
    (place.json(&format!("{out}/check.json")), page)
}

#[test]
fn a_quick_check_of_kernels_and_lengths_passes_and_is_written_down() {
    let place = Place::new();
    let args = ["check", "--device", "cpu", "--quick", "--only", "kernels,lengths"];
    let mut command = place.command(&[&args[..], &["--out", "a/b"]].concat());
    let output = command.env("ACESTEP_COMMIT", "abc1234").output().expect("runs");
    let run = crate::Run::from(output).succeeded();
    assert_eq!(run.text(), "a/b/check.json\na/b/check.md\n");
    assert_eq!(names(&place.path("a/b")), ["check.json", "check.md"]);
    assert!(run.stderr.contains("kernels    1/16  rms_norm 3 x 5\n"), "{}", run.stderr);

    let (json, page) = report(&place, "a/b");
    assert_eq!((&json["commit"], &json["quick"]), (&"abc1234".into(), &true.into()));
    assert_eq!(json["machine"]["device"], "cpu");
    let part = |index: usize| -> [u64; 2] {
        ["passed", "failed"].map(|key| json["parts"][index][key].as_u64().expect("a count"))
    };
    let types = json["kernels"].as_array().expect("kernels").len() / 16;
    assert_eq!((part(0), part(1)), ([16 * types as u64, 0], [2, 0]));
    // Plain operations and kernels of the processor differ by rounding, and the song not at all.
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
    let place = Place::new();
    std::fs::create_dir_all(place.path("set/logic")).expect("a folder");
    let golden = |name: &str| {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/goldens/a");
        std::fs::read_to_string(root.join(name)).expect("a golden")
    };
    let yaml = golden("logic/cot_yaml.json");
    let mut changed: Value = serde_json::from_str(&yaml).expect("JSON");
    changed["parse_lm_output"][5]["lyrics"] = "other words".into();
    place.write("set/logic/cot_yaml.json", changed.to_string());
    let silence = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../tests/goldens/a/silence.safetensors");
    std::fs::copy(silence, place.path("set/silence.safetensors")).expect("a golden");

    let only = ["--only", "verify,lengths", "--goldens", "set"];
    let run = place.run(&[&["check", "--device", "cpu", "--quick"], &only[..]].concat());
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    let (json, page) = report(&place, ".");
    let name = "logic/cot_yaml.json: parse_lm_output.5.lyrics";
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
fn what_cannot_be_read_ends_the_check_before_it_begins() {
    let place = Place::new();
    std::fs::create_dir(place.path("empty")).expect("a folder");
    place.write("file", "");
    let check = |args: &[&str]| {
        let cpu: &[&str] = if args.contains(&"--device") { &[] } else { &["--device", "cpu"] };
        place.run(&[&["check", "--quick"], cpu, args].concat())
    };
    check(&["--goldens", "empty"]).failed(1).says("holds no goldens");
    check(&["--goldens", "nowhere"]).failed(1).says("cannot list \"nowhere\"");
    check(&["--models", "empty"]).failed(1).says("model `turbo` is not on this machine");
    check(&["--only", "kernels", "--out", "file"]).failed(1).says("cannot make the folder `file`");
    check(&["--device", "abacus"]).failed(2).says("abacus");
    assert_eq!(check(&["--only", "everything"]).code, Some(2));
    assert_eq!(place.files(), ["empty", "file"]);
}

#[test]
fn the_help_page_is_this() {
    let run = Place::new().run(&["check", "--help"]).succeeded();
    insta::assert_snapshot!("help", run.text());
}
