//! GELU, with the error function or with tanh, and ELU, each in one vectorised pass.

use std::marker::PhantomData;

use burn_flex::FlexTensor;
use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::{WORTH_SHARING, contiguous, exp::exp, level};

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
    each::<Exact>(x)
}

/// Kernel of [`super::super::Backend::gelu_tanh`], for f32.
pub(super) fn gelu_tanh(x: FlexTensor) -> FlexTensor {
    each::<Approximate>(x)
}

/// Kernel of [`super::super::Backend::elu`], for f32.
pub(super) fn elu(x: FlexTensor) -> FlexTensor {
    each::<Elu>(x)
}

/// Changes all values in place, on all cores if that pays.
fn each<F: Form>(x: FlexTensor) -> FlexTensor {
    let mut x = contiguous(x);
    // A fresh product is not shared, so there is no copy.
    let values = x.storage_mut::<f32>();
    match values.len() < WORTH_SHARING {
        true => bend::<F>(values),
        false => values.par_chunks_mut(WORTH_SHARING).for_each(bend::<F>),
    }
    x
}

/// Changes values in place.
pub(super) fn bend<F: Form>(x: &mut [f32]) {
    level::arch().dispatch(Bend::<F>(x, PhantomData));
}

/// A function of one number.
pub(super) trait Form {
    fn of<S: Simd>(simd: S, x: S::f32s) -> S::f32s;
}

/// GELU with the error function.
struct Exact;

/// GELU with tanh.
struct Approximate;

/// ELU.
pub(super) struct Elu;

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

impl Form for Elu {
    #[inline(always)]
    fn of<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
        let low = simd.sub_f32s(exp(simd, x), simd.splat_f32s(1.0));
        // NaN is not above zero, and stays NaN.
        simd.select_f32s(simd.greater_than_f32s(x, simd.splat_f32s(0.0)), x, low)
    }
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

    type Kernel = fn(FlexTensor) -> FlexTensor;

    /// A kernel, its reference, and the allowed error.
    type Case = (Kernel, fn(Tensor<Flex, 2>) -> Tensor<Flex, 2>, f32);

    #[test]
    fn they_are_their_references_also_near_zero_and_far_from_it() {
        let cases: [Case; 3] = [
            (gelu, reference::gelu, 1e-6),
            (gelu_tanh, reference::gelu_tanh, 1e-6),
            (elu, reference::elu, 2e-7),
        ];
        at_every_level(|| {
            for (rows, width) in [(1, 1), (1, 3), (7, 40), (3, 7), (20, 3072), (30, 1921)] {
                for scale in [1e-3, 1.0, 30.0, 60.0] {
                    let x = random([rows, width]) * scale;
                    for (ours, reference, allowed) in cases {
                        let ours = ours(primitive(x.clone()));
                        assert_close::<2>(tensor(ours), reference(x.clone()), allowed);
                    }
                }
            }
        });
    }

    /// Values of Python's `x * math.erfc(-x / math.sqrt(2)) / 2`. An error in the tail would not be seen in the sum.
    #[test]
    fn the_tail_of_gelu_is_exact_to_three_millionths() {
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

    /// GELU is -0 if its exponential is infinite. NaN stays NaN.
    #[test]
    fn the_ends_are_those_of_the_formulas() {
        const INFINITY: f32 = f32::INFINITY;
        let cases: [(Kernel, [f32; 6], [f32; 6]); 3] = [
            (
                gelu,
                [-1e30, -40.0, 0.0, 40.0, 1e30, INFINITY],
                [0.0, 0.0, 0.0, 40.0, 1e30, INFINITY],
            ),
            (gelu_tanh, [-1e9, -40.0, 0.0, 40.0, 1e9, 0.0], [0.0, 0.0, 0.0, 40.0, 1e9, 0.0]),
            (
                elu,
                [-1e9, -INFINITY, -0.0, 0.0, 1e30, INFINITY],
                [-1.0, -1.0, 0.0, 0.0, 1e30, INFINITY],
            ),
        ];
        at_every_level(|| {
            for (ours, [a, b, c, d, e, f], expected) in cases {
                let x = [a, b, c, d, e, f, f32::NAN];
                let x = Tensor::<Flex, 2>::from_data([x], &Default::default());
                let y = values(tensor::<Flex, 2>(ours(primitive(x))));
                assert_eq!(y[..6], expected);
                assert!(y[6].is_nan());
            }
        });
    }
}
