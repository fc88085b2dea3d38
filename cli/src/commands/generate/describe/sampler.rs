//! Lines about the sampling: steps, guidance, and other settings that change the sound.

use super::{counted, of_seeds};
use acestep_music::{
    Plan,
    flow::{
        dcw::{Dcw, DcwMode},
        smoothing::Smoothing,
        solver::Solver,
    },
    plan::{FlowEdit, Retake},
};

/// Returns `steps`, `guidance`, and settings that differ from the defaults.
pub(super) fn lines(plan: &Plan) -> Vec<(&'static str, String)> {
    let mut lines = vec![("steps", steps(plan)), ("guidance", guidance(plan))];
    let Smoothing { norm_threshold, ema_factor } = plan.sampler.smoothing;
    let clamp = norm_threshold.map(|most| format!("at most {most} times as long as the latents"));
    let mean = ema_factor.map(|share| format!("{share} of it is the one before"));
    let smoothing: Vec<String> = clamp.into_iter().chain(mean).collect();
    if !smoothing.is_empty() {
        lines.push(("velocity", smoothing.join(", ")));
    }
    if let Some(Dcw { mode, scaler, high_scaler }) = &plan.sampler.dcw {
        let high = (*mode == DcwMode::Double).then(|| format!(" and {high_scaler}"));
        lines.push(("DCW", format!("{}, {scaler}{}", mode.name(), high.unwrap_or_default())));
    }
    if let Some(Retake { seeds, variance }) = &plan.noise.retake {
        lines.push(("retake", format!("{variance} of the way to {}", of_seeds(seeds))));
    }
    if plan.source.cover_noise_strength > 0.0 {
        let text = format!("{} of the source under the noise", plan.source.cover_noise_strength);
        lines.push(("start", text));
    }
    if let Some(FlowEdit { source_caption, window, seeds, .. }) = &plan.edit {
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
    if (plan.output.latent_rescale, plan.output.latent_shift) != (1.0, 0.0) {
        lines.push((
            "latents",
            format!("times {} plus {}", plan.output.latent_rescale, plan.output.latent_shift),
        ));
    }
    lines
}

fn steps(plan: &Plan) -> String {
    const SHOWN: usize = 8;
    let schedule = plan.schedule();
    let times = schedule.timesteps.iter().take(SHOWN);
    let times: Vec<_> = times.map(|t| format!("{t:.4}")).collect();
    let solver = match plan.sampler.solver {
        Solver::Euler => plan.sampler.solver.infer_method(),
        solver => solver.name(),
    };
    let more = if plan.steps() > SHOWN { " .." } else { "" };
    let times = times.join(" ");
    format!("{} ({}): {times}{more} -> {}", plan.steps(), solver, plan.sampling.terminal)
}

fn guidance(plan: &Plan) -> String {
    match plan.sampling.guidance {
        None => "none".to_owned(),
        Some(guidance) => {
            let (from, to) = guidance.interval;
            format!("{} ({}), at times {from} to {to}", guidance.scale, guidance.mode.name())
        }
    }
}
