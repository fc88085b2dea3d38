//! Steps, shift, times and guidance.

use acestep_engine::{
    Error, Notice,
    check::{choice, real, whole},
    error::shortened,
};
use serde::Serialize;

use super::{topic::topic, values::shortest};
use crate::{
    ModelInfo,
    flow::{
        guidance::{Guidance, GuidanceMode},
        schedule::{self, Schedule, TURBO_STEPS},
    },
};

topic! {
    /// Steps and guidance.
    Sampling {
        /// Solver steps.
        inference_steps: i64 = Count("infer_steps"),
        /// Shift of the schedule towards the noise.
        shift: f64 = Positive,
        /// The schedule itself, descending; takes precedence over steps and shift.
        timesteps: Vec<f64> = Times("custom_timesteps"),
        /// Guidance scale; 1 = no guidance.
        guidance_scale: f64 = Positive("cfg_scale"),
        /// `apg`, `cfg`, `adg`, `adg_w_norm` or `adg_wo_clip`.
        guidance_mode: String = Word("guidance_variant"),
        /// Same as the mode `adg`.
        use_adg: bool = Flag,
        /// Lowest time at which guidance applies.
        cfg_interval_start: f64 = Number,
        /// Highest time at which guidance applies.
        cfg_interval_end: f64 = Number,
    }
}

/// Times of the steps, and guidance.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SamplingPlan {
    /// Shift of the schedule towards the noise; `None` if the times were given.
    pub shift: Option<f32>,
    /// Start times of the solver's steps, descending. If sampling starts from a source,
    /// [`Plan::schedule`](crate::Plan::schedule) drops the first ones.
    pub timesteps: Vec<f32>,
    /// End time of the last step: 0, unless the user's own times end elsewhere.
    pub terminal: f32,
    /// Guidance; `None` for turbo and for a scale of 1.
    pub guidance: Option<Guidance>,
    /// True if the model is distilled; its stochastic steps end at the schedule's times.
    #[serde(skip)]
    pub is_turbo: bool,
}

/// Shift that turbo was distilled for.
const TURBO_SHIFT: f64 = 3.0;
/// Settings of the model cards for base and sft.
const BASE_STEPS: usize = 50;
const BASE_SHIFT: f64 = 1.0;

const MOST_STEPS: u32 = 200;
/// Least shift. With one far below, f32 rounds `1 + (shift - 1)` to 0, and the first time is a division by it.
const LEAST_SHIFT: f64 = 0.01;
const MOST_SHIFT: f64 = 100.0;

impl Sampling {
    /// Decides steps and guidance; an edit ends at time 0 by itself.
    pub(crate) fn plan(
        &self,
        is_edit: bool,
        model: &ModelInfo,
        notices: &mut Vec<Notice>,
    ) -> Result<SamplingPlan, Error> {
        let (Schedule { timesteps, terminal }, shift) = self.times(is_edit, model, notices)?;
        let guidance = self.guidance(model, notices)?;
        Ok(SamplingPlan { shift, timesteps, terminal, guidance, is_turbo: model.is_turbo })
    }

    fn times(
        &self,
        is_edit: bool,
        model: &ModelInfo,
        notices: &mut Vec<Notice>,
    ) -> Result<(Schedule, Option<f32>), Error> {
        let steps = self.inference_steps.map(|n| whole("inference_steps", n, 1, MOST_STEPS));
        let steps = steps.transpose()?.map(|steps| steps as usize);
        let shift = self.shift.map(|s| real("shift", s, LEAST_SHIFT, MOST_SHIFT)).transpose()?;
        if let Some(times) = &self.timesteps {
            if steps.is_some() || shift.is_some() {
                notices
                    .push(Notice("steps and shift are not used: the timesteps are given".into()));
            }
            return Ok((custom(times, is_edit, model, notices)?, None));
        }
        if !model.is_turbo {
            let steps = steps.unwrap_or(BASE_STEPS);
            let shift = shift.unwrap_or(BASE_SHIFT) as f32;
            return Ok((schedule::base(steps, shift), Some(shift)));
        }
        let steps = steps.unwrap_or(TURBO_STEPS);
        if steps != TURBO_STEPS {
            notices.push(Notice(format!(
                "{} is distilled to {TURBO_STEPS} steps; `inference_steps: {steps}` is used as asked",
                model.name
            )));
        }
        let shift = shift.unwrap_or(TURBO_SHIFT) as f32;
        // A saved request has the shortest decimal too, and makes the same song.
        Ok((schedule::turbo(steps, shortest(shift)), Some(shift)))
    }

    fn guidance(
        &self,
        model: &ModelInfo,
        notices: &mut Vec<Notice>,
    ) -> Result<Option<Guidance>, Error> {
        let scale =
            self.guidance_scale.map(|g| real("guidance_scale", g, 1.0, 30.0)).transpose()?;
        let mode = self.mode(notices)?;
        let end =
            |field, value: Option<f64>, default| real(field, value.unwrap_or(default), 0.0, 1.0);
        let start = end("cfg_interval_start", self.cfg_interval_start, 0.0)?;
        let stop = end("cfg_interval_end", self.cfg_interval_end, 1.0)?;
        if start > stop {
            return Err(Error::Conflict(format!(
                "`cfg_interval_start: {start}` is above `cfg_interval_end: {stop}`: exchange them"
            )));
        }
        let has_interval = (start, stop) != (0.0, 1.0);
        if model.is_turbo {
            let name = &model.name;
            let mut unused = |what: String| {
                let text = format!("{name} is distilled to need no guidance; {what} is not used");
                notices.push(Notice(text));
            };
            if has_interval {
                unused("its interval".into());
            }
            if let Some(scale) = scale.filter(|&scale| scale != 1.0) {
                unused(format!("`guidance_scale: {scale}`"));
            }
            if mode != GuidanceMode::Apg {
                unused(format!("`guidance_mode: {}`", mode.name()));
            }
            return Ok(None);
        }
        let scale = scale.unwrap_or(model.guidance_scale) as f32;
        if scale == 1.0 && (has_interval || mode != GuidanceMode::Apg) {
            let text = "`guidance_scale: 1` is no guidance: its mode and interval have no effect";
            notices.push(Notice(text.into()));
        }
        let interval = (start as f32, stop as f32);
        Ok((scale != 1.0).then_some(Guidance { scale, mode, interval }))
    }

    /// Returns the mode by its name, which takes precedence over `use_adg`.
    fn mode(&self, notices: &mut Vec<Notice>) -> Result<GuidanceMode, Error> {
        let name = match self.guidance_mode.as_deref() {
            // Upstream's default, which its files always contain; `use_adg` replaces it.
            Some("apg_classic") => None,
            name => name,
        };
        let mode = choice("guidance_mode", name, &GuidanceMode::NAMES)?;
        Ok(match (self.use_adg, name) {
            (Some(true), None) => GuidanceMode::Adg,
            (Some(true), Some(name)) if !name.starts_with("adg") => {
                let text = format!("`use_adg` has no effect: `guidance_mode: {name}` is given");
                notices.push(Notice(text));
                mode
            }
            _ => mode,
        })
    }

    /// Returns the fields with the decisions of `plan`, which they make again.
    pub(crate) fn decided(&self, plan: &SamplingPlan) -> Self {
        let guidance = plan.guidance;
        let interval = guidance.map(|guidance| guidance.interval);
        let own_scale = self.guidance_scale.filter(|_| !plan.is_turbo);
        let own_times = self.timesteps.is_some();
        Self {
            inference_steps: (!own_times).then_some(plan.timesteps.len() as i64),
            shift: plan.shift.map(shortest),
            guidance_scale: own_scale.or(guidance.map(|guidance| shortest(guidance.scale))),
            guidance_mode: guidance.map(|guidance| guidance.mode.name().to_owned()),
            use_adg: None,
            cfg_interval_start: self
                .cfg_interval_start
                .or(interval.map(|(start, _)| shortest(start))),
            cfg_interval_end: self.cfg_interval_end.or(interval.map(|(_, end)| shortest(end))),
            ..self.clone()
        }
    }
}

/// Checks the user's own times, which must fall from at most 1 to at least 0. With `ends_at_zero`
/// there is no notice about a last time above 0, because the caller adds a step to 0.
fn custom(
    times: &[f64],
    ends_at_zero: bool,
    model: &ModelInfo,
    notices: &mut Vec<Notice>,
) -> Result<Schedule, Error> {
    for &t in times {
        real("timesteps", t, 0.0, 1.0)?;
    }
    let bad = |why: &str| {
        let value = times.iter().map(f64::to_string).collect::<Vec<_>>().join(",");
        Error::BadValue {
            field: "timesteps",
            value: shortened(&value),
            why: why.into(),
            near: None,
        }
    };
    let times: Vec<f32> = times.iter().map(|&t| t as f32).collect();
    let trailing_zeros = times.iter().rev().take_while(|&&t| t == 0.0).count();
    let falling = &times[..times.len() - trailing_zeros.saturating_sub(1)];
    if !falling.windows(2).all(|pair| pair[0] > pair[1]) {
        return Err(bad("each time must be below the one before it"));
    }
    if times.len() > MOST_STEPS as usize + 1 {
        return Err(bad("there are more than 200 steps"));
    }
    if !model.is_turbo {
        let few = || bad("there must be at least two: where the first step begins and ends");
        let schedule = schedule::base_custom(falling).ok_or_else(few)?;
        if schedule.terminal > 0.0 && !ends_at_zero {
            notices.push(Notice(format!(
                "sampling stops at time {}, with that much noise left; end the timesteps with 0 to \
                 remove all of it",
                schedule.terminal
            )));
        }
        return Ok(schedule);
    }
    let schedule = schedule::turbo_custom(&times).ok_or_else(|| bad("there is no step in it"))?;
    let asked = &times[..times.len() - trailing_zeros];
    // No notice for times that were only rounded to a few digits.
    let moved = |(a, b): (&f32, &f32)| (a - b).abs() > 1e-3;
    if asked.len() != schedule.timesteps.len() || asked.iter().zip(&schedule.timesteps).any(moved) {
        let used: Vec<_> = schedule.timesteps.iter().map(|t| format!("{t:.4}")).collect();
        notices.push(Notice(format!(
            "{} knows 20 times; the nearest ones are used: {}",
            model.name,
            used.join(", ")
        )));
    }
    Ok(schedule)
}
