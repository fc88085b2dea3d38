//! Smoothing of the velocity: a limit on its norm, and a running mean.
//!
//! Source: upstream `velocity_norm_threshold` and `velocity_ema_factor` in `generate_audio`.

use acestep_model::Backend;
use burn::tensor::Tensor;
use serde::Serialize;

/// Smoothing that is applied to every velocity.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Smoothing {
    /// Limit on a song's velocity, in norms of its latents; `None` = no limit.
    #[serde(rename = "velocity_norm_threshold")]
    pub norm_threshold: Option<f32>,
    /// Weight of the previous velocity in the mean; `None` = no mean.
    #[serde(rename = "velocity_ema_factor")]
    pub ema_factor: Option<f32>,
}

impl Smoothing {
    /// Returns the velocity at `x`, limited, then mixed with the previous one.
    ///
    /// # Shapes
    /// - `velocity`, `x`, `before`, output: `[B, T, C]`
    pub fn applied<B: Backend>(
        &self,
        velocity: Tensor<B, 3>,
        x: &Tensor<B, 3>,
        before: Option<&Tensor<B, 3>>,
    ) -> Tensor<B, 3> {
        self.mixed(self.shortened(velocity, x), before)
    }

    /// Returns `v min(1, threshold |x| / |v|)`, norms over time and channels; all are `[B, T, C]`.
    pub fn shortened<B: Backend>(&self, velocity: Tensor<B, 3>, x: &Tensor<B, 3>) -> Tensor<B, 3> {
        let Some(threshold) = self.norm_threshold else { return velocity };
        let scale = (norm(x.clone()) + TINY) * threshold / (norm(velocity.clone()) + TINY);
        velocity * scale.clamp_max(1.0)
    }

    /// Returns `(1 - f) v + f v'`; all are `[B, T, C]`.
    pub fn mixed<B: Backend>(
        &self,
        velocity: Tensor<B, 3>,
        before: Option<&Tensor<B, 3>>,
    ) -> Tensor<B, 3> {
        match (self.ema_factor, before) {
            (Some(factor), Some(before)) => velocity * (1.0 - factor) + before.clone() * factor,
            _ => velocity,
        }
    }
}

/// Avoids a division by zero.
const TINY: f32 = 1e-10;

/// Returns the norm of each song: `[B, T, C] -> [B, 1, 1]`.
fn norm<B: Backend>(x: Tensor<B, 3>) -> Tensor<B, 3> {
    x.square().sum_dim(2).sum_dim(1).sqrt()
}

#[cfg(test)]
mod tests {
    use acestep_engine::host::to_host;
    use burn_flex::Flex;

    use super::*;

    /// Two songs of one frame and two channels.
    fn songs(values: [[[f32; 2]; 1]; 2]) -> Tensor<Flex, 3> {
        Tensor::from_data(values, &Default::default())
    }

    #[test]
    fn each_song_is_shortened_alone() {
        let x = songs([[[3., 4.]], [[3., 4.]]]);
        let v = songs([[[0., 10.]], [[0., 1.]]]);
        let tame = Smoothing { norm_threshold: Some(0.5), ema_factor: None };
        // |x| = 5, so the limit is 2.5.
        let out = to_host(tame.applied(v.clone(), &x, None));
        assert_eq!(out, [0., 2.5, 0., 1.]);
        let out = Smoothing::default().applied(v.clone(), &x, Some(&x));
        assert_eq!(out.into_data(), v.into_data());
    }

    #[test]
    fn the_velocity_before_is_mixed_in_after_shortening() {
        let x = songs([[[3., 4.]], [[0., 0.]]]);
        let v = songs([[[0., 10.]], [[0., 0.]]]);
        let before = songs([[[4., 4.]], [[8., 0.]]]);
        let tame = Smoothing { norm_threshold: Some(0.5), ema_factor: Some(0.25) };
        let out = to_host(tame.applied(v.clone(), &x, Some(&before)));
        assert_eq!(out, [1., 0.75 * 2.5 + 1., 2., 0.]);
        // The first step has no previous velocity.
        let out = to_host(tame.applied(v, &x, None));
        assert_eq!(out, [0., 2.5, 0., 0.]);
    }
}
