//! GELU with tanh in one vectorised pass: `(1 + tanh(z)) / 2` is `1 / (1 + e^(-2 z))`.

use burn::tensor::DType;
use burn_flex::{Flex, FlexTensor};
use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::{
    super::{primitive, reference, tensor},
    WORTH_SHARING, contiguous,
    exp::exp,
    level,
};

/// `-2 sqrt(2 / pi)`
const SLOPE: f32 = -1.595_769;
/// The coefficient of the cube.
const CUBE: f32 = 0.044_715;

/// Kernel of [`super::super::Backend::gelu_tanh`], for f32.
pub(super) fn gelu_tanh(x: FlexTensor) -> FlexTensor {
    if x.dtype() != DType::F32 {
        return primitive(reference::gelu_tanh::<Flex, 2>(tensor(x)));
    }
    let mut x = contiguous(x);
    // A fresh product is not shared, so there is no copy.
    let values = x.storage_mut::<f32>();
    let arch = level::arch();
    let bend = |x: &mut [f32]| arch.dispatch(Bend(x));
    match values.len() < WORTH_SHARING {
        true => bend(values),
        false => values.par_chunks_mut(WORTH_SHARING).for_each(bend),
    }
    x
}

struct Bend<'a>(&'a mut [f32]);

impl WithSimd for Bend<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (vectors, last) = S::as_mut_simd_f32s(self.0);
        for x in vectors {
            *x = bent(simd, *x);
        }
        let rest = bent(simd, simd.partial_load_f32s(last));
        simd.partial_store_f32s(last, rest);
    }
}

#[inline(always)]
fn bent<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let one = simd.splat_f32s(1.0);
    let cube = simd.mul_f32s(simd.splat_f32s(CUBE), simd.mul_f32s(x, x));
    // -2 z = slope (x + c x^3)
    let inner = simd.mul_f32s(simd.mul_f32s(simd.splat_f32s(SLOPE), x), simd.add_f32s(one, cube));
    simd.div_f32s(x, simd.add_f32s(one, exp(simd, inner)))
}

#[cfg(test)]
mod tests {
    use crate::kernel::flex::level::tests::at_every_level;
    use burn::tensor::Tensor;

    use super::super::tests::{assert_close, random};
    use super::*;

    #[test]
    fn it_is_the_reference_also_far_from_zero() {
        at_every_level(|| {
            for (rows, width) in [(1, 3), (7, 40), (3, 7), (20, 3072)] {
                for scale in [1.0, 30.0] {
                    let x = random([rows, width]) * scale;
                    let ours = gelu_tanh(primitive(x.clone()));
                    assert_close::<2>(tensor(ours), reference::gelu_tanh(x), 1e-6);
                }
            }
        });
    }

    /// The result is -0 if the exponential is infinite. NaN stays NaN.
    #[test]
    fn its_ends_are_those_of_the_formula() {
        at_every_level(|| {
            let x = [-1e9, -40.0, 0.0, 40.0, 1e9, f32::NAN];
            let x = Tensor::<Flex, 2>::from_data([x], &Default::default());
            let y = tensor::<Flex, 2>(gelu_tanh(primitive(x)));
            let y = y.into_data().to_vec::<f32>().expect("f32");
            assert_eq!(y[..5], [0.0, 0.0, 0.0, 40.0, 1e9]);
            assert!(y[5].is_nan());
        });
    }
}
