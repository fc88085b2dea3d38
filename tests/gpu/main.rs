//! The program with the backends for cards, on whatever Vulkan or Metal there is: a card, or a driver
//! in software such as lavapipe.
//!
//! Built only with the feature `wgpu`. Kernels one by one are tested beside their source.

mod options;

use std::{
    path::Path,
    process::{Command, Stdio},
};

use serde_json::Value;

/// All of the reference's stored results that are public, kernels against the processor, and songs from a
/// request to sound.
#[test]
fn a_quick_check_of_everything_but_speed_passes() {
    let goldens = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/goldens");
    let place = tempfile::tempdir().expect("a folder");
    let output = Command::new(env!("CARGO_BIN_EXE_acestep"))
        .args(["check", "--device", "wgpu:0", "--dtype", "f32", "--quick", "--out", "."])
        .args(["--only", "verify,kernels,lengths"])
        .arg("--goldens")
        .arg(goldens)
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
    // Those of the three sets that need no real vocabulary, but for results in bf16.
    assert!(verify >= Some(1400), "{report:#}");
    // In f32 at least; most drivers have f16 as well.
    assert!(kernels >= Some(16), "{report:#}");
    assert_eq!(lengths, Some(2));
    let song = &report["lengths"][1];
    // The processor's song was made too, and compared.
    let distance = song["sound"]["relative_rms"].as_f64().expect("a distance");
    assert!(distance < 1e-3, "{distance}");
}
