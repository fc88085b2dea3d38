//! Requests that are refused.

use super::*;

#[test]
fn each_value_out_of_range_is_refused_with_option_value_and_range() {
    let r = request;
    for (asked, message) in [
        (
            Request { bpm: Some(29), ..r() },
            "`bpm: 29` is out of range: a whole number from 30 to 300",
        ),
        (
            Request { duration: Some(f64::NAN), ..r() },
            "`duration: NaN` is out of range: above 0, at most 600",
        ),
        (
            Request { duration: Some(-1.0), ..r() },
            "`duration: -1` is out of range: above 0, at most 600",
        ),
        (
            Request { duration: Some(0.01), ..r() },
            "`duration: 0.01` is out of range: at least one latent frame, 0.04 s",
        ),
        (
            Request { inference_steps: Some(0), ..r() },
            "`inference_steps: 0` is out of range: a whole number from 1 to 200",
        ),
        (
            Request { guidance_scale: Some(f64::INFINITY), ..r() },
            "`guidance_scale: inf` is out of range: 1 to 30",
        ),
        (Request { shift: Some(0.0), ..r() }, "`shift: 0` is out of range: above 0, at most 100"),
        (
            Request { batch_size: Some(9), ..r() },
            "`batch_size: 9` is out of range: a whole number from 1 to 8",
        ),
        (
            Request { normalization_db: Some(1.0), ..r() },
            "`normalization_db: 1` is out of range: -60 to 0",
        ),
        (
            Request { vae_chunk: Some(0), ..r() },
            "`vae_chunk: 0` is out of range: a whole number from 1 to 1000000",
        ),
        (
            Request { vae_overlap: Some(-1), ..r() },
            "`vae_overlap: -1` is out of range: a whole number from 0 to 1000000",
        ),
        (
            Request { infer_method: Some("heun".into()), ..r() },
            "`infer_method: heun` cannot be used: use ode or sde",
        ),
        (
            Request { velocity_ema_factor: Some(1.5), ..r() },
            "`velocity_ema_factor: 1.5` is out of range: 0 to 1",
        ),
        (
            Request { retake_variance: Some(-0.1), ..r() },
            "`retake_variance: -0.1` is out of range: 0 to 1",
        ),
        (
            Request { latent_rescale: Some(0.0), ..r() },
            "`latent_rescale: 0` is out of range: above 0, at most 10",
        ),
        (
            Request { stork_substeps: Some(149), ..r() },
            "`stork_substeps: 149` is out of range: a whole number from 1 to 148",
        ),
        (
            Request { dcw_mode: Some("all".into()), ..r() },
            "`dcw_mode: all` cannot be used: use low, high, double or pix",
        ),
        (
            Request { timesteps: Some(vec![0.5, 0.9]), ..r() },
            "`timesteps: 0.5,0.9` cannot be used: each time must be below the one before it",
        ),
        (Request { timesteps: Some(vec![1.5]), ..r() }, "`timesteps: 1.5` is out of range: 0 to 1"),
        (
            Request { audio_codes: Some(vec![vec![1; 3001]]), ..r() },
            "`audio_codes: (3001 codes)` is out of range: at most 600 seconds of them",
        ),
        (
            Request { audio_codes: Some(vec![vec![1, 2], vec![3]]), ..r() },
            "audio codes: 2 for song 1, but 1 for song 2; songs made together are of one length",
        ),
        (
            Request { audio_codes: Some(vec![vec![], vec![3]]), ..r() },
            "audio codes: 0 for song 1, but 1 for song 2; songs made together are of one length",
        ),
        (
            Request { audio_codes: Some(vec![vec![1]; 2]), batch_size: Some(3), ..r() },
            "there are audio codes for 2 songs, but 3 are made: leave `batch_size` out, or give a seed \
             for each",
        ),
        (
            Request { audio_codes: Some(vec![vec![1]; 2]), seed: Some(vec![1, 2, 3]), ..r() },
            "there are audio codes for 2 songs, but 3 are made: leave `batch_size` out, or give a seed \
             for each",
        ),
        (
            Request { audio_codes: Some(vec![vec![1]; 2]), batch_size: Some(1), ..r() },
            "there are audio codes for 2 songs, but 1 is made: leave `batch_size` out, or give a seed \
             for each",
        ),
        (
            Request { audio_codes: Some(vec![vec![1]; 9]), ..r() },
            "`audio_codes: (of 9 songs)` is out of range: at most 8",
        ),
        (
            Request { lyrics: Some(" ".repeat(1_000_001)), ..r() },
            "`lyrics: (1000001 characters)` is out of range: at most 1000000 characters",
        ),
        (
            Request { seed: Some(vec![1, 2]), batch_size: Some(3), ..r() },
            "`seed` has 2 seeds, but `batch_size` is 3: leave `batch_size` out, or give one seed",
        ),
        (
            Request { vocal_language: Some("klingon".into()), ..r() },
            "`vocal_language: klingon` is not a language the model knows",
        ),
        (
            Request { task_type: Some("repaint".into()), ..r() },
            "`task_type: repaint` needs a song to start from",
        ),
        (
            Request { instrumental: Some(true), lyrics: Some("la".into()), ..r() },
            "`instrumental: true` and lyrics exclude each other: leave one of them out",
        ),
        (
            Request { caption: Some("  ".into()), lyrics: Some("\n".into()), ..r() },
            "there is nothing to sing or play: caption and lyrics are both empty",
        ),
        (
            Request { rng: Some("dice".into()), ..r() },
            "`rng: dice` cannot be used: use philox, philox:THREADS (H100: philox:270336) or mt19937",
        ),
    ] {
        assert_eq!(refusal(asked), message);
    }
}
