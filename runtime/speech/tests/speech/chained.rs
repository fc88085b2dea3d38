//! Codes that are drawn on the device, as on a GPU: here the same operations on the CPU.

use acestep_import::Qwen3Tts;
use acestep_speech::qwen3_tts::{Frames, Plan, Request, RunStep, Sampling};

use super::{fill, many::described, model, networks, request};

/// Makes the frames of `plans` side by side. Codes are drawn on the device or on the host.
fn steps(
    model: &Qwen3Tts,
    plans: &[Plan],
    on_device: bool,
) -> Result<Vec<Vec<RunStep>>, acestep_engine::Error> {
    let networks = networks(model);
    let mut frames = Frames::new(plans.len(), &networks)?;
    frames.draw_on_device(on_device);
    for (id, plan) in plans.iter().enumerate() {
        frames.begin(id, plan, None);
    }
    let mut made = vec![Vec::new(); plans.len()];
    for steps in frames {
        for (id, step) in steps? {
            made[id].push(step);
        }
    }
    Ok(made)
}

/// Settings that are equal, that differ between the runs, and that only the host can draw with.
#[test]
fn codes_that_the_device_draws_are_those_of_the_host() {
    let model = model();
    let sampling = |limit| Sampling { max_new_tokens: Some(limit), ..Sampling::default() };
    let plain = [sampling(8), sampling(3), sampling(12)];
    let likeliest =
        [8, 9].map(|limit| Sampling { subtalker_dosample: Some(false), ..sampling(limit) });
    let mixed = [
        sampling(7),
        Sampling { subtalker_top_k: Some(0), subtalker_temperature: Some(1.7), ..sampling(9) },
        Sampling { subtalker_dosample: Some(false), ..sampling(8) },
        Sampling { subtalker_top_k: Some(3), ..sampling(5) },
    ];
    let with_top_p = [sampling(6), Sampling { subtalker_top_p: Some(0.7), ..sampling(6) }];
    for (case, settings) in [&plain[..], &likeliest, &mixed, &with_top_p].into_iter().enumerate() {
        let plan = |(sampling, seed): (&Sampling, u64)| {
            let request = Request { sampling: sampling.clone(), ..request("The sea is calm.") };
            Plan::new(&request, None, seed, &model).expect("a plan")
        };
        let plans: Vec<Plan> = settings.iter().zip(5..).map(plan).collect();
        let [host, device] =
            [false, true].map(|on_device| steps(&model, &plans, on_device).expect("frames"));
        assert_eq!(device, host, "{case}");
        assert!(device.iter().all(|steps| steps.len() > 1), "{device:?}");
    }
}

/// The head of the third code of a frame is NaN.
#[test]
fn scores_that_are_not_finite_are_named_as_on_the_host() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = described(folder.path()).path().join("model.safetensors");
    fill(&path, "talker.code_predictor.lm_head.2.weight", 0xff);
    let model = Qwen3Tts::open(path.parent().expect("a folder")).expect("a model");
    let request = Request { voice: None, instruct: Some("Loud.".into()), ..request("Hi.") };
    let plans = [Plan::new(&request, None, 0, &model).expect("a plan")];
    let [host, device] = [false, true]
        .map(|on_device| steps(&model, &plans, on_device).expect_err("no code").to_string());
    assert!(host.contains("is not a number"), "{host}");
    assert_eq!(device, host);
}
