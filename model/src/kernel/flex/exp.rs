//! `e^x` of a whole vector.
//!
//! `x = n ln 2 + r` with an integer `n` and `|r| <= ln 2 / 2`. The polynomial in `r` is from
//! Cephes, `expf`; `n` is added to the exponent of its value.

use pulp::Simd;

/// Adding it to a number of at most half its size rounds that number to an integer, which is then
/// in the low bits of the sum.
const ROUNDING: f32 = 12_582_912.0;

/// `ln 2` in two parts; the product of the first part with an integer is exact.
const LN_2: [f32; 2] = [355.0 / 512.0, -2.121_944_4e-4];

/// Coefficients of `(e^r - 1 - r) / r^2` in powers of `r`, the highest first.
const POWERS: [f32; 6] =
    [1.987_569_2e-4, 1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5];

/// The logarithm of the least normal number, `2^-126`; results below it are zero.
const LEAST: f32 = -87.336_54;

/// The logarithm of the largest f32.
const MOST: f32 = 88.722_83;

/// Computes `e^x`, exact to one or two units in the last place; `e^0` is exactly 1, and NaN stays
/// NaN.
#[inline(always)]
pub(super) fn exp<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let splat = |value| simd.splat_f32s(value);
    let shifted = simd.mul_add_e_f32s(x, splat(std::f32::consts::LOG2_E), splat(ROUNDING));
    let n = simd.sub_f32s(shifted, splat(ROUNDING));
    let r = simd.mul_add_e_f32s(n, splat(-LN_2[0]), x);
    let r = simd.mul_add_e_f32s(n, splat(-LN_2[1]), r);
    let mut y = splat(POWERS[0]);
    for power in &POWERS[1..] {
        y = simd.mul_add_e_f32s(y, r, splat(*power));
    }
    let y = simd.mul_add_e_f32s(y, simd.mul_f32s(r, r), simd.add_f32s(r, splat(1.0)));
    let exponent =
        simd.wrapping_dyn_shl_u32s(simd.transmute_u32s_f32s(shifted), simd.splat_u32s(23));
    let y = simd.transmute_f32s_u32s(simd.add_u32s(simd.transmute_u32s_f32s(y), exponent));
    let y = simd.select_f32s(simd.less_than_f32s(x, splat(LEAST)), splat(0.0), y);
    let y = simd.select_f32s(simd.greater_than_f32s(x, splat(MOST)), splat(f32::INFINITY), y);
    // NaN is passed through, because adding to its exponent bits may give any number.
    simd.select_f32s(simd.equal_f32s(x, x), y, x)
}

#[cfg(test)]
mod tests {
    use pulp::WithSimd;

    use super::{
        super::level::{self, tests::at_every_level},
        *,
    };

    struct Each<'a>(&'a mut [f32]);

    impl WithSimd for Each<'_> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) {
            let (vectors, rest) = S::as_mut_simd_f32s(self.0);
            vectors.iter_mut().for_each(|x| *x = exp(simd, *x));
            let last = exp(simd, simd.partial_load_f32s(rest));
            simd.partial_store_f32s(rest, last);
        }
    }

    fn exps(x: &[f32]) -> Vec<f32> {
        let mut y = x.to_vec();
        level::arch().dispatch(Each(&mut y));
        y
    }

    /// Against double precision; one unit in the last place is at most 1.2e-7 of the value.
    #[test]
    fn it_is_exact_to_a_unit_or_two_wherever_numbers_are_normal() {
        at_every_level(|| {
            let x: Vec<f32> = (0..=2_000_003).map(|i| -87.336 + i as f32 * 8.8028e-5).collect();
            let mut worst = 0.0f64;
            for (x, y) in x.iter().zip(exps(&x)) {
                let exact = f64::from(*x).exp();
                worst = worst.max((f64::from(y) / exact - 1.0).abs());
            }
            assert!(worst < 1.3e-7, "{worst}");
        });
    }

    #[test]
    fn ends_and_what_is_no_number() {
        at_every_level(|| {
            let x = [0.0, -0.0, -88.0, f32::MIN, f32::NEG_INFINITY, 89.0, f32::INFINITY];
            assert_eq!(exps(&x), [1.0, 1.0, 0.0, 0.0, 0.0, f32::INFINITY, f32::INFINITY]);
            assert!(exps(&[f32::NAN; 17]).iter().all(|y| y.is_nan()));
        });
    }
}
