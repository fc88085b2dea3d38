//! The program with the GPU backends, on any available Vulkan or Metal: a GPU, or a software driver
//! such as lavapipe.
//!
//! Built only with the feature `wgpu`. Tests of single kernels are in `tests/kernels`.

mod options;

use std::{
    path::Path,
    process::{Command, Stdio},
};

use serde_json::Value;

/// The stored results of songs, kernels compared with the CPU, and songs from request to audio.
#[test]
fn a_quick_check_of_songs_passes() {
    let report = quick_check("verify,kernels,lengths", "a");
    let [_, kernels, lengths] = [0, 1, 2].map(|part| report["parts"][part]["passed"].as_u64());
    // The cases that need no real vocabulary, without results in bf16.
    assert!(verified(&report) >= 293, "{report:#}");
    // At least those in f32; most drivers have f16 as well.
    assert!(kernels >= Some(16), "{report:#}");
    assert_eq!(lengths, Some(2));
    let song = &report["lengths"][1];
    // The CPU also made this song, and the two were compared.
    let distance = song["sound"]["relative_rms"].as_f64().expect("a distance");
    assert!(distance < 1e-3, "{distance}");
}

/// The stored results of speech and of the XL model, with the least number that passes. A driver in software
/// compiles the kernels of a process on one core, so those of Magpie TTS, which take longest, have a test of
/// their own.
#[test]
fn a_quick_check_of_speech_passes() {
    passes(&[("dia2", 66), ("qwen3_tts", 188), ("rng", 22), ("xl", 81)]);
}

#[test]
fn a_quick_check_of_speech_of_magpie_passes() {
    passes(&[("magpie", 143)]);
}

/// Verifies sets of stored results, each with the least number that passes.
fn passes(sets: &[(&str, u64)]) {
    for &(set, least) in sets {
        let report = quick_check("verify", set);
        assert!(verified(&report) >= least, "{set}: {report:#}");
    }
}

/// Returns the number of stored results that passed.
fn verified(report: &Value) -> u64 {
    report["parts"][0]["passed"].as_u64().expect("verify is the first part")
}

/// Runs parts of `check` with one set of goldens, and returns its report.
fn quick_check(parts: &str, set: &str) -> Value {
    let goldens = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/goldens").join(set);
    let goldens = goldens.canonicalize().expect("the goldens are in the repository");
    let place = tempfile::tempdir().expect("a folder");
    let output = Command::new(env!("CARGO_BIN_EXE_acestep"))
        .args(["check", "--device", "wgpu:0", "--dtype", "f32", "--quick", "--out", "."])
        .args(["--only", parts, "--goldens"])
        .arg(goldens)
        .current_dir(place.path())
        .env("ACESTEP_CACHE_DIR", place.path().join("cache"))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .expect("the program starts");
    let read = |name: &str| std::fs::read_to_string(place.path().join(name)).unwrap_or_default();
    assert_eq!(output.status.code(), Some(0), "{}", read("check.md"));
    serde_json::from_str(&read("check.json")).expect("a report")
}
