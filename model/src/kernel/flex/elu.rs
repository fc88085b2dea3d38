//! ELU in one vectorised pass on all cores, in place if its input is not shared.

use burn::tensor::DType;
use burn_flex::{Flex, FlexTensor};
use rayon::prelude::*;

use super::{
    super::{primitive, reference, tensor},
    WORTH_SHARING,
    activation::ChannelActivation,
    contiguous,
};

/// Kernel of [`super::super::Backend::elu`], for f32.
pub(super) fn elu(x: FlexTensor) -> FlexTensor {
    if x.dtype() != DType::F32 {
        return primitive(reference::elu::<Flex, 2>(tensor(x)));
    }
    let mut x = contiguous(x);
    let values = x.storage_mut::<f32>();
    values.par_chunks_mut(WORTH_SHARING).for_each(|x| ChannelActivation::Elu.apply(x));
    x
}

#[cfg(test)]
mod tests {
    use crate::kernel::flex::level::tests::at_every_level;
    use burn::tensor::Tensor;

    use super::super::tests::{assert_close, random, values};
    use super::*;

    #[test]
    fn it_is_the_reference_on_both_sides_and_far_from_zero() {
        at_every_level(|| {
            for (rows, width) in [(1, 1), (3, 7), (30, 1921)] {
                for scale in [1e-3, 1.0, 60.0] {
                    let x = random([rows, width]) * scale;
                    let ours = elu(primitive(x.clone()));
                    assert_close::<2>(tensor(ours), reference::elu(x), 2e-7);
                }
            }
        });
    }

    #[test]
    fn its_ends_are_those_of_the_formula() {
        at_every_level(|| {
            let x = [-1e9, -0.0, 0.0, 1e30, f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
            let x = Tensor::<Flex, 2>::from_data([x], &Default::default());
            let y = values(tensor::<Flex, 2>(elu(primitive(x))));
            assert_eq!(y[..6], [-1.0, 0.0, 0.0, 1e30, f32::INFINITY, -1.0]);
            assert!(y[6].is_nan());
        });
    }
}
