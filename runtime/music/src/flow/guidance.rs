//! Guidance: steers the velocity away from the unconditional one.
//!
//! Plain: `v = v_u + g (v_c - v_u)`.
//!
//! Adaptive projected (APG): `d = (v_c - v_u) + m d_before` with `m = -0.75`; `d` is limited to a
//! norm of 2.5; only its part orthogonal to `v_c` is kept; `v = v_c + (g - 1) d_orth`. Norms and
//! projection run over time, separately for each channel.
//!
//! Angle-based (ADG): see [`adg`](adg::adg).
//!
//! Source: Ho & Salimans 2022, arXiv:2207.12598; Sadat et al. 2024, arXiv:2410.02416; upstream
//! `acestep/models/common/apg_guidance.py`.

pub mod adg;
#[cfg(test)]
mod tests;

use acestep_model::Backend;
use adg::{Adg, adg};
use burn::tensor::Tensor;
use serde::Serialize;

use crate::named::named;

named! {
    /// Method to combine the conditional and the unconditional velocity, by upstream's names; the
    /// first is the default.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum GuidanceMode {
        /// Adaptive projected guidance.
        Apg = "apg",
        /// Classifier-free guidance.
        Cfg = "cfg",
        /// Angle-based dynamic guidance with a limited angle.
        Adg = "adg",
        /// ADG with twice the limit, and with the norm kept.
        AdgWithNorm = "adg_w_norm",
        /// ADG without a limit.
        AdgWithoutClip = "adg_wo_clip",
    }
}

/// Guidance of base and sft.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Guidance {
    /// Strength, above 1.
    pub scale: f32,
    /// Method to combine the two velocities.
    pub mode: GuidanceMode,
    /// Times at which guidance applies, both ends included.
    pub interval: (f32, f32),
}

/// Predictions of the transformer at one place and time.
#[derive(Debug, Clone)]
pub struct Prediction<B: Backend> {
    /// Velocity with the condition, `[B, T, C]`.
    pub conditional: Tensor<B, 3>,
    /// Velocity without it, `[B, T, C]`; `None` where guidance does not apply.
    pub unconditional: Option<Tensor<B, 3>>,
}

/// Position of a velocity in its step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The velocity at the start of the step.
    Start,
    /// The second velocity of Heun's method. APG is plain CFG here, because its momentum belongs to
    /// whole steps. So is ADG at time 0, where it has no angle.
    Corrector,
}

impl Guidance {
    /// True if guidance applies at time `t`.
    pub fn applies(&self, t: f32) -> bool {
        (self.interval.0..=self.interval.1).contains(&t)
    }

    /// Returns the guided velocity at `x` and time `t`.
    ///
    /// # Shapes
    /// - `x`, output: `[B, T, C]`
    pub fn applied<B: Backend>(
        &self,
        prediction: Prediction<B>,
        x: &Tensor<B, 3>,
        t: f32,
        role: Role,
        momentum: &mut Momentum<B>,
    ) -> Tensor<B, 3> {
        let Prediction { conditional, unconditional: Some(unconditional) } = prediction else {
            return prediction.conditional;
        };
        let scale = self.scale;
        let turned = |conditional, unconditional, variant| {
            adg(x.clone(), conditional, unconditional, t, scale, variant)
        };
        match (self.mode, role) {
            (GuidanceMode::Cfg, _) | (GuidanceMode::Apg, Role::Corrector) => {
                cfg(conditional, unconditional, scale)
            }
            (GuidanceMode::Apg, Role::Start) => apg(conditional, unconditional, scale, momentum),
            _ if t <= 0.0 => cfg(conditional, unconditional, scale),
            (GuidanceMode::Adg, _) => turned(conditional, unconditional, Adg::CLIPPED),
            (GuidanceMode::AdgWithNorm, _) => turned(conditional, unconditional, Adg::WITH_NORM),
            (GuidanceMode::AdgWithoutClip, _) => turned(conditional, unconditional, Adg::UNCLIPPED),
        }
    }
}

/// Weight of the previous difference in APG's running difference.
const MOMENTUM: f32 = -0.75;

/// Limit on the norm of APG's difference, per channel.
const NORM_THRESHOLD: f32 = 2.5;

/// APG's state between steps: the running difference.
#[derive(Debug, Clone, Default)]
pub struct Momentum<B: Backend>(Option<Tensor<B, 3>>);

impl<B: Backend> Momentum<B> {
    /// Adds one step's `difference`; stores and returns the new running difference.
    ///
    /// # Shapes
    /// - `difference`, output: `[B, T, C]`
    pub fn advance(&mut self, difference: Tensor<B, 3>) -> Tensor<B, 3> {
        let difference = match self.0.take() {
            Some(before) => difference + before * MOMENTUM,
            None => difference,
        };
        self.0 = Some(difference.clone());
        difference
    }
}

/// Adaptive projected guidance.
///
/// # Shapes
/// - `conditional`, `unconditional`, output: `[B, T, C]`
// ANCHOR: apg
pub fn apg<B: Backend>(
    conditional: Tensor<B, 3>,
    unconditional: Tensor<B, 3>,
    scale: f32,
    momentum: &mut Momentum<B>,
) -> Tensor<B, 3> {
    let difference = momentum.advance(conditional.clone() - unconditional);
    let shorten = (norm(difference.clone()).recip() * NORM_THRESHOLD).clamp_max(1.0);
    let difference = difference * shorten;
    let direction = conditional.clone() / norm(conditional.clone()).clamp_min(1e-12);
    let along = (difference.clone() * direction.clone()).sum_dim(1) * direction;
    conditional + (difference - along) * (scale - 1.0)
}
// ANCHOR_END: apg

/// Plain classifier-free guidance.
///
/// # Shapes
/// - `conditional`, `unconditional`, output: `[B, T, C]`
pub fn cfg<B: Backend>(
    conditional: Tensor<B, 3>,
    unconditional: Tensor<B, 3>,
    scale: f32,
) -> Tensor<B, 3> {
    unconditional.clone() + (conditional - unconditional) * scale
}

/// Returns the norm of each channel over time: `[B, T, C] -> [B, 1, C]`.
fn norm<B: Backend>(x: Tensor<B, 3>) -> Tensor<B, 3> {
    x.square().sum_dim(1).sqrt()
}
