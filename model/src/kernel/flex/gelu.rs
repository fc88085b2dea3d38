//! GELU in one vectorised pass, with the error function or with tanh.

use std::marker::PhantomData;

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

/// Coefficients of `P`, the highest power first, where `erfc(z) = t exp(P(t) - z^2)` and
/// `t = 1 / (1 + z / 2)`: a fit at the Chebyshev nodes of `[1 / 6, 1]`, within 5e-8. A smaller `t` has an
/// `erfc` below the least normal f32, and there [`exp`] is zero.
const POWERS: [f32; 10] = [
    0.144_930_21,
    -0.680_827_2,
    1.156_733_8,
    -0.696_251_9,
    -0.080_280_43,
    0.001_267_586_2,
    0.034_602_8,
    0.386_640_4,
    0.998_632_8,
    -1.265_448,
];

/// Kernel of [`super::super::Backend::gelu`], for f32.
pub(super) fn gelu(x: FlexTensor) -> FlexTensor {
    if x.dtype() != DType::F32 {
        return primitive(reference::gelu::<Flex, 2>(tensor(x)));
    }
    each::<Exact>(x)
}

/// Kernel of [`super::super::Backend::gelu_tanh`], for f32.
pub(super) fn gelu_tanh(x: FlexTensor) -> FlexTensor {
    if x.dtype() != DType::F32 {
        return primitive(reference::gelu_tanh::<Flex, 2>(tensor(x)));
    }
    each::<Approximate>(x)
}

/// Changes all values in place, on all cores if that pays.
fn each<F: Form>(x: FlexTensor) -> FlexTensor {
    let mut x = contiguous(x);
    // A fresh product is not shared, so there is no copy.
    let values = x.storage_mut::<f32>();
    let arch = level::arch();
    let bend = |x: &mut [f32]| arch.dispatch(Bend::<F>(x, PhantomData));
    match values.len() < WORTH_SHARING {
        true => bend(values),
        false => values.par_chunks_mut(WORTH_SHARING).for_each(bend),
    }
    x
}

/// A form of GELU.
trait Form {
    fn of<S: Simd>(simd: S, x: S::f32s) -> S::f32s;
}

/// With the error function.
struct Exact;

/// With tanh.
struct Approximate;

struct Bend<'a, F>(&'a mut [f32], PhantomData<F>);

impl<F: Form> WithSimd for Bend<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (vectors, last) = S::as_mut_simd_f32s(self.0);
        for x in vectors {
            *x = F::of(simd, *x);
        }
        let rest = F::of(simd, simd.partial_load_f32s(last));
        simd.partial_store_f32s(last, rest);
    }
}

impl Form for Exact {
    /// `x Phi(x)`. `Phi(-|x|)` is `erfc(z) / 2` with `z = |x| / sqrt(2)`.
    #[inline(always)]
    fn of<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
        let splat = |value| simd.splat_f32s(value);
        let (zero, half, one) = (splat(0.0), splat(0.5), splat(1.0));
        let z = simd.mul_f32s(simd.abs_f32s(x), splat(std::f32::consts::FRAC_1_SQRT_2));
        let t = simd.div_f32s(one, simd.mul_add_e_f32s(half, z, one));
        let mut power = splat(POWERS[0]);
        for coefficient in &POWERS[1..] {
            power = simd.mul_add_e_f32s(power, t, splat(*coefficient));
        }
        let power = simd.sub_f32s(power, simd.mul_f32s(z, z));
        let below = simd.mul_f32s(simd.mul_f32s(half, t), exp(simd, power));
        let phi = simd.select_f32s(simd.less_than_f32s(x, zero), below, simd.sub_f32s(one, below));
        simd.mul_f32s(x, phi)
    }
}

impl Form for Approximate {
    /// `(1 + tanh(z)) / 2` is `1 / (1 + e^(-2 z))`.
    #[inline(always)]
    fn of<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
        let one = simd.splat_f32s(1.0);
        let cube = simd.mul_f32s(simd.splat_f32s(CUBE), simd.mul_f32s(x, x));
        // -2 z = slope (x + c x^3)
        let inner =
            simd.mul_f32s(simd.mul_f32s(simd.splat_f32s(SLOPE), x), simd.add_f32s(one, cube));
        simd.div_f32s(x, simd.add_f32s(one, exp(simd, inner)))
    }
}

#[cfg(test)]
mod tests {
    use crate::kernel::flex::level::tests::at_every_level;
    use burn::tensor::Tensor;

    use super::super::tests::{assert_close, random, values};
    use super::*;

    #[test]
    fn it_is_the_reference_also_far_from_zero() {
        at_every_level(|| {
            for (rows, width) in [(1, 3), (7, 40), (3, 7), (20, 3072)] {
                for scale in [1.0, 30.0] {
                    let x = random([rows, width]) * scale;
                    let ours = gelu_tanh(primitive(x.clone()));
                    assert_close::<2>(tensor(ours), reference::gelu_tanh(x.clone()), 1e-6);
                    let ours = gelu(primitive(x.clone()));
                    assert_close::<2>(tensor(ours), reference::gelu(x), 1e-6);
                }
            }
        });
    }

    /// Values of Python's `x * math.erfc(-x / math.sqrt(2)) / 2`. An error in the tail would not be seen in the sum.
    #[test]
    fn its_tail_is_exact_to_three_millionths() {
        at_every_level(|| {
            let x = [-5.0f32, -4.0, -3.0, -1.0, 1e-3];
            let expected =
                [-1.433_258e-6, -1.266_849_7e-4, -4.049_694e-3, -0.158_655_25, 5.003_989e-4];
            let x = Tensor::<Flex, 2>::from_data([x], &Default::default());
            let y = values(tensor::<Flex, 2>(gelu(primitive(x))));
            for (y, expected) in y.iter().zip(expected) {
                assert!((y / expected - 1.0).abs() < 3e-6, "{y} is not {expected}");
            }
        });
    }

    #[test]
    fn the_ends_of_the_exact_one_are_those_of_the_formula() {
        at_every_level(|| {
            let x = [-1e30, -40.0, 0.0, 40.0, 1e30, f32::INFINITY, f32::NAN];
            let x = Tensor::<Flex, 2>::from_data([x], &Default::default());
            let y = values(tensor::<Flex, 2>(gelu(primitive(x))));
            assert_eq!(y[..6], [0.0, 0.0, 0.0, 40.0, 1e30, f32::INFINITY]);
            assert!(y[6].is_nan());
        });
    }

    /// The result is -0 if the exponential is infinite. NaN stays NaN.
    #[test]
    fn its_ends_are_those_of_the_formula() {
        at_every_level(|| {
            let x = [-1e9, -40.0, 0.0, 40.0, 1e9, f32::NAN];
            let x = Tensor::<Flex, 2>::from_data([x], &Default::default());
            let y = values(tensor::<Flex, 2>(gelu_tanh(primitive(x))));
            assert_eq!(y[..5], [0.0, 0.0, 0.0, 40.0, 1e9]);
            assert!(y[5].is_nan());
        });
    }
}
