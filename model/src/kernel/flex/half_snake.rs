//! Half snake in one pass on all cores, in place if its input is not shared.

use burn::tensor::{DType, TensorMetadata};
use burn_flex::{Flex, FlexTensor};
use rayon::prelude::*;

use super::{
    super::{primitive, reference, tensor},
    WORTH_SHARING,
    activation::ChannelActivation,
    contiguous, from_values, zeros,
};

/// Kernel of [`super::super::Backend::half_snake`], for f32.
pub(super) fn half_snake(x: FlexTensor, alpha: FlexTensor) -> FlexTensor {
    if [&x, &alpha].iter().any(|of| of.dtype() != DType::F32) {
        return primitive(reference::half_snake::<Flex>(tensor(x), tensor(alpha)));
    }
    let shape = [x.shape()[0], x.shape()[1], x.shape()[2]];
    let samples = shape[2].max(1);
    let mut x = contiguous(x);
    let activations = ChannelActivation::half_snakes(alpha, shape[1]);
    let apply = |(row, values): (usize, &mut [f32])| activations[row % shape[1]].apply(values);
    let least = (WORTH_SHARING / samples).max(1);
    if let Some(values) = x.try_storage_mut::<f32>() {
        values.par_chunks_mut(samples).enumerate().with_min_len(least).for_each(apply);
        return x;
    }
    let from = x.storage::<f32>();
    let mut values = zeros(from.len());
    let rows = from.par_chunks(samples).zip(values.par_chunks_mut(samples)).enumerate();
    rows.with_min_len(least).for_each(|(row, (x, y))| {
        y.copy_from_slice(x);
        apply((row, y));
    });
    from_values(values, shape)
}

#[cfg(test)]
mod tests {
    use crate::kernel::flex::level::tests::at_every_level;
    use burn::tensor::Tensor;

    use super::super::tests::{assert_close, random, values};
    use super::*;

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
