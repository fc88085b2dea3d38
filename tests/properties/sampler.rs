//! Every sampler setting changes the song, but not the independence of songs in a batch.

use acestep_engine::{Residency, Unobserved};
use acestep_import::AceStep;
use acestep_music::{
    Networks, Request,
    pipeline::{denoise, prepare},
};
use acestep_tests::{Cpu, base, largest_difference, place, plan, request, turbo};

/// Returns the latents of the first song.
fn latents(request: &Request, model: &AceStep) -> Vec<f32> {
    let plan = plan(request, model);
    let networks = Networks::<Cpu>::new(model, place(), Residency::WhileUsed);
    let prepared = prepare(&plan, &networks, &Unobserved).expect("conditioning");
    let latents = denoise(&plan, &networks, prepared, &Unobserved).expect("latents");
    latents.narrow(0, 0, 1).into_data().to_vec().expect("f32")
}

fn apart(a: &[f32], b: &[f32]) -> f32 {
    largest_difference(a.iter().zip(b))
}

/// Bound of rounding differences, which depend on the size of a matrix product, as in `batch`.
const FLOAT_NOISE: f32 = 5e-5;

/// Returns requests with one sampler setting each, and the setting's name.
fn settings() -> Vec<(&'static str, Request)> {
    let word = |word: &str| Some(word.to_owned());
    vec![
        ("heun", request().with(|r| r.sampler.sampler_mode = word("heun"))),
        ("dpm3m", request().with(|r| r.sampler.solver = word("dpm3m"))),
        ("stork4", request().with(|r| r.sampler.solver = word("stork4"))),
        ("norm", request().with(|r| r.sampler.velocity_norm_threshold = Some(0.5))),
        ("ema", request().with(|r| r.sampler.velocity_ema_factor = Some(0.3))),
        ("dcw", request().with(|r| r.sampler.dcw_enabled = Some(true))),
        (
            "retake",
            request().with(|r| {
                r.noise.retake_variance = Some(0.3);
                r.noise.retake_seed = Some(vec![70]);
            }),
        ),
        ("rescale", request().with(|r| r.output.latent_rescale = Some(0.8))),
        ("shift", request().with(|r| r.output.latent_shift = Some(0.1))),
    ]
}

#[test]
fn every_setting_changes_the_song_and_its_batch_does_not() {
    let model = turbo();
    let plain = latents(&request(), &model);
    for (name, request) in settings() {
        let alone = latents(&request, &model);
        let change = apart(&plain, &alone);
        assert!(change > 1e-2, "{name} changes the latents by {change}");
        let batch = latents(&request.with(|r| r.noise.batch_size = Some(2)), &model);
        let change = apart(&alone, &batch);
        assert!(change < FLOAT_NOISE, "{name} in a batch: {change}");
    }
}

#[test]
fn every_guidance_gives_another_song() {
    let model = base();
    let of = |mode: &str| {
        let guidance_mode = Some(mode.to_owned());
        let request = request().with(|r| {
            r.sampling.guidance_mode = guidance_mode;
            r.sampling.inference_steps = Some(3);
        });
        latents(&request, &model)
    };
    let made = ["apg", "cfg", "adg", "adg_w_norm", "adg_wo_clip"].map(of);
    for (i, a) in made.iter().enumerate() {
        for (j, b) in made.iter().enumerate().skip(i + 1) {
            assert!(apart(a, b) > 1e-3, "{i} {j}: {}", apart(a, b));
        }
    }
}
