//! Angle-based dynamic guidance (ADG): rotates the predicted latents instead of adding a
//! difference.
//!
//! Each velocity predicts clean latents: `a = x - t v_c` with the condition and `b = x - t v_u`
//! without. In each frame `a` is rotated away from `b`, in the plane of both, by `w` times their
//! angle, with `w = g - 1`, up to a bound. So the music hardly becomes louder.
//!
//! Upstream computes the angle's cosine in f64, because near 1 it determines the angle poorly. Here
//! the angle comes from the component of `a` orthogonal to `b`, which is precise enough in f32.
//!
//! Source: upstream `adg_forward` and its variants in `acestep/models/common/apg_guidance.py`.

use std::f32::consts::PI;

use acestep_engine::host::to_host;
use acestep_model::Backend;
use burn::tensor::{Tensor, TensorData};

/// Settings of a variant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Adg {
    /// The largest rotation in radians; `None` = unlimited.
    pub most: Option<f32>,
    /// True if the result is rescaled to the norm of `a`, for each channel over time.
    pub keeps_norm: bool,
}

/// Upstream uses 3.14 as pi.
#[expect(clippy::approx_constant, reason = "upstream's own number")]
const UPSTREAMS_PI: f64 = 3.14;

impl Adg {
    /// Upstream's `adg`: at most pi / 6.
    pub const CLIPPED: Self = Self { most: Some((UPSTREAMS_PI / 6.0) as f32), keeps_norm: false };
    /// Upstream's `adg_w_norm`: at most pi / 3, and the norm is kept.
    pub const WITH_NORM: Self = Self { most: Some((UPSTREAMS_PI / 3.0) as f32), keeps_norm: true };
    /// Upstream's `adg_wo_clip`: unlimited.
    pub const UNCLIPPED: Self = Self { most: None, keeps_norm: false };
}

/// The smallest angle. Upstream limits the cosine's absolute value to `1 - 1e-6`, its cosine.
const LEAST_ANGLE: f32 = 1.414_213_7e-3;

/// Applies guidance at `x` and time `t`, which must not be 0.
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

/// Rotates each frame by `weight` times its angle. `across` is proportional to the angle's sine and
/// `along` to its cosine. Returns the rotation's cosine, and its sine divided by the angle's sine.
///
/// These few values are computed on the host, because a Vulkan driver may have an error of `2^-11`
/// in a sine, and of 4096 units in the last place in an arc tangent.
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

/// The dot product of each frame: `[B, T, C] -> [B, T, 1]`.
fn dot<B: Backend>(a: &Tensor<B, 3>, b: &Tensor<B, 3>) -> Tensor<B, 3> {
    (a.clone() * b.clone()).sum_dim(2)
}
