//! Requests that are refused.

use super::*;

#[test]
fn each_value_out_of_range_is_refused_with_option_value_and_range() {
    for (key, value, range) in [
        ("bpm", "29", "a whole number from 30 to 300"),
        ("duration", "0.01", "at least one latent frame, 0.04 s"),
        ("batch_size", "9", "a whole number from 1 to 8"),
        ("normalization_db", "1", "-60 to 0"),
        ("vae_overlap", "-1", "a whole number from 0 to 1000000"),
        ("velocity_ema_factor", "1.5", "0 to 1"),
        ("retake_variance", "-0.1", "0 to 1"),
        ("latent_rescale", "0", "above 0, at most 10"),
        ("stork_substeps", "149", "a whole number from 1 to 148"),
        ("timesteps", "1.5", "0 to 1"),
    ] {
        let message = refusal(request_of(&format!(r#"{{"{key}": {value}}}"#)));
        assert_eq!(message, format!("`{key}: {value}` is out of range: {range}"));
    }
    // Request files have no such numbers, or read them as not given.
    let r = request;
    for (asked, message) in [
        (r().with(|r| r.words.duration = Some(f64::NAN)), "`duration: NaN`: above 0, at most 600"),
        (r().with(|r| r.words.duration = Some(-1.0)), "`duration: -1`: above 0, at most 600"),
        (
            r().with(|r| r.sampling.inference_steps = Some(0)),
            "`inference_steps: 0`: a whole number from 1 to 200",
        ),
        (
            r().with(|r| r.sampling.guidance_scale = Some(f64::INFINITY)),
            "`guidance_scale: inf`: 1 to 30",
        ),
        (r().with(|r| r.sampling.shift = Some(1e-8)), "`shift: 0.00000001`: 0.01 to 100"),
        (
            r().with(|r| r.compute.vae_chunk = Some(0)),
            "`vae_chunk: 0`: a whole number from 1 to 1000000",
        ),
        (
            r().with(|r| r.source.audio_codes = Some(vec![vec![1; 3001]])),
            "`audio_codes: (3001 codes)`: at most 600 seconds of them",
        ),
        (
            r().with(|r| r.source.audio_codes = Some(vec![vec![1]; 9])),
            "`audio_codes: (of 9 songs)`: at most 8",
        ),
        (
            r().with(|r| r.words.lyrics = Some(" ".repeat(1_000_001))),
            "`lyrics: (1000001 characters)`: at most 1000000 characters",
        ),
    ] {
        assert_eq!(refusal(asked), message.replacen("`:", "` is out of range:", 1));
    }
}

#[test]
fn each_value_that_is_none_of_the_choices_is_refused_with_them() {
    for (key, value, why) in [
        ("infer_method", "heun", "use ode or sde"),
        ("dcw_mode", "all", "use low, high, double or pix"),
        ("timesteps", "0.5,0.9", "each time must be below the one before it"),
        ("rng", "dice", "use philox, philox:THREADS (H100: philox:270336) or mt19937"),
    ] {
        let message = refusal(request_of(&format!(r#"{{"{key}": "{value}"}}"#)));
        assert_eq!(message, format!("`{key}: {value}` cannot be used: {why}"));
    }
}

#[test]
fn values_that_contradict_each_other_are_refused() {
    let of_one_length = "songs made together are of one length";
    let for_each = "leave `batch_size` out, or give a seed for each";
    let message = refusal(request().with(|r| r.source.audio_codes = Some(vec![vec![], vec![3]])));
    assert_eq!(message, format!("audio codes: 0 for song 1, but 1 for song 2; {of_one_length}"));
    for (json, message) in [
        (
            r#"{"audio_codes": ["1,2", "3"]}"#,
            &*format!("audio codes: 2 for song 1, but 1 for song 2; {of_one_length}"),
        ),
        (
            r#"{"audio_codes": ["1", "1"], "batch_size": 3}"#,
            &*format!("there are audio codes for 2 songs, but 3 are made: {for_each}"),
        ),
        (
            r#"{"audio_codes": ["1", "1"], "seed": [1, 2, 3]}"#,
            &*format!("there are audio codes for 2 songs, but 3 are made: {for_each}"),
        ),
        (
            r#"{"audio_codes": ["1", "1"], "batch_size": 1}"#,
            &*format!("there are audio codes for 2 songs, but 1 is made: {for_each}"),
        ),
        (
            r#"{"seed": [1, 2], "batch_size": 3}"#,
            "`seed` has 2 seeds, but `batch_size` is 3: leave `batch_size` out, or give one seed",
        ),
        (
            r#"{"vocal_language": "klingon"}"#,
            "`vocal_language: klingon` is not a language the model knows",
        ),
        (r#"{"task_type": "repaint"}"#, "`task_type: repaint` needs a song to start from"),
        (
            r#"{"instrumental": true, "lyrics": "la"}"#,
            "`instrumental: true` and lyrics exclude each other: leave one of them out",
        ),
        (
            r#"{"caption": "  ", "lyrics": "\n"}"#,
            "there is nothing to sing or play: caption and lyrics are both empty",
        ),
    ] {
        assert_eq!(refusal(request_of(json)), message);
    }
}
