//! Description of the sampling: steps, guidance, and other settings that change the sound.

use acestep_music::{
    Plan,
    flow::{
        dcw::{Dcw, DcwMode},
        smoothing::Smoothing,
        solver::Solver,
    },
    plan::{FlowEdit, Retake},
};
use serde_json::{Value, json};

use super::{counted, of_seeds, shortest};

/// Returns `steps`, `guidance`, and settings that differ from the defaults.
pub(super) fn lines(plan: &Plan) -> Vec<(&'static str, String)> {
    let mut lines = vec![("steps", steps(plan)), ("guidance", guidance(plan))];
    let Smoothing { norm_threshold, ema_factor } = plan.smoothing;
    let clamp = norm_threshold.map(|most| format!("at most {most} times as long as the latents"));
    let mean = ema_factor.map(|share| format!("{share} of it is the one before"));
    let smoothing: Vec<String> = clamp.into_iter().chain(mean).collect();
    if !smoothing.is_empty() {
        lines.push(("velocity", smoothing.join(", ")));
    }
    if let Some(Dcw { mode, scaler, high_scaler }) = &plan.dcw {
        let high = (*mode == DcwMode::Double).then(|| format!(" and {high_scaler}"));
        lines.push(("DCW", format!("{}, {scaler}{}", mode.name(), high.unwrap_or_default())));
    }
    if let Some(Retake { seeds, variance }) = &plan.retake {
        lines.push(("retake", format!("{variance} of the way to {}", of_seeds(seeds))));
    }
    if plan.cover_noise_strength > 0.0 {
        let text = format!("{} of the source under the noise", plan.cover_noise_strength);
        lines.push(("start", text));
    }
    if let Some(FlowEdit { source_caption, window, seeds, .. }) = &plan.flow_edit {
        let steps = window.steps(plan.steps());
        let when = match steps.is_empty() {
            true => "in no step".to_owned(),
            false => format!("in steps {} to {}", steps.start + 1, steps.end),
        };
        let text = format!(
            "from {source_caption:?} {when}, {} a step, {}",
            counted(window.n_avg, "noise"),
            of_seeds(seeds)
        );
        lines.push(("edit", text));
    }
    if (plan.latent_rescale, plan.latent_shift) != (1.0, 0.0) {
        lines
            .push(("latents", format!("times {} plus {}", plan.latent_rescale, plan.latent_shift)));
    }
    lines
}

/// Returns the same data as keys of `plan`.
pub(super) fn to_json(plan: &Plan) -> Value {
    let Smoothing { norm_threshold, ema_factor } = plan.smoothing;
    let times = plan.schedule().timesteps;
    json!({
        "inference_steps": plan.steps(),
        "shift": plan.shift.map(shortest),
        "timesteps": times.iter().copied().map(shortest).collect::<Vec<_>>(),
        "terminal": shortest(plan.terminal),
        "infer_method": infer_method(plan),
        "solver": plan.solver.name(),
        "guidance": plan.guidance.map(|guidance| json!({
            "scale": shortest(guidance.scale),
            "mode": guidance.mode.name(),
            "interval": [shortest(guidance.interval.0), shortest(guidance.interval.1)],
        })),
        "velocity_norm_threshold": norm_threshold.map(shortest),
        "velocity_ema_factor": ema_factor.map(shortest),
        "dcw": plan.dcw.map(|Dcw { mode, scaler, high_scaler }| json!({
            "mode": mode.name(),
            "scaler": shortest(scaler),
            "high_scaler": shortest(high_scaler),
        })),
        "retake": plan.retake.as_ref().map(|Retake { seeds, variance }| json!({
            "variance": variance,
            "seeds": seeds,
        })),
        "cover_noise_strength": plan.cover_noise_strength,
        "flow_edit": plan.flow_edit.as_ref().map(|edit| json!({
            "source_caption": edit.source_caption,
            "source_lyrics": edit.source_lyrics,
            "n_min": edit.window.n_min,
            "n_max": edit.window.n_max,
            "n_avg": edit.window.n_avg,
            "seeds": edit.seeds,
        })),
        "latent_rescale": shortest(plan.latent_rescale),
        "latent_shift": shortest(plan.latent_shift),
    })
}

/// Returns upstream's name of the method; it does not tell the solver.
pub(in super::super) fn infer_method(plan: &Plan) -> &'static str {
    match plan.solver {
        Solver::Sde(_) => "sde",
        Solver::Euler | Solver::Heun | Solver::Dpm3m | Solver::Stork4 => "ode",
    }
}

fn steps(plan: &Plan) -> String {
    const SHOWN: usize = 8;
    let schedule = plan.schedule();
    let times = schedule.timesteps.iter().take(SHOWN);
    let times: Vec<_> = times.map(|t| format!("{t:.4}")).collect();
    let solver = match plan.solver {
        Solver::Euler => infer_method(plan),
        solver => solver.name(),
    };
    let more = if plan.steps() > SHOWN { " .." } else { "" };
    let times = times.join(" ");
    format!("{} ({}): {times}{more} -> {}", plan.steps(), solver, plan.terminal)
}

fn guidance(plan: &Plan) -> String {
    match plan.guidance {
        None => "none".to_owned(),
        Some(guidance) => {
            let (from, to) = guidance.interval;
            format!("{} ({}), at times {from} to {to}", guidance.scale, guidance.mode.name())
        }
    }
}
