//! Angle-based dynamic guidance (ADG): the predicted music is turned instead of pushed.
//!
//! Each velocity predicts music, `a = x - t v_c` with the condition and `b = x - t v_u` without. In
//! each frame `a` is turned further away from `b`, in the plane of the two, by `w` times their angle,
//! `w = g - 1`, but by no more than a bound; so the music hardly grows louder.
//!
//! Upstream takes the angle's cosine in f64, because near 1 it says little about the angle. Here the
//! angle is taken from the part of `a` at a right angle to `b`, which says as much in f32.
//!
//! Source: upstream `adg_forward` and its variants in `acestep/models/common/apg_guidance.py`.

use std::f32::consts::PI;

use acestep_model::Backend;
use burn::tensor::{Tensor, TensorData};

use crate::host::to_host;

/// What the variants differ in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Adg {
    /// The most that is turned, in radians; `None` = any angle.
    pub most: Option<f32>,
    /// Whether the result is brought back to the norm of `a`, for each channel over time.
    pub keeps_norm: bool,
}

/// Upstream writes 3.14 where it says pi.
#[expect(clippy::approx_constant, reason = "upstream's own number")]
const UPSTREAMS_PI: f64 = 3.14;

impl Adg {
    /// Upstream's `adg`: at most a sixth of a half turn.
    pub const CLIPPED: Self = Self { most: Some((UPSTREAMS_PI / 6.0) as f32), keeps_norm: false };
    /// Upstream's `adg_w_norm`: at most a third, and the norm is kept.
    pub const WITH_NORM: Self = Self { most: Some((UPSTREAMS_PI / 3.0) as f32), keeps_norm: true };
    /// Upstream's `adg_wo_clip`: any angle.
    pub const UNCLIPPED: Self = Self { most: None, keeps_norm: false };
}

/// Upstream keeps the cosine of the angle within `1 - 1e-6` of zero: this angle's.
const LEAST_ANGLE: f32 = 1.414_213_7e-3;

/// Guidance at `x` and time `t`, which is not 0.
///
/// # Shapes
/// - `x`, `conditional`, `unconditional`, output: `[B, T, C]`
// ANCHOR: adg
pub fn adg<B: Backend>(
    x: Tensor<B, 3>,
    conditional: Tensor<B, 3>,
    unconditional: Tensor<B, 3>,
    t: f32,
    scale: f32,
    variant: Adg,
) -> Tensor<B, 3> {
    let weight = (scale - 1.0).max(0.0) + 1e-3;
    let a = x.clone() - conditional * t;
    let b = x.clone() - unconditional * t;
    let away = a.clone() - b.clone();
    let length = dot(&b, &b);
    let away = away.clone() - b.clone() * (dot(&away, &b) / (length.clone() + 1e-8));

    let (across, along) = (dot(&away, &away).sqrt(), dot(&a, &b) / length.sqrt());
    let [cosine, sines] = turns(across, along, weight, variant.most);
    let mut music = a.clone() * cosine + away * sines;
    if variant.keeps_norm {
        music = music.clone() * (super::norm(a) / super::norm(music));
    }
    (x - music) / t
}
// ANCHOR_END: adg

/// The turn of each frame by `weight` times its angle, of which `across` is as the sine and `along` as the cosine:
/// the turn's cosine, and its sine over that of the angle.
///
/// These few numbers are computed on the host, as a driver of Vulkan may be off by `2^-11` in a sine, and by
/// 4096 units of the last place in an arc tangent.
///
/// # Shapes
/// - `across`, `along`, outputs: `[B, T, 1]`
fn turns<B: Backend>(
    across: Tensor<B, 3>,
    along: Tensor<B, 3>,
    weight: f32,
    most: Option<f32>,
) -> [Tensor<B, 3>; 2] {
    let (shape, device) = (across.dims(), across.device());
    let both = to_host(Tensor::cat(vec![across, along], 2)); // [B, T, 2]
    let turn = |&[across, along]: &[f32; 2]| {
        let angle = across.atan2(along).clamp(LEAST_ANGLE, PI - LEAST_ANGLE);
        let turned = angle * weight;
        let turned = most.map_or(turned, |most| turned.clamp(-most, most));
        (turned.cos(), turned.sin() / angle.sin())
    };
    let (cosines, sines): (Vec<f32>, Vec<f32>) = both.as_chunks().0.iter().map(turn).unzip();
    [cosines, sines].map(|values| Tensor::from_data(TensorData::new(values, shape), &device))
}

/// Frame by frame: `[B, T, C] -> [B, T, 1]`.
fn dot<B: Backend>(a: &Tensor<B, 3>, b: &Tensor<B, 3>) -> Tensor<B, 3> {
    (a.clone() * b.clone()).sum_dim(2)
}
