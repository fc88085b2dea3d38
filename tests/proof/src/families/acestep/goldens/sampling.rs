//! Whole sampling runs with stored noise, and guidance alone.

use acestep_engine::Unobserved;
use acestep_import::DitDir;
use acestep_model::{Backend, Place, acestep::Conditioner};
use acestep_music::{
    flow::{
        self, Sampling, SamplingStart, Steering, Track, Tracks,
        guidance::{
            Momentum,
            adg::{Adg, adg},
            apg,
        },
        region::{RepaintRegion, injected_steps},
        schedule::{self, Schedule},
        smoothing::Smoothing,
        solver::{SdeTimes, Solver},
    },
    plan::{Guidance, GuidanceMode},
};
use anyhow::{Result, anyhow};
use burn::tensor::Tensor;
use serde_json::Value;

use super::networks::condition_inputs;
use crate::{
    families::GoldenSource,
    golden::{
        set::Golden,
        sheet::{Activations, Sheet},
    },
};

/// The known arguments of upstream's `generate_audio`: computed ones and those without effect.
const KNOWN: [&str; 15] = [
    "shift",
    "infer_method",
    "infer_steps",
    "diffusion_guidance_scale",
    "cfg_interval_start",
    "cfg_interval_end",
    "audio_cover_strength",
    "cover_noise_strength",
    "repaint_crossfade_frames",
    "repaint_injection_ratio",
    "sampler_mode",
    "velocity_norm_threshold",
    "velocity_ema_factor",
    "use_progress_bar",
    "use_adg",
];

/// `sampling_turbo`: noise to latents.
pub(crate) fn turbo<B: Backend>(
    sheet: &mut Sheet<'_>,
    of: &GoldenSource,
    place: &Place<B>,
) -> Result<()> {
    runs(sheet, of.checkpoints.turbo()?, true, place)
}

/// `sampling_base`: noise to latents.
pub(crate) fn base<B: Backend>(
    sheet: &mut Sheet<'_>,
    of: &GoldenSource,
    place: &Place<B>,
) -> Result<()> {
    runs(sheet, of.checkpoints.base()?, false, place)
}

fn runs<B: Backend>(
    sheet: &mut Sheet<'_>,
    model: &DitDir,
    is_turbo: bool,
    place: &Place<B>,
) -> Result<()> {
    let golden = sheet.golden;
    sheet.inputs(|name| {
        name.starts_with("in.") || name.contains(".sde_noise") || golden.is_argument(name)
    });
    let networks = Networks {
        conditioner: model.conditioner::<B>(place)?,
        dit: model.dit::<B>(place)?,
        codec: model.audio_codec::<B>(place)?,
    };
    for case in golden.tags(".latents") {
        let note = golden.note(&case);
        if let Some(why) = unknown_argument(&note["kwargs"]) {
            sheet.skip_all(&why, |name| name.starts_with(&format!("{case}.")));
            continue;
        }
        let Some(inputs) = note["inputs"].as_str() else { continue };
        let of_note = Case { name: &case, inputs, kwargs: &note["kwargs"] };
        sheet.attempt(&format!("{case}."), |sheet| run(sheet, &networks, of_note, is_turbo))?;
    }
    context(sheet, &networks)
}

struct Networks<B: Backend> {
    conditioner: Conditioner<B>,
    dit: acestep_model::acestep::Dit<B>,
    codec: acestep_model::acestep::AudioCodec<B>,
}

struct Case<'a> {
    name: &'a str,
    inputs: &'a str,
    kwargs: &'a Value,
}

impl Case<'_> {
    fn number(&self, key: &str) -> Option<f32> {
        self.kwargs[key].as_f64().map(|value| value as f32)
    }

    /// The name of one of the case's own tensors.
    fn own(&self, part: &str) -> String {
        format!("{}.{part}", self.name)
    }
}

fn unknown_argument(kwargs: &Value) -> Option<String> {
    let key = kwargs.as_object()?.keys().find(|key| !KNOWN.contains(&key.as_str()))?;
    Some(format!("`{key}` is not in this version"))
}

fn run<B: Backend>(
    sheet: &mut Sheet<'_>,
    networks: &Networks<B>,
    case: Case<'_>,
    is_turbo: bool,
) -> Result<()> {
    let golden = sheet.golden;
    let kept = case.kwargs["cover_noise_strength"].as_f64().unwrap_or(0.0);
    let schedule = times(golden, &case, is_turbo)?.keeping(kept);
    let above_zero = |key: &str| case.number(key).filter(|&value| value > 0.0);
    let sampling = Sampling {
        smoothing: Smoothing {
            norm_threshold: above_zero("velocity_norm_threshold"),
            ema_factor: above_zero("velocity_ema_factor"),
        },
        ..Sampling::new(&schedule, solver(&case, is_turbo)?, is_turbo)
    };
    if !golden.is_argument(&case.own("timesteps")) {
        let ours = sampling.calls();
        sheet.close_values(&case.own("timesteps"), &[ours.len()], &ours);
    }

    let noise: Tensor<B, 3> =
        golden.tensor(&format!("{}.noise", case.inputs), &sheet_device(networks))?;
    let tracks = tracks(golden, networks, &case, sampling.steps.len(), is_turbo)?;
    let device = noise.device();
    let step_noise = |step: usize| -> Tensor<B, 3> {
        let stored = golden.tensor(&case.own(&format!("sde_noise{step}")), &device);
        // A missing noise makes the case fail; it does not end the run.
        stored.unwrap_or_else(|_| noise.zeros_like() + f32::NAN)
    };
    let source = (kept > 0.0)
        .then(|| golden.tensor(&format!("{}.src_latents", case.inputs), &device))
        .transpose()?;
    let region = region(golden, &case, sampling.steps.len(), &device)?;
    let start = SamplingStart { noise: noise.clone(), source, region };
    let mut tap = Activations { sheet, prefix: case.name.to_owned() };
    let latents = flow::sample_tapped(
        &networks.dit,
        &tracks,
        start,
        &sampling,
        step_noise,
        &Unobserved,
        &mut tap,
    )?;
    sheet.close(&case.own("latents"), latents);
    Ok(())
}

/// The region to repaint, if there is one; upstream gives it as a mask of frames.
fn region<B: Backend>(
    golden: &Golden,
    case: &Case<'_>,
    steps: usize,
    device: &B::Device,
) -> Result<Option<RepaintRegion<B>>> {
    let mask = case.own("repaint_mask");
    if !golden.has(&mask) {
        return Ok(None);
    }
    let mask = golden.floats(&mask)?;
    let first = mask.iter().position(|&generated| generated != 0.0).unwrap_or(0);
    let end = mask.iter().rposition(|&generated| generated != 0.0).map_or(0, |last| last + 1);
    let ratio = case.kwargs["repaint_injection_ratio"].as_f64().unwrap_or(0.5);
    let crossfade = case.kwargs["repaint_crossfade_frames"].as_u64().unwrap_or(10);
    Ok(Some(RepaintRegion {
        clean: golden.tensor(&case.own("clean_src_latents"), device)?,
        generated: first..end,
        injected_steps: injected_steps(ratio, steps),
        crossfade_frames: crossfade as usize,
        keeps_latents: false,
    }))
}

fn sheet_device<B: Backend>(networks: &Networks<B>) -> B::Device {
    networks.conditioner.null_condition().device()
}

fn solver(case: &Case<'_>, is_turbo: bool) -> Result<Solver> {
    let word = |key: &str, default| case.kwargs[key].as_str().unwrap_or(default).to_owned();
    let (method, mode) = (word("infer_method", "ode"), word("sampler_mode", "euler"));
    match (method.as_str(), mode.as_str()) {
        ("ode", "euler") => Ok(Solver::Euler),
        ("ode", "heun") => Ok(Solver::Heun),
        ("sde", _) if is_turbo => Ok(Solver::Sde(SdeTimes::Schedule)),
        ("sde", _) => Ok(Solver::Sde(SdeTimes::Even)),
        _ => Err(anyhow!("{}: the solver {method}, {mode} is unknown", case.name)),
    }
}

fn times(golden: &Golden, case: &Case<'_>, is_turbo: bool) -> Result<Schedule> {
    let own = case.own("timesteps");
    let custom = golden.is_argument(&own).then(|| golden.floats(&own)).transpose()?;
    let schedule = match (custom, is_turbo) {
        (Some(times), true) => schedule::turbo_custom(&times),
        (Some(times), false) => schedule::base_custom(&times),
        // The reference is older: it rounds a turbo model's shift.
        (None, true) => {
            let shift = case.number("shift").unwrap_or(3.0).round();
            Some(schedule::turbo(8, shift.into()))
        }
        (None, false) => {
            let steps = case.kwargs["infer_steps"].as_u64().unwrap_or(30);
            Some(schedule::base(steps.max(1) as usize, case.number("shift").unwrap_or(1.0)))
        }
    };
    schedule.ok_or_else(|| anyhow!("{}: its timesteps are no schedule", case.name))
}

fn tracks<B: Backend>(
    golden: &Golden,
    networks: &Networks<B>,
    case: &Case<'_>,
    steps: usize,
    is_turbo: bool,
) -> Result<Tracks<B>> {
    let device = sheet_device(networks);
    let first = track(golden, networks, case, &device)?;
    let strength = case.kwargs["audio_cover_strength"].as_f64().unwrap_or(1.0);
    let later = if strength < 1.0 {
        let mut inputs = condition_inputs(golden, case.inputs, &device)?;
        inputs.text.hidden = golden.tensor(&case.own("non_cover_text_hidden_states"), &device)?;
        inputs.text.mask = golden.mask(&case.own("non_cover_text_attention_mask"))?;
        let condition = networks.conditioner.forward(inputs).hidden;
        let [_, frames, _] = first.context.dims();
        let silence: Tensor<B, 3> =
            golden.tensor(&format!("{}.silence_latent", case.inputs), &device)?;
        let [batch, _, _] = first.context.dims();
        let channels = silence.dims()[2];
        let source = silence.narrow(1, 0, frames).expand([batch, frames, channels]);
        let mask = golden.tensor(&format!("{}.chunk_masks", case.inputs), &device)?;
        let context = Tensor::cat(vec![source, mask], 2);
        Some((schedule::cover_steps(steps, strength), Track { condition, context }))
    } else {
        None
    };
    let scale = case.number("diffusion_guidance_scale").unwrap_or(1.0);
    let steering = (scale > 1.0 && !is_turbo).then(|| Steering {
        guidance: Guidance {
            scale,
            mode: match case.kwargs["use_adg"].as_bool() {
                Some(true) => GuidanceMode::Adg,
                _ => GuidanceMode::Apg,
            },
            interval: (
                case.number("cfg_interval_start").unwrap_or(0.0),
                case.number("cfg_interval_end").unwrap_or(1.0),
            ),
        },
        null: networks.conditioner.null_condition(),
    });
    Ok(Tracks { first, later, steering })
}

fn track<B: Backend>(
    golden: &Golden,
    networks: &Networks<B>,
    case: &Case<'_>,
    device: &B::Device,
) -> Result<Track<B>> {
    let name = |part: &str| format!("{}.{part}", case.inputs);
    let source: Tensor<B, 3> = golden.tensor(&name("src_latents"), device)?;
    let frames = source.dims()[1];
    let is_cover = golden.floats(&name("is_covers"))?;
    let hints = case.own("precomputed_lm_hints_25Hz");
    let source = if golden.has(&hints) {
        golden.tensor::<B, 3>(&hints, device)?.narrow(1, 0, frames)
    } else {
        let silence: Tensor<B, 3> = golden.tensor(&name("silence_latent"), device)?;
        let item = |(item, &cover): (usize, &f32)| {
            let own = source.clone().narrow(0, item, 1);
            if cover == 0.0 { own } else { networks.codec.round_trip(own, silence.clone()) }
        };
        Tensor::cat(is_cover.iter().enumerate().map(item).collect(), 0)
    };
    let mask = golden.tensor(&name("chunk_masks"), device)?;
    let condition =
        networks.conditioner.forward(condition_inputs(golden, case.inputs, device)?).hidden;
    Ok(Track { condition, context: Tensor::cat(vec![source, mask], 2) })
}

/// `context`: the outputs of upstream's `prepare_condition` for stored inputs.
fn context<B: Backend>(sheet: &mut Sheet<'_>, networks: &Networks<B>) -> Result<()> {
    let golden = sheet.golden;
    for name in golden.tags(".context_latents") {
        sheet.attempt(&format!("{name}."), |sheet| {
            let inputs = format!("in.{name}");
            let case = Case { name: &name, inputs: &inputs, kwargs: &Value::Null };
            let track = track(golden, networks, &case, &sheet_device(networks))?;
            sheet.close(&case.own("context_latents"), track.context);
            sheet.close(&case.own("encoder_hidden_states"), track.condition);
            Ok(())
        })?;
    }
    Ok(())
}

/// `guidance`: adaptive projected guidance (APG) over a few steps, and guidance by angle (ADG).
pub(crate) fn guidance<B: Backend>(
    sheet: &mut Sheet<'_>,
    _: &GoldenSource,
    place: &Place<B>,
) -> Result<()> {
    const SCALE: f32 = 7.0;
    /// The times of upstream's three cases of ADG, which are not stored.
    const TIMES: [f32; 3] = [1.0, 0.6, 0.1];
    let golden = sheet.golden;
    sheet.inputs(|name| !name.ends_with(".out"));
    let mut momentum = Momentum::<B>::default();
    let tensor =
        |case: &str, part: &str| golden.tensor::<B, 3>(&format!("{case}.{part}"), &place.device);
    // One attempt for all, because each case uses the momentum of the case before.
    sheet.attempt("apg", |sheet| {
        for case in golden.tags(".out").iter().filter(|case| case.starts_with("apg")) {
            let (cond, uncond) = (tensor(case, "cond")?, tensor(case, "uncond")?);
            sheet.close(&format!("{case}.out"), apg(cond, uncond, SCALE, &mut momentum));
        }
        Ok(())
    })?;
    for (i, t) in TIMES.into_iter().enumerate() {
        let case = format!("adg{i}");
        let out = format!("{case}.out");
        if golden.has(&out) {
            sheet.attempt(&format!("{case}."), |sheet| {
                let x = tensor(&case, "latents")?;
                let (cond, uncond) = (tensor(&case, "cond")?, tensor(&case, "uncond")?);
                sheet.close(&out, adg(x, cond, uncond, t, SCALE, Adg::CLIPPED));
                Ok(())
            })?;
        }
    }
    Ok(())
}
