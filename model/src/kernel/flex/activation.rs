//! Activations of the channels of a signal.

use burn_flex::FlexTensor;
use pulp::{Simd, WithSimd};

use super::{contiguous, exp::exp, snake::Curve};
use crate::kernel::flex::level;

/// Factor of negative numbers, PyTorch's default.
const NEGATIVE_SLOPE: f32 = 0.01;

/// The activation of one channel.
#[derive(Debug, Clone, Copy)]
pub(super) enum ChannelActivation {
    Snake(Curve),
    LeakyRelu,
    Elu,
}

impl ChannelActivation {
    /// Returns the snake of every channel; both inputs are f32, `[1, channels, 1]`.
    pub(super) fn snakes(alpha: FlexTensor, beta: FlexTensor) -> Vec<Self> {
        Curve::of_channels(alpha, beta).into_iter().map(Self::Snake).collect()
    }

    /// Returns the half snake of `channels` channels; `alpha` is f32, `[1, channels / 2, 1]`.
    pub(super) fn half_snakes(alpha: FlexTensor, channels: usize) -> Vec<Self> {
        let alpha = contiguous(alpha);
        let snake =
            |frequency: &f32| Self::Snake(Curve::of(*frequency, (frequency + 1e-9).recip()));
        let snakes = alpha.storage::<f32>().iter().map(snake);
        snakes.chain(std::iter::repeat(Self::LeakyRelu)).take(channels).collect()
    }

    /// Applies it in place.
    pub(super) fn apply(self, x: &mut [f32]) {
        match self {
            Self::Snake(curve) => curve.bend(x),
            Self::LeakyRelu => level::arch().dispatch(LeakyRelu(x)),
            Self::Elu => level::arch().dispatch(Elu(x)),
        }
    }
}

struct LeakyRelu<'a>(&'a mut [f32]);

impl WithSimd for LeakyRelu<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (vectors, rest) = S::as_mut_simd_f32s(self.0);
        let (slope, zero) = (simd.splat_f32s(NEGATIVE_SLOPE), simd.splat_f32s(0.0));
        for x in vectors {
            let is_negative = simd.less_than_f32s(*x, zero);
            *x = simd.select_f32s(is_negative, simd.mul_f32s(slope, *x), *x);
        }
        for x in rest {
            *x = if *x < 0.0 { NEGATIVE_SLOPE * *x } else { *x };
        }
    }
}

struct Elu<'a>(&'a mut [f32]);

impl WithSimd for Elu<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (vectors, rest) = S::as_mut_simd_f32s(self.0);
        for x in vectors {
            *x = elu(simd, *x);
        }
        let last = elu(simd, simd.partial_load_f32s(rest));
        simd.partial_store_f32s(rest, last);
    }
}

#[inline(always)]
fn elu<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let low = simd.sub_f32s(exp(simd, x), simd.splat_f32s(1.0));
    // NaN is not above zero, and stays NaN.
    simd.select_f32s(simd.greater_than_f32s(x, simd.splat_f32s(0.0)), x, low)
}
