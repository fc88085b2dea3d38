//! A plan as text: how it is sampled, one subject per line.

use acestep_engine::error::counted;

use super::{FlowEdit, Plan, Retake};
use crate::flow::{
    dcw::{Dcw, DcwMode},
    smoothing::Smoothing,
    solver::Solver,
};

/// Returns a text such as `seed 7` or `seeds 7, 8`.
pub fn of_seeds(seeds: &[u64]) -> String {
    let listed = seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    if seeds.len() == 1 { format!("seed {listed}") } else { format!("seeds {listed}") }
}

impl Plan {
    /// Returns lines about the steps, the guidance, and settings that differ from the defaults, each
    /// with its subject.
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let mut lines = vec![("steps", self.steps_text()), ("guidance", self.guidance_text())];
        let Smoothing { norm_threshold, ema_factor } = self.sampler.smoothing;
        let clamp =
            norm_threshold.map(|most| format!("at most {most} times as long as the latents"));
        let mean = ema_factor.map(|share| format!("{share} of it is the one before"));
        let smoothing: Vec<String> = clamp.into_iter().chain(mean).collect();
        if !smoothing.is_empty() {
            lines.push(("velocity", smoothing.join(", ")));
        }
        if let Some(Dcw { mode, scaler, high_scaler }) = &self.sampler.dcw {
            let high = (*mode == DcwMode::Double).then(|| format!(" and {high_scaler}"));
            lines.push(("DCW", format!("{}, {scaler}{}", mode.name(), high.unwrap_or_default())));
        }
        if let Some(Retake { seeds, variance }) = &self.noise.retake {
            lines.push(("retake", format!("{variance} of the way to {}", of_seeds(seeds))));
        }
        if self.source.cover_noise_strength > 0.0 {
            let text =
                format!("{} of the source under the noise", self.source.cover_noise_strength);
            lines.push(("start", text));
        }
        if let Some(FlowEdit { source_caption, window, seeds, .. }) = &self.edit {
            let steps = window.steps(self.steps());
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
        if (self.output.latent_rescale, self.output.latent_shift) != (1.0, 0.0) {
            lines.push((
                "latents",
                format!("times {} plus {}", self.output.latent_rescale, self.output.latent_shift),
            ));
        }
        lines
    }

    fn steps_text(&self) -> String {
        const SHOWN: usize = 8;
        let schedule = self.schedule();
        let times = schedule.timesteps.iter().take(SHOWN);
        let times: Vec<_> = times.map(|t| format!("{t:.4}")).collect();
        let solver = match self.sampler.solver {
            Solver::Euler => self.sampler.solver.infer_method(),
            solver => solver.name(),
        };
        let more = if self.steps() > SHOWN { " .." } else { "" };
        let times = times.join(" ");
        format!("{} ({}): {times}{more} -> {}", self.steps(), solver, self.sampling.terminal)
    }

    fn guidance_text(&self) -> String {
        match self.sampling.guidance {
            None => "none".to_owned(),
            Some(guidance) => {
                let (from, to) = guidance.interval;
                format!("{} ({}), at times {from} to {to}", guidance.scale, guidance.mode.name())
            }
        }
    }
}
