//! Solver, smoothing and correction of the steps.

use acestep_engine::{
    Error, Notice,
    check::{choice, real, whole},
    error::shortened,
};
use serde::Serialize;

use super::topic::topic;
use crate::{
    ModelInfo,
    flow::{
        dcw::{Dcw, DcwMode},
        smoothing::Smoothing,
        solver::{SdeTimes, Solver},
    },
};

topic! {
    /// Solver, smoothing and correction of the steps.
    Sampler {
        /// `ode` or `sde`.
        infer_method: String = Word,
        /// `euler` or `heun`, for the deterministic method.
        sampler_mode: String = Word,
        /// `euler`, `sde`, `dpm3m` or `stork4`: acestep.cpp's single name for method and mode.
        solver: String = Word,
        /// Sub-steps of `stork4`; they do not change its result.
        stork_substeps: i64 = Whole,
        /// Limit on the velocity, in norms of the latents; 0 = no limit.
        velocity_norm_threshold: f64 = Number,
        /// Weight of the previous velocity; 0 = none.
        velocity_ema_factor: f64 = Number,
        /// True to correct the steps in the wavelet domain.
        dcw_enabled: bool = Flag,
        /// `low`, `high`, `double` or `pix`: the frequencies to correct.
        dcw_mode: String = Word,
        /// Strength of the correction.
        dcw_scaler: f64 = Number,
        /// Strength for high frequencies in mode `double`.
        dcw_high_scaler: f64 = Number,
        /// `haar`, the only wavelet.
        dcw_wavelet: String = Word,
    }
}

/// The way to compute a step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SamplerPlan {
    /// Method to compute a step.
    pub solver: Solver,
    /// Smoothing of every velocity.
    #[serde(flatten)]
    pub smoothing: Smoothing,
    /// Correction after every step; `None` = none.
    pub dcw: Option<Dcw>,
}

/// Upstream's DCW strengths, the defaults of `dcw_enabled`.
const DCW_SCALER: f64 = 0.05;
const DCW_HIGH_SCALER: f64 = 0.02;

/// acestep.cpp's number of sub-steps, and the largest number that has ROCK4 coefficients.
const SUBSTEPS: i64 = 10;
const MOST_SUBSTEPS: u32 = 148;

/// Largest threshold for the norm of a velocity; a larger one would never apply.
const MOST_NORM: f64 = 100.0;

impl Sampler {
    /// Decides the way to compute a step.
    pub(crate) fn plan(
        &self,
        model: &ModelInfo,
        notices: &mut Vec<Notice>,
    ) -> Result<SamplerPlan, Error> {
        let solver = self.solver(model, notices)?;
        let smoothing = self.smoothing()?;
        Ok(SamplerPlan { solver, smoothing, dcw: self.dcw(solver, notices)? })
    }

    /// Returns the solver, from upstream's two options or acestep.cpp's single one.
    fn solver(&self, model: &ModelInfo, notices: &mut Vec<Notice>) -> Result<Solver, Error> {
        let methods = [("ode", false), ("sde", true)];
        let is_sde = choice("infer_method", self.infer_method.as_deref(), &methods)?;
        let modes = [("euler", false), ("heun", true)];
        let is_heun = choice("sampler_mode", self.sampler_mode.as_deref(), &modes)?;
        self.check_substeps(notices)?;
        if self.solver.is_some() {
            let solvers = [
                ("euler", Solver::Euler),
                ("sde", Solver::Sde(SdeTimes::Schedule)),
                ("dpm3m", Solver::Dpm3m),
                ("stork4", Solver::Stork4),
            ];
            let solver = choice("solver", self.solver.as_deref(), &solvers)?;
            let differs = matches!(solver, Solver::Sde(_)) != is_sde;
            if is_heun || self.infer_method.is_some() && differs {
                let other = if is_heun {
                    "sampler_mode: heun".to_owned()
                } else {
                    format!("infer_method: {}", self.infer_method.as_deref().unwrap_or_default())
                };
                return Err(Error::Conflict(format!(
                    "`solver: {}` and `{other}` name two solvers; use one of them",
                    self.solver.as_deref().unwrap_or_default()
                )));
            }
            return Ok(solver);
        }
        Ok(match (is_sde, is_heun) {
            (false, false) => Solver::Euler,
            (false, true) => Solver::Heun,
            (true, _) => {
                if is_heun {
                    let text = "`sampler_mode: heun` has no effect with `infer_method: sde`";
                    notices.push(Notice(text.into()));
                }
                let times = if model.is_turbo { SdeTimes::Schedule } else { SdeTimes::Even };
                Solver::Sde(times)
            }
        })
    }

    /// Checks `stork_substeps`; the value does not change the result of `stork4`.
    fn check_substeps(&self, notices: &mut Vec<Notice>) -> Result<(), Error> {
        let Some(steps) = self.stork_substeps else { return Ok(()) };
        whole("stork_substeps", steps, 1, MOST_SUBSTEPS)?;
        if steps != SUBSTEPS {
            let why = match self.solver.as_deref() {
                Some("stork4") => {
                    "stork4 takes the exact integral, to which any number of them leads"
                }
                _ => "it belongs to the solver stork4",
            };
            notices.push(Notice(format!("`stork_substeps: {steps}` has no effect: {why}")));
        }
        Ok(())
    }

    /// Returns the smoothing of every velocity; 0 means off, as in upstream.
    fn smoothing(&self) -> Result<Smoothing, Error> {
        let share = |field, value: Option<f64>, most| -> Result<Option<f32>, Error> {
            let value = real(field, value.unwrap_or(0.0), 0.0, most)?;
            Ok((value > 0.0).then_some(value as f32))
        };
        Ok(Smoothing {
            norm_threshold: share(
                "velocity_norm_threshold",
                self.velocity_norm_threshold,
                MOST_NORM,
            )?,
            ema_factor: share("velocity_ema_factor", self.velocity_ema_factor, 1.0)?,
        })
    }

    /// Returns the correction if requested: by `dcw_enabled` with upstream's defaults, or only by a
    /// strength with acestep.cpp's.
    fn dcw(&self, solver: Solver, notices: &mut Vec<Notice>) -> Result<Option<Dcw>, Error> {
        let strength =
            |field, value: Option<f64>| value.map(|v| real(field, v, 0.0, 1.0)).transpose();
        let scaler = strength("dcw_scaler", self.dcw_scaler)?;
        let high_scaler = strength("dcw_high_scaler", self.dcw_high_scaler)?;
        let named = |name| choice("dcw_mode", Some(name), &DcwMode::NAMES);
        let mode = self.dcw_mode.as_deref().map(named).transpose()?;
        let asked_by_strength = scaler.unwrap_or(0.0) > 0.0 || high_scaler.unwrap_or(0.0) > 0.0;
        if !self.dcw_enabled.unwrap_or(asked_by_strength) {
            // An explicit `dcw_enabled: false` or a strength of 0 needs no notice.
            let is_known = self.dcw_enabled.is_some() || scaler.is_some() || high_scaler.is_some();
            if !is_known && (mode.is_some() || self.dcw_wavelet.is_some()) {
                let text = "`dcw_mode` and `dcw_wavelet` have no effect without `dcw_enabled` or `dcw_scaler`";
                notices.push(Notice(text.into()));
            }
            return Ok(None);
        }
        if let Some(wavelet) = self.dcw_wavelet.as_deref().filter(|name| *name != "haar") {
            return Err(Error::BadValue {
                field: "dcw_wavelet",
                value: shortened(wavelet),
                why: "of the wavelets only haar is built".into(),
                near: None,
            });
        }
        let is_upstreams = self.dcw_enabled == Some(true);
        if !is_upstreams && matches!(solver, Solver::Sde(_)) {
            let text = "DCW is left out: acestep.cpp, whose way a `dcw_scaler` without `dcw_enabled` asks \
                        for, corrects no stochastic steps";
            notices.push(Notice(text.into()));
            return Ok(None);
        }
        let (mode, scaler, high_scaler) = if is_upstreams {
            let mode = mode.unwrap_or(DcwMode::Double);
            (mode, scaler.unwrap_or(DCW_SCALER), high_scaler.unwrap_or(DCW_HIGH_SCALER))
        } else {
            (mode.unwrap_or(DcwMode::Low), scaler.unwrap_or(0.0), high_scaler.unwrap_or(0.0))
        };
        if mode != DcwMode::Double && self.dcw_high_scaler.is_some_and(|given| given > 0.0) {
            let text = format!(
                "`dcw_high_scaler` has no effect in mode {}: it belongs to mode double",
                mode.name()
            );
            notices.push(Notice(text));
        }
        if scaler == 0.0 && (mode != DcwMode::Double || high_scaler == 0.0) {
            let text =
                format!("DCW is asked for, but in mode {} of strength 0: it is off", mode.name());
            notices.push(Notice(text));
            return Ok(None);
        }
        let dcw = Dcw { mode, scaler: scaler as f32, high_scaler: high_scaler as f32 };
        notices.push(Notice(format!(
            "DCW corrects every step (mode {}, {scaler}{}); upstream has it on for turbo unless told \
             otherwise, here it is off unless asked for",
            mode.name(),
            if mode == DcwMode::Double { format!(" and {high_scaler}") } else { String::new() },
        )));
        Ok(Some(dcw))
    }

    /// Returns the fields with the decisions of `plan`, which they make again.
    pub(crate) fn decided(&self, plan: &SamplerPlan) -> Self {
        let infer_method = match self.solver {
            // acestep.cpp's solver name is sufficient.
            Some(_) => self.infer_method.clone(),
            None => Some(plan.solver.infer_method().to_owned()),
        };
        Self { infer_method, ..self.clone() }
    }
}
