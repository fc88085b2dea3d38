//! Activations of the channels of a signal.

use burn::tensor::TensorMetadata;
use burn_flex::FlexTensor;
use pulp::Simd;

use super::{
    contiguous,
    pointwise::{Elu, Form, bend},
    snake::{Curve, by_channel},
};

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
            Self::LeakyRelu => bend::<LeakyRelu>(x),
            Self::Elu => bend::<Elu>(x),
        }
    }
}

struct LeakyRelu;

impl Form for LeakyRelu {
    #[inline(always)]
    fn of<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
        let is_negative = simd.less_than_f32s(x, simd.splat_f32s(0.0));
        simd.select_f32s(is_negative, simd.mul_f32s(simd.splat_f32s(NEGATIVE_SLOPE), x), x)
    }
}

/// Kernel of [`super::super::Backend::half_snake`], for f32.
pub(super) fn half_snake(x: FlexTensor, alpha: FlexTensor) -> FlexTensor {
    let activations = ChannelActivation::half_snakes(alpha, x.shape()[1]);
    by_channel(x, |channel, x| activations[channel].apply(x))
}

#[cfg(test)]
mod tests {
    use burn::tensor::Tensor;
    use burn_flex::Flex;

    use super::{
        super::tests::{assert_close, at_every_level, random, values},
        *,
    };
    use crate::kernel::{primitive, reference, tensor};

    /// An odd number of channels has the larger half in the second part; frequencies of both signs.
    #[test]
    fn it_is_the_reference_for_owned_shared_and_strided_inputs() {
        at_every_level(|| {
            for (batch, channels, samples) in [(1, 2, 1), (2, 3, 5), (1, 27, 4801), (2, 864, 8)] {
                let x = random([batch, channels, samples]) * 3.0;
                let alpha = random([1, channels / 2, 1]) + 2.0;
                let expected = reference::half_snake(x.clone(), alpha.clone());
                let of = |x: Tensor<Flex, 3>| {
                    tensor::<Flex, 3>(half_snake(primitive(x), primitive(alpha.clone())))
                };
                assert_close(of(x.clone()), expected.clone(), 2e-5);
                let turned = x.clone().swap_dims(1, 2).mul_scalar(1.0).swap_dims(1, 2);
                assert_close(of(turned), expected.clone(), 2e-5);
                assert_close(of(x), expected, 2e-5);
            }
        });
    }

    #[test]
    fn nan_stays_nan_in_both_halves() {
        at_every_level(|| {
            let x = Tensor::<Flex, 3>::from_data([[[f32::NAN], [f32::NAN]]], &Default::default());
            let alpha = Tensor::<Flex, 3>::ones([1, 1, 1], &Default::default());
            let y = values(tensor::<Flex, 3>(half_snake(primitive(x), primitive(alpha))));
            assert!(y[0].is_nan(), "{y:?}");
            assert!(y[1].is_nan(), "{y:?}");
        });
    }
}
