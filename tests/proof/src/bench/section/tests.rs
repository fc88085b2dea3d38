//! Tests from the output of `--json` to the section of a page.

use serde_json::{Value, json};

use super::*;
use crate::{Host, bench::repeated, families, host::QUIET, measure::BenchStage};

/// A run as `--json` writes it: a step of 380 GFLOP and a token of 0.5e9 weights.
fn run(dtype: &str, preset: &str, load: f64) -> Value {
    let (arithmetic, peak, size) = match dtype {
        "f32" => ("f32 FMA", 500e9, 4.0),
        _ => ("bf16 dot", 900e9, 2.0),
    };
    let (stage, unit, flop, weights, wall_s, rate) = match preset {
        "turbo" => ("dit", "1 step, 125 positions x 1", 380e9, 1.5e9, 1.0, "ms/step"),
        _ => ("lm-decode", "1 code after 281 tokens x 1", 1e9, 0.5e9, 0.1, "codes/s"),
    };
    json!({
        "version": "0.1.0", "date": "2026-11-22 12:00 UTC",
        "device": "cpu", "name": "A processor", "memory_bytes": null, "driver": null,
        "backend": null, "processor": "A processor", "cores": 2, "main_memory_bytes": 25_000_000_000_u64,
        "threads": 2, "load_1m": load,
        "preset": preset, "duration_s": 10.0, "dtype": dtype,
        "ceilings": {
            "flop_per_s": peak, "bytes_per_s": 40e9, "arithmetic": arithmetic,
            "product_flop_per_s": 300e9,
            "registers": {
                "f32_flop_per_s": 500e9, "bf16_flop_per_s": 900e9, "int8_op_per_s": null,
            },
        },
        "stages": [{
            "stage": stage, "unit": unit, "wall_s": wall_s, "cpu_s": 1.9 * wall_s,
            "median_s": 1.1 * wall_s, "runs": 3,
            "rate": { "value": 1000.0 * wall_s, "unit": rate },
            "flop": flop, "weight_bytes": weights * size,
            "flop_per_s": flop / wall_s, "weight_bytes_per_s": weights * size / wall_s,
            "flop_share_of_ceiling": 0.5, "bytes_share_of_ceiling": 0.5,
            "floor_s": 0.5, "binds": "memory", "share_of_floor": 0.5,
            "peak_bytes": 6_700_000_000_u64,
        }],
    })
}

fn read(values: &[Value]) -> Vec<BenchRun> {
    let read = |value: &Value| serde_json::from_value(value.clone()).expect("a run");
    values.iter().map(read).collect()
}

fn torch() -> Peer {
    let row = |stage: &str, preset: &str, wall_s: f64| json!({"preset": preset, "stage": stage, "dtype": "bf16", "duration_s": 10, "wall_s": wall_s});
    let rows = [row("dit", "turbo", 0.75), row("lm-decode", "lm-0.6b", 0.049)];
    serde_json::from_value(json!({"name": "PyTorch 2.15", "threads": 2, "rows": rows}))
        .expect("a peer")
}

#[test]
fn the_section_is_this() {
    let runs = [run("f32", "turbo", 0.1), run("bf16", "turbo", 0.2), run("bf16", "lm-0.6b", 0.2)];
    let runs = read(&runs);
    assert_eq!(name(&runs[0]), "A processor, 2 threads");
    insta::assert_snapshot!(markdown(&runs, &[torch()]));
}

/// A frame of speech does not depend on `--duration`.
#[test]
fn only_music_has_a_length() {
    let mut speech = run("bf16", "dia2-1b", 0.1);
    speech["stages"][0]["stage"] = json!("backbone");
    let text = markdown(&read(&[run("bf16", "turbo", 0.1), speech]), &[]);
    assert!(text.contains("### turbo, 10 s\n"), "{text}");
    assert!(text.contains("### dia2-1b\n"), "{text}");
}

/// Ceilings of another, quieter run of the same machine lower the floor and change the limit: 380e9
/// / 1000e9 s of arithmetic against 6e9 / 12e9 s of memory.
#[test]
fn floors_are_those_of_the_quietest_run() {
    let mut quiet = run("f32", "lm-0.6b", 0.0);
    quiet["ceilings"]["bytes_per_s"] = json!(12e9);
    quiet["ceilings"]["registers"]["f32_flop_per_s"] = json!(1000e9);
    let mut busy = run("f32", "turbo", 3.0);
    busy["ceilings"]["bytes_per_s"] = json!(6e9);
    let text = markdown(&read(&[busy, quiet]), &[]);
    assert!(text.contains("| 1.00 s | 1.10 s | 1.90 s | 500 ms | 50 % | memory |"), "{text}");
    assert!(text.contains("The load average before was above 0.5"), "{text}");
}

#[test]
fn rates_have_three_digits() {
    let rates = [1234.5, 99.94, 9.999, 0.30449].map(short);
    assert_eq!(rates, ["1234", "99.9", "10.00", "0.304"]);
}

#[test]
fn a_quiet_machine_is_not_called_busy() {
    let text = markdown(&read(&[run("f32", "turbo", 0.4)]), &[]);
    assert!(!text.contains("other programs"), "{text}");
}

#[test]
fn results_are_read_as_they_are_written() {
    let [run] = &read(&[run("f32", "turbo", 0.4)])[..] else { panic!("one") };
    let text = serde_json::to_string(run).expect("JSON");
    assert_eq!(serde_json::from_str::<BenchRun>(&text).expect("a run"), *run);
}

#[test]
fn the_same_twice_is_named() {
    let twice =
        read(&[run("f32", "turbo", 0.1), run("bf16", "turbo", 0.1), run("f32", "turbo", 0.1)]);
    assert_eq!(repeated(&twice).as_deref(), Some("turbo dit of 10 s in f32 on cpu"));
    assert_eq!(repeated(&twice[..2]), None);
}

#[test]
fn another_programs_time_counts_only_for_the_same_work() {
    let stage = |name: &str| -> &BenchStage {
        families::STAGES.iter().find(|stage| stage.name == name).expect("a stage")
    };
    let seconds = |value: Value, name| torch().seconds(&read(&[value])[0], stage(name));
    let mut longer = run("bf16", "turbo", 0.1);
    longer["duration_s"] = json!(30.0);
    assert_eq!(seconds(run("bf16", "turbo", 0.1), "dit"), Some(0.75));
    assert_eq!(seconds(run("f32", "turbo", 0.1), "dit"), None);
    assert_eq!(seconds(run("bf16", "turbo", 0.1), "lm-decode"), None);
    assert_eq!(seconds(longer, "dit"), None);
}

#[test]
fn a_file_that_is_cut_or_empty_or_another_is_named_with_its_remedy() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run.json");
    let whole = run("f32", "turbo", 0.1).to_string();
    for text in [&whole[..whole.len() / 2], "", "{}", "[1]", &whole.replace("\"dit\"", "\"dot\"")] {
        std::fs::write(&path, text).expect("a file");
        let error = BenchRun::read(&path).expect_err(text);
        let message = format!("`{}` is not a whole result of `bench` in JSON", path.display());
        assert_eq!(error.to_string(), message);
        assert!(QUIET.hint(&error).is_some_and(|hint| hint.contains("measure again")));
        assert!(error.source().is_some(), "the cause is kept");
    }
    std::fs::write(&path, &whole).expect("a file");
    assert_eq!(BenchRun::read(&path).expect("whole"), read(&[run("f32", "turbo", 0.1)])[0]);
    assert!(Peer::read(&path).is_err());
    let error = BenchRun::read(&folder.path().join("none")).expect_err("absent").to_string();
    assert!(error.starts_with("cannot read `"), "{error}");
}

#[test]
fn a_peer_with_a_time_that_is_none_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("peer.json");
    let row = json!({
        "preset": "vae", "stage": "vae", "dtype": "f32", "duration_s": 10.0, "wall_s": 0.0,
    });
    let peer = json!({"name": "other", "threads": 1, "rows": [row]}).to_string();
    std::fs::write(&path, peer).expect("a file");
    let error = Peer::read(&path).expect_err("refused").to_string();
    assert!(error.ends_with("has a time of 0 s"), "{error}");
}
