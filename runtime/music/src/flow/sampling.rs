//! Settings of a sampling run that are not tensors.

use acestep_model::Backend;
use burn::tensor::Tensor;

use super::{
    dcw::Dcw,
    schedule::{Schedule, base_sde_next},
    smoothing::Smoothing,
    solver::{SdeTimes, Solver, Step},
};

/// Steps, solver and corrections.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampling {
    /// The steps, from noise to latents.
    pub steps: Vec<Step>,
    /// The method to compute a step.
    pub solver: Solver,
    /// True if the model is distilled: its last step is plain and ends the run, and no source is
    /// injected after it.
    pub is_turbo: bool,
    /// Smoothing of every velocity.
    pub smoothing: Smoothing,
    /// Correction after every step; `None` = none.
    pub dcw: Option<Dcw>,
}

impl Sampling {
    /// Creates the steps of a schedule, without smoothing or correction.
    pub fn new(schedule: &Schedule, solver: Solver, is_turbo: bool) -> Self {
        let times = &schedule.timesteps;
        let next = |index: usize| match solver {
            Solver::Sde(SdeTimes::Even) => base_sde_next(index, times.len()),
            _ => times.get(index + 1).copied().unwrap_or(schedule.terminal),
        };
        let steps = times.iter().enumerate().map(|(i, &t)| Step { t, next: next(i) }).collect();
        Self { steps, solver, is_turbo, smoothing: Smoothing::default(), dcw: None }
    }

    /// Returns the method of a step: the solver, or Euler for the last step of a distilled model
    /// with Heun, and for the last step of acestep.cpp's solvers.
    ///
    /// An SDE step that ends at time 0 is Euler's too, because it would scale its noise by zero.
    pub(super) fn solver_of(&self, index: usize) -> Solver {
        let is_last = index + 1 == self.steps.len();
        let is_plain = match self.solver {
            Solver::Euler => true,
            Solver::Heun => is_last && self.is_turbo,
            Solver::Sde(_) => self.steps[index].next <= 0.0,
            Solver::Dpm3m | Solver::Stork4 => is_last,
        };
        if is_plain { Solver::Euler } else { self.solver }
    }

    /// True if the source may be injected after this step.
    pub(super) fn injects_after(&self, index: usize) -> bool {
        !self.is_turbo || index + 1 < self.steps.len()
    }

    /// Returns the music that the velocity at the start of a step predicts, for [`Sampling::dcw`].
    ///
    /// For acestep.cpp's own solvers it is predicted from the end of the step.
    ///
    /// # Shapes
    /// - `start`, `end`, `velocity`, output: `[B, T, C]`
    pub(super) fn predicted<B: Backend>(
        &self,
        start: Tensor<B, 3>,
        end: Tensor<B, 3>,
        velocity: Tensor<B, 3>,
        step: Step,
    ) -> Tensor<B, 3> {
        match self.solver {
            Solver::Dpm3m | Solver::Stork4 => end - velocity * step.next,
            Solver::Euler | Solver::Heun | Solver::Sde(_) => start - velocity * step.t,
        }
    }

    /// Returns the times of all transformer calls, in order.
    pub fn calls(&self) -> Vec<f32> {
        let of_step = |(index, step): (usize, &Step)| match self.solver_of(index) {
            Solver::Heun => vec![step.t, step.next],
            _ => vec![step.t],
        };
        self.steps.iter().enumerate().flat_map(of_step).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::schedule;

    #[test]
    fn the_last_step_is_plain_where_its_program_makes_it_so() {
        let schedule = schedule::turbo(8, 3.0);
        let last = |solver, is_turbo| Sampling::new(&schedule, solver, is_turbo).solver_of(7);
        assert_eq!(last(Solver::Heun, true), Solver::Euler);
        assert_eq!(last(Solver::Heun, false), Solver::Heun);
        assert_eq!(last(Solver::Dpm3m, false), Solver::Euler);
        assert_eq!(last(Solver::Stork4, true), Solver::Euler);
        assert_eq!(last(Solver::Sde(SdeTimes::Even), false), Solver::Euler);
        let sampling = Sampling::new(&schedule, Solver::Sde(SdeTimes::Schedule), true);
        assert_eq!(sampling.solver_of(6), Solver::Sde(SdeTimes::Schedule));
        assert!(sampling.injects_after(6) && !sampling.injects_after(7));
    }

    /// The goldens list every call of the decoder.
    #[test]
    fn heun_asks_twice_a_step_but_for_turbos_last() {
        let golden = |file: &str, case: &str| {
            crate::test_goldens::golden_f32(file, &format!("{case}.timesteps"))
        };
        let turbo = Sampling::new(&schedule::turbo(8, 3.0), Solver::Heun, true);
        assert_eq!(turbo.calls(), golden("a/sampling_turbo.safetensors", "heun"));
        let base = Sampling::new(&schedule::base(3, 1.0), Solver::Heun, false);
        assert_eq!(base.calls(), golden("a/sampling_base.safetensors", "heun_apg"));
    }
}
