use serde_json::{Value, json};

use super::*;
use crate::rows::Torch;

fn results() -> Results {
    let length = |seconds: f64, dtype: &str, repeats: bool, notes: &[&str], latents: Value| {
        json!({
            "seconds": seconds, "dtype": dtype, "samples": 1, "expected_samples": 1, "quietest": 0.1,
            "repeats": repeats, "notes": notes, "latents": latents, "wall_s": 0.25,
        })
    };
    let speed = |id: &str| {
        json!({
            "id": id, "unit": "1 step", "dtype": "bf16", "wall_s": 0.012, "median_s": 0.0121,
            "flop": 1.1e12, "weight_bytes": 3.2e9, "floor_s": 0.006, "share_of_floor": 0.5,
            "rate": 12.0, "rate_unit": "ms/step",
        })
    };
    let speeds = ["turbo dit 30 s", "vae 30 s"].map(speed);
    let results = json!({
        "date": "2026-11-21 12:00 UTC", "version": "0.1.0", "commit": "abc1234", "quick": false,
        "dtype": "bf16",
        "machine": {
            "device": "cuda:0", "name": "NVIDIA H200", "memory_bytes": 150_754_820_096_u64,
            "driver": "570.86", "backend": "fusion<cubecl<cuda>>", "processor": "Some CPU",
            "cores": 16, "main_memory_bytes": 137_000_000_000_u64,
        },
        "parts": [{
            "name": "kernels", "passed": 2, "failed": 1, "skipped": 1, "seconds": 12.4,
            "problems": ["snake 1 x 1: not finite"],
            "not_run": ["everything in f16: the device lacks it"],
        }],
        "verified": [{
            "set": "a", "component": "DiT", "passed": 3, "failed": 0, "skipped": 1,
            "worst_share": 0.254,
        }],
        "kernels": [{
            "operation": "attention", "shape": "1 x 16/8 x 375 x 375 x 128, full", "dtype": "bf16",
            "error": 0.0021, "tolerance": 0.016, "kernel_s": 52e-6, "reference_s": 208e-6,
        }],
        "rounded": [{
            "network": "the language model", "dtype": "q8", "from_f32": 0.00812,
            "from_bf16": null, "same_tokens": 0.97,
        }],
        "lengths": [
            length(37.3, "f32", false, &[], json!({ "relative_rms": 2.5e-6, "tolerance": 1e-4 })),
            length(
                240.0,
                "bf16",
                true,
                &["the VAE did not fit; again with 224 frames"],
                json!({ "relative_rms": 0.051, "tolerance": 0.104, "processor": 0.052 }),
            ),
        ],
        "ceilings": [{ "dtype": "bf16", "flop_per_s": 7.9e14, "bytes_per_s": 4.1e12 }],
        "speeds": speeds,
        "torch": "2.15.0 on NVIDIA H200",
        "torch_speeds": [
            torch("turbo dit 30 s", "eager", Some(0.02)),
            torch("turbo dit 30 s", "graph", None),
            torch("turbo dit 30 s", "compile", Some(0.016)),
        ],
    });
    serde_json::from_value(results).expect("results")
}

fn torch(id: &str, mode: &str, wall_s: Option<f64>) -> Torch {
    let error = wall_s.is_none().then(|| "it | broke\nbadly".to_owned());
    Torch { id: id.into(), mode: mode.into(), wall_s, error }
}

#[test]
fn the_page_is_this() {
    insta::assert_snapshot!(markdown(&results()));
}

/// PyTorch measures its compiled ways after all others.
#[test]
fn a_stage_has_one_row_of_pytorchs_ways() {
    let mut results = results();
    results.torch_speeds.insert(2, torch("vae 30 s", "eager", Some(0.1)));
    let page = markdown(&results);
    let rows = page.lines().filter(|line| line.starts_with("| turbo dit 30 s | "));
    // The other one has its speed.
    assert_eq!(rows.count(), 2, "{page}");
}

#[test]
fn what_was_not_run_has_no_table() {
    let page = markdown(&Results { quick: true, ..Results::default() });
    for head in ["## Speed", "## Kernels", "## Lengths", "## Types", "## Goldens", "memory traffic"]
    {
        assert!(!page.contains(head), "{page}");
    }
    assert!(page.contains("This was a quick run"), "{page}");
    assert!(page.contains("| PyTorch | not compared |"), "{page}");
}

#[test]
fn results_are_read_from_json_as_they_were_written() {
    let text = serde_json::to_string_pretty(&results()).expect("JSON");
    assert_eq!(serde_json::from_str::<Results>(&text).expect("results"), results());
    assert!(results().failed());
}
