//! Numbers out of range: one message, exit code 2, no panic, no huge allocation.

use crate::Dir;

#[test]
fn impossible_numbers_are_refused_for_every_flag() {
    let dir = Dir::new();
    let flags = [
        ("--bpm", &["0", "-1", "29", "301", "nan", "inf", "1e30", "", "9".repeat(30).leak()][..]),
        ("--duration", &["0", "-5", "nan", "inf", "-inf", "1e30", "601", "1e-30", "x"]),
        ("--inference-steps", &["0", "-1", "201", "nan", "1e30", "4294967296"]),
        ("--guidance-scale", &["0", "-1", "nan", "inf", "1e30"]),
        ("--cfg-interval-start", &["-1", "1.5", "nan", "inf", "1e30"]),
        ("--cfg-interval-end", &["-1", "1.5", "nan", "inf", "1e30"]),
        ("--shift", &["0", "-1", "nan", "inf", "1e30", "1e-30"]),
        ("--timesteps", &["nan", "inf", "1e30", "2,1", "0.5,0.9", "0", ""]),
        ("--seed", &["-1", "-2", "1.5", "nan", "1e30", "18446744073709551616", "1,,2"]),
        ("--batch-size", &["0", "-1", "9", "nan", "1e30", "4294967297"]),
        ("--normalization-db", &["1", "-61", "nan", "inf", "1e30"]),
        ("--audio-cover-strength", &["-1", "1.5", "nan", "inf", "1e30"]),
        ("--vae-chunk", &["0", "-1", "nan", "1e30", "1000001"]),
        ("--vae-overlap", &["-1", "nan", "1e30", "1000001"]),
        ("--lm-temperature", &["-1", "2.1", "nan", "inf", "1e30", ""]),
        ("--lm-cfg-scale", &["0", "-1", "10.1", "nan", "inf", "1e30"]),
        ("--lm-top-k", &["-1", "1000001", "nan", "1.5", "1e30"]),
        ("--lm-top-p", &["-1", "1.1", "nan", "inf", "1e30"]),
        ("--lm-repetition-penalty", &["0", "-1", "2.1", "nan", "inf", "1e30"]),
        ("--lm-seed", &["-1", "1.5", "nan", "18446744073709551616", "1,2"]),
        ("--lm-prompt-style", &["ajar", ""]),
        ("--max-tokens", &["0", "-1", "nan", "1000001"]),
        ("--max-seq", &["0", "-1", "127", "nan", "1000001"]),
        ("--rng", &["philox:0", "philox:-1", "philox:x", "dice", ""]),
        ("--timesignature", &["0", "-4", "5", "nan", ""]),
        ("--device", &["gpu", "cpu:1", "cuda:-1", "wgpu:x", ""]),
        ("--dtype", &["f16", "f64", ""]),
    ];
    for (flag, values) in flags {
        for value in values {
            let flag_and_value = [&format!("{flag}={value}")[..], "--dry-run"];
            let run =
                dir.run(&[&["generate", "rain", "--model", "tiny"], &flag_and_value[..]].concat());
            let code = run.code;
            assert_eq!(code, Some(2), "{flag} {value:?}:\n{}", run.stderr);
            assert_eq!(run.stderr.matches("error: ").count(), 1, "{flag} {value}: {}", run.stderr);
            assert!(run.stderr.contains(flag), "{flag} {value}: {}", run.stderr);
        }
    }
    assert!(dir.files().is_empty());
}

#[test]
fn a_negative_number_needs_no_equals_sign() {
    let dir = Dir::new();
    let run = dir.run(&["generate", "rain", "--model", "tiny", "--duration", "-5"]).failed(2);
    run.says("error: `--duration -5` is out of range: above 0, at most 600");
    let run = dir.tiny(&["rain", "--seed", "-1"]).failed(2);
    run.says("for a random seed leave it out");
}

#[test]
fn the_smallest_and_the_largest_tiles_are_fine() {
    let dir = Dir::new();
    for (chunk, overlap) in [("1", "1000000"), ("40", "0"), ("1000000", "1000000")] {
        let args =
            ["rain", "--force", "-o", "a.wav", "--vae-chunk", chunk, "--vae-overlap", overlap];
        dir.tiny(&args).succeeded();
    }
}
