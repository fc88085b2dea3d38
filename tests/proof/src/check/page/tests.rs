use super::*;
use crate::{
    machine::Machine,
    measure::ceilings::Ceilings,
    rows::{Ceiling, Kernel, Length, Rounded, Speed, Summary, Torch, Verified},
};

fn results() -> Results {
    Results {
        date: "2026-11-21 12:00 UTC".into(),
        version: "0.1.0".into(),
        commit: Some("abc1234".into()),
        quick: false,
        dtype: "bf16".into(),
        machine: Machine {
            device: "cuda:0".into(),
            name: Some("NVIDIA H200".into()),
            memory_bytes: Some(150_754_820_096),
            driver: Some("570.86".into()),
            backend: Some("fusion<cubecl<cuda>>".into()),
            processor: "Some CPU".into(),
            cores: 16,
            main_memory_bytes: 137_000_000_000,
        },
        parts: vec![Summary {
            name: "kernels".into(),
            passed: 2,
            failed: 1,
            skipped: 1,
            seconds: 12.4,
            problems: vec!["snake 1 x 1: not finite".into()],
            not_run: vec!["everything in f16: the device lacks it".into()],
        }],
        verified: vec![Verified {
            set: "a".into(),
            component: "DiT".into(),
            passed: 3,
            failed: 0,
            skipped: 1,
            worst_share: 0.254,
        }],
        kernels: vec![Kernel {
            operation: "attention".into(),
            shape: "1 x 16/8 x 375 x 375 x 128, full".into(),
            dtype: "bf16".into(),
            error: Some(0.0021),
            tolerance: 0.016,
            kernel_s: Some(52e-6),
            reference_s: Some(208e-6),
        }],
        rounded: vec![Rounded {
            network: "the language model".into(),
            dtype: "q8".into(),
            from_f32: Some(0.00812),
            from_bf16: None,
            same_tokens: Some(0.97),
        }],
        lengths: vec![
            Length {
                seconds: 37.3,
                dtype: "f32".into(),
                samples: 1,
                expected_samples: 1,
                quietest: 0.1,
                repeats: false,
                overflowed: vec![],
                notes: vec![],
                latents: Some(Distance { relative_rms: 2.5e-6, tolerance: 1e-4, processor: None }),
                sound: None,
                wall_s: 0.25,
            },
            Length {
                seconds: 240.0,
                dtype: "bf16".into(),
                samples: 1,
                expected_samples: 1,
                quietest: 0.1,
                repeats: true,
                overflowed: vec![],
                notes: vec!["the VAE did not fit; again with 224 frames".into()],
                latents: Some(Distance {
                    relative_rms: 0.051,
                    tolerance: 0.104,
                    processor: Some(0.052),
                }),
                sound: None,
                wall_s: 0.25,
            },
        ],
        ceilings: vec![Ceiling {
            dtype: "bf16".into(),
            measured: Ceilings { flop_per_s: 7.9e14, bytes_per_s: 4.1e12 },
        }],
        speeds: ["turbo dit 30 s", "vae 30 s"].map(speed).into(),
        torch: Some("2.15.0 on NVIDIA H200".into()),
        torch_speeds: vec![
            torch("turbo dit 30 s", "eager", Some(0.02)),
            torch("turbo dit 30 s", "graph", None),
            torch("turbo dit 30 s", "compile", Some(0.016)),
        ],
    }
}

fn speed(id: &str) -> Speed {
    Speed {
        id: id.into(),
        unit: "1 step".into(),
        dtype: "bf16".into(),
        wall_s: 0.012,
        median_s: 0.0121,
        flop: 1.1e12,
        weight_bytes: 3.2e9,
        floor_s: 0.006,
        share_of_floor: 0.5,
        rate: 12.0,
        rate_unit: "ms/step".into(),
    }
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
