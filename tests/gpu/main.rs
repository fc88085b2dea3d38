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

/// All public stored results of the reference, kernels compared with the CPU, and songs from
/// request to audio.
#[test]
fn a_quick_check_of_everything_but_speed_passes() {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/goldens");
    let all = all.canonicalize().expect("the goldens are in the repository");
    let place = tempfile::tempdir().expect("a folder");
    let output = Command::new(env!("CARGO_BIN_EXE_acestep"))
        .args(["check", "--device", "wgpu:0", "--dtype", "f32", "--quick", "--out", "."])
        .args(["--only", "verify,kernels,lengths"])
        .arg("--goldens")
        .arg(all)
        .current_dir(place.path())
        .env("ACESTEP_CACHE_DIR", place.path().join("cache"))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .expect("the program starts");
    let read = |name: &str| std::fs::read_to_string(place.path().join(name)).unwrap_or_default();
    assert_eq!(output.status.code(), Some(0), "{}", read("check.md"));

    let report: Value = serde_json::from_str(&read("check.json")).expect("a report");
    let [verify, kernels, lengths] = [0, 1, 2].map(|part| report["parts"][part]["passed"].as_u64());
    // The cases of the four sets that need no real vocabulary, without results in bf16.
    assert!(verify >= Some(543), "{report:#}");
    // At least those in f32; most drivers have f16 as well.
    assert!(kernels >= Some(16), "{report:#}");
    assert_eq!(lengths, Some(2));
    let song = &report["lengths"][1];
    // The CPU also made this song, and the two were compared.
    let distance = song["sound"]["relative_rms"].as_f64().expect("a distance");
    assert!(distance < 1e-3, "{distance}");
}
