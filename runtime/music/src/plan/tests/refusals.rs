//! Requests that are refused.

use super::*;

#[test]
fn each_value_out_of_range_is_refused_with_option_value_and_range() {
    let r = request;
    for (asked, message) in [
        (
            r().with(|r| r.words.bpm = Some(29)),
            "`bpm: 29` is out of range: a whole number from 30 to 300",
        ),
        (
            r().with(|r| r.words.duration = Some(f64::NAN)),
            "`duration: NaN` is out of range: above 0, at most 600",
        ),
        (
            r().with(|r| r.words.duration = Some(-1.0)),
            "`duration: -1` is out of range: above 0, at most 600",
        ),
        (
            r().with(|r| r.words.duration = Some(0.01)),
            "`duration: 0.01` is out of range: at least one latent frame, 0.04 s",
        ),
        (
            r().with(|r| r.sampling.inference_steps = Some(0)),
            "`inference_steps: 0` is out of range: a whole number from 1 to 200",
        ),
        (
            r().with(|r| r.sampling.guidance_scale = Some(f64::INFINITY)),
            "`guidance_scale: inf` is out of range: 1 to 30",
        ),
        (
            r().with(|r| r.sampling.shift = Some(0.0)),
            "`shift: 0` is out of range: above 0, at most 100",
        ),
        (
            r().with(|r| r.noise.batch_size = Some(9)),
            "`batch_size: 9` is out of range: a whole number from 1 to 8",
        ),
        (
            r().with(|r| r.output.normalization_db = Some(1.0)),
            "`normalization_db: 1` is out of range: -60 to 0",
        ),
        (
            r().with(|r| r.compute.vae_chunk = Some(0)),
            "`vae_chunk: 0` is out of range: a whole number from 1 to 1000000",
        ),
        (
            r().with(|r| r.compute.vae_overlap = Some(-1)),
            "`vae_overlap: -1` is out of range: a whole number from 0 to 1000000",
        ),
        (
            r().with(|r| r.sampler.infer_method = Some("heun".into())),
            "`infer_method: heun` cannot be used: use ode or sde",
        ),
        (
            r().with(|r| r.sampler.velocity_ema_factor = Some(1.5)),
            "`velocity_ema_factor: 1.5` is out of range: 0 to 1",
        ),
        (
            r().with(|r| r.noise.retake_variance = Some(-0.1)),
            "`retake_variance: -0.1` is out of range: 0 to 1",
        ),
        (
            r().with(|r| r.output.latent_rescale = Some(0.0)),
            "`latent_rescale: 0` is out of range: above 0, at most 10",
        ),
        (
            r().with(|r| r.sampler.stork_substeps = Some(149)),
            "`stork_substeps: 149` is out of range: a whole number from 1 to 148",
        ),
        (
            r().with(|r| r.sampler.dcw_mode = Some("all".into())),
            "`dcw_mode: all` cannot be used: use low, high, double or pix",
        ),
        (
            r().with(|r| r.sampling.timesteps = Some(vec![0.5, 0.9])),
            "`timesteps: 0.5,0.9` cannot be used: each time must be below the one before it",
        ),
        (
            r().with(|r| r.sampling.timesteps = Some(vec![1.5])),
            "`timesteps: 1.5` is out of range: 0 to 1",
        ),
        (
            r().with(|r| r.source.audio_codes = Some(vec![vec![1; 3001]])),
            "`audio_codes: (3001 codes)` is out of range: at most 600 seconds of them",
        ),
        (
            r().with(|r| r.source.audio_codes = Some(vec![vec![1, 2], vec![3]])),
            "audio codes: 2 for song 1, but 1 for song 2; songs made together are of one length",
        ),
        (
            r().with(|r| r.source.audio_codes = Some(vec![vec![], vec![3]])),
            "audio codes: 0 for song 1, but 1 for song 2; songs made together are of one length",
        ),
        (
            r().with(|r| {
                r.source.audio_codes = Some(vec![vec![1]; 2]);
                r.noise.batch_size = Some(3);
            }),
            "there are audio codes for 2 songs, but 3 are made: leave `batch_size` out, or give a seed \
             for each",
        ),
        (
            r().with(|r| {
                r.source.audio_codes = Some(vec![vec![1]; 2]);
                r.noise.seed = Some(vec![1, 2, 3]);
            }),
            "there are audio codes for 2 songs, but 3 are made: leave `batch_size` out, or give a seed \
             for each",
        ),
        (
            r().with(|r| {
                r.source.audio_codes = Some(vec![vec![1]; 2]);
                r.noise.batch_size = Some(1);
            }),
            "there are audio codes for 2 songs, but 1 is made: leave `batch_size` out, or give a seed \
             for each",
        ),
        (
            r().with(|r| r.source.audio_codes = Some(vec![vec![1]; 9])),
            "`audio_codes: (of 9 songs)` is out of range: at most 8",
        ),
        (
            r().with(|r| r.words.lyrics = Some(" ".repeat(1_000_001))),
            "`lyrics: (1000001 characters)` is out of range: at most 1000000 characters",
        ),
        (
            r().with(|r| {
                r.noise.seed = Some(vec![1, 2]);
                r.noise.batch_size = Some(3);
            }),
            "`seed` has 2 seeds, but `batch_size` is 3: leave `batch_size` out, or give one seed",
        ),
        (
            r().with(|r| r.words.vocal_language = Some("klingon".into())),
            "`vocal_language: klingon` is not a language the model knows",
        ),
        (
            r().with(|r| r.source.task_type = Some("repaint".into())),
            "`task_type: repaint` needs a song to start from",
        ),
        (
            r().with(|r| {
                r.words.instrumental = Some(true);
                r.words.lyrics = Some("la".into());
            }),
            "`instrumental: true` and lyrics exclude each other: leave one of them out",
        ),
        (
            r().with(|r| {
                r.words.caption = Some("  ".into());
                r.words.lyrics = Some("\n".into());
            }),
            "there is nothing to sing or play: caption and lyrics are both empty",
        ),
        (
            r().with(|r| r.noise.rng = Some("dice".into())),
            "`rng: dice` cannot be used: use philox, philox:THREADS (H100: philox:270336) or mt19937",
        ),
    ] {
        assert_eq!(refusal(asked), message);
    }
}
