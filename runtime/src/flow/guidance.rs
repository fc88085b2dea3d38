//! Guidance: steering the velocity away from the one without a condition.
//!
//! Plain: `v = v_u + g (v_c - v_u)`.
//!
//! Adaptive projected (APG): `d = (v_c - v_u) + m d_before` with `m = -0.75`; `d` is shortened to a
//! norm of 2.5; only its part orthogonal to `v_c` is kept; `v = v_c + (g - 1) d_orth`. Norms and
//! projection run over time, for each channel alone.
//!
//! Source: Ho & Salimans 2022, arXiv:2207.12598; Sadat et al. 2024, arXiv:2410.02416; upstream
//! `acestep/models/common/apg_guidance.py`.

use acestep_model::Backend;
use burn::tensor::Tensor;

/// How the conditional and the unconditional velocity are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuidanceMode {
    /// Adaptive projected guidance, upstream's default.
    Apg,
    /// Classifier-free guidance.
    Cfg,
}

/// Guidance of base and sft.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Guidance {
    /// Strength, above 1.
    pub scale: f32,
    /// How the two velocities are combined.
    pub mode: GuidanceMode,
    /// Applied at times from the first to the second, both included.
    pub interval: (f32, f32),
}

impl Guidance {
    /// Whether guidance applies at time `t`.
    pub fn applies(&self, t: f32) -> bool {
        (self.interval.0..=self.interval.1).contains(&t)
    }
}

/// How much of the last difference APG takes back.
const MOMENTUM: f32 = -0.75;

/// The longest difference APG lets through, per channel.
const NORM_THRESHOLD: f32 = 2.5;

/// What APG remembers between steps: the running difference.
#[derive(Debug, Clone)]
pub struct Momentum<B: Backend>(Option<Tensor<B, 3>>);

impl<B: Backend> Default for Momentum<B> {
    fn default() -> Self {
        Self(None)
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
    let difference = conditional.clone() - unconditional;
    let difference = match momentum.0.take() {
        Some(before) => difference + before * MOMENTUM,
        None => difference,
    };
    momentum.0 = Some(difference.clone());

    let shorten = (norm(difference.clone()).recip() * NORM_THRESHOLD).clamp_max(1.0);
    let difference = difference * shorten;
    let direction = conditional.clone() / norm(conditional.clone()).clamp_min(1e-12);
    let along = (difference.clone() * direction.clone()).sum_dim(1) * direction;
    conditional + (difference - along) * (scale - 1.0)
}
// ANCHOR_END: apg

/// Plain guidance.
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

/// The norm of each channel over time: `[B, T, C] -> [B, 1, C]`.
fn norm<B: Backend>(x: Tensor<B, 3>) -> Tensor<B, 3> {
    x.square().sum_dim(1).sqrt()
}
