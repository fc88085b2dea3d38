//! Snake in one pass on all cores, in place if its input is not shared.
//!
//! `sin^2` has period pi, so the angle is reduced to `[-pi / 2, pi / 2]`. There a polynomial gives
//! the sine to an ulp or two, and its sign does not matter.

mod gradient;

use std::f32::consts::{self, FRAC_1_PI};

use burn::tensor::TensorMetadata;
use burn_flex::FlexTensor;
use pulp::{Simd, WithSimd, bytemuck};
use rayon::prelude::*;

use super::{WORTH_SHARING, contiguous, from_values, level, zeros};

pub(super) use gradient::snake_gradients;

/// Kernel of [`super::super::Backend::snake`], for f32.
pub(super) fn snake(x: FlexTensor, alpha: FlexTensor, beta: FlexTensor) -> FlexTensor {
    let curves = Curve::of_channels(alpha, beta);
    by_channel(x, |channel, x| curves[channel].bend(x))
}

/// Applies the activation of each channel of `x`, `[B, channels, S]`, in place if `x` is not shared.
pub(super) fn by_channel(
    x: FlexTensor,
    activate: impl Fn(usize, &mut [f32]) + Send + Sync,
) -> FlexTensor {
    let [batch, channels, samples] = x.shape().dims();
    let (length, least) = lengths(samples);
    let mut x = contiguous(x);
    if let Some(values) = x.try_storage_mut::<f32>() {
        let rows = values.par_chunks_mut(length).enumerate().with_min_len(least);
        rows.for_each(|(row, x)| activate(row % channels, x));
        return x;
    }
    // Written to new memory directly: a copy that is then changed would pass through memory twice.
    let from = x.storage::<f32>();
    let mut values = zeros(from.len());
    let rows = from.par_chunks(length).zip(values.par_chunks_mut(length)).enumerate();
    rows.with_min_len(least).for_each(|(row, (x, y))| {
        for (x, y) in x.chunks(PIECE).zip(y.chunks_mut(PIECE)) {
            y.copy_from_slice(x);
            activate(row % channels, y);
        }
    });
    from_values(values, [batch, channels, samples])
}

/// Returns the length of a channel, at least 1, and the least number of channels that are worth a core.
fn lengths(samples: usize) -> (usize, usize) {
    let length = samples.max(1);
    (length, (WORTH_SHARING / length).max(1))
}

/// Kernel of [`super::super::Backend::add_snake`], for f32.
pub(super) fn add_snake(
    x: FlexTensor,
    y: FlexTensor,
    alpha: FlexTensor,
    beta: FlexTensor,
) -> [FlexTensor; 2] {
    let curves = Curve::of_channels(alpha, beta);
    let [_, channels, samples] = x.shape().dims();
    let (length, least) = lengths(samples);
    let (mut sum, mut bent) = (contiguous(x), contiguous(y));
    let (sums, ys) = (sum.storage_mut::<f32>(), bent.storage_mut::<f32>());
    let rows = sums.par_chunks_mut(length).zip(ys.par_chunks_mut(length)).enumerate();
    rows.with_min_len(least).for_each(|(row, (sum, y))| {
        curves[row % channels].add_and_bend(sum, y);
    });
    [sum, bent]
}

/// Snake of one channel.
#[derive(Debug, Clone, Copy)]
pub(super) struct Curve {
    /// `e^alpha`.
    frequency: f32,
    /// `1 / (e^beta + 1e-9)`.
    amplitude: f32,
}

/// Vectors that are checked together for large angles.
const BLOCK: usize = 4;

/// Numbers that are copied or added before an activation is applied, while they are still in the cache.
const PIECE: usize = 1 << 12;

impl Curve {
    /// Returns the curve with this factor of the angle and of the wave.
    pub(super) fn of(frequency: f32, amplitude: f32) -> Self {
        Self { frequency, amplitude }
    }

    /// Returns the curve of every channel; both inputs are f32, `[1, channels, 1]`.
    pub(super) fn of_channels(alpha: FlexTensor, beta: FlexTensor) -> Vec<Self> {
        let (alpha, beta) = (contiguous(alpha), contiguous(beta));
        let pairs = alpha.storage::<f32>().iter().zip(beta.storage::<f32>());
        let curve = |(alpha, beta): (&f32, &f32)| Self {
            frequency: alpha.exp(),
            amplitude: (beta.exp() + 1e-9).recip(),
        };
        pairs.map(curve).collect()
    }

    pub(super) fn bend(self, x: &mut [f32]) {
        level::arch().dispatch(Bend(self, x));
    }

    /// Computes `sum += y`, then `y = snake(sum)`.
    fn add_and_bend(self, sum: &mut [f32], y: &mut [f32]) {
        for (sum, y) in sum.chunks_mut(PIECE).zip(y.chunks_mut(PIECE)) {
            sum.iter_mut().zip(&*y).for_each(|(sum, y)| *sum += y);
            y.copy_from_slice(sum);
            self.bend(y);
        }
    }

    /// [`Self::bend`] inside code that is already dispatched.
    #[inline(always)]
    pub(super) fn bend_with<S: Simd>(self, simd: S, x: &mut [f32]) {
        let (head, tail) = S::as_mut_simd_f32s(x);
        for block in head.chunks_mut(BLOCK) {
            self.bend_block(simd, block);
        }
        if !tail.is_empty() {
            let mut last = [simd.partial_load_f32s(tail)];
            self.bend_block(simd, &mut last);
            simd.partial_store_f32s(tail, last[0]);
        }
    }

    #[inline(always)]
    fn bend_block<S: Simd>(self, simd: S, x: &mut [S::f32s]) {
        // No closures here: they would not be compiled for the dispatched instruction set.
        let (frequency, amplitude) =
            (simd.splat_f32s(self.frequency), simd.splat_f32s(self.amplitude));
        let mut largest = simd.splat_f32s(0.0);
        for &x in &*x {
            largest = simd.max_f32s(simd.abs_f32s(simd.mul_f32s(frequency, x)), largest);
        }
        let far = simd.greater_than_or_equal_f32s(largest, simd.splat_f32s(FAR));
        if simd.first_true_m32s(far) < S::F32_LANES {
            return bytemuck::cast_slice_mut(x).iter_mut().for_each(|x| *x = self.far(*x));
        }
        for x in x {
            let squared = squared_sine(simd, simd.mul_f32s(frequency, *x));
            *x = simd.mul_add_f32s(squared, amplitude, *x);
        }
    }

    #[cold]
    fn far(self, x: f32) -> f32 {
        (self.frequency * x).sin().powi(2).mul_add(self.amplitude, x)
    }
}

struct Bend<'a>(Curve, &'a mut [f32]);

impl WithSimd for Bend<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        self.0.bend_with(simd, self.1);
    }
}

/// From this angle on, 1 / pi in f32 does not determine the nearest half turn. The library's sine
/// is used there, because it knows pi to more digits.
const FAR: f32 = 100_000.0;

/// Pi in three parts; each is the error of the sum of the parts before it.
const PI: [f32; 3] = [consts::PI, -8.742_278e-8, -3.430_249e-15];

/// Adding it to a number of at most half its size rounds that number to an integer.
const ROUNDING: f32 = 12_582_912.0;

/// Coefficients of `sin(r) / r - 1` in powers of `r^2`, with minimal relative error, 6e-9, up to
/// pi / 2.
const SINE: [f32; 4] = [-0.166_666_6, 8.333_066e-3, -1.980_960_2e-4, 2.605_777_4e-6];

/// Computes `sin^2` of angles below [`FAR`].
#[inline(always)]
fn squared_sine<S: Simd>(simd: S, angle: S::f32s) -> S::f32s {
    let [sine, _] = reduced_sine(simd, angle);
    simd.mul_f32s(sine, sine)
}

/// Computes the sines of angles below [`FAR`] without whole half turns, `r`, and the squares of `r`.
#[inline(always)]
fn reduced_sine<S: Simd>(simd: S, angle: S::f32s) -> [S::f32s; 2] {
    let rounding = simd.splat_f32s(ROUNDING);
    let turns = simd.mul_add_f32s(angle, simd.splat_f32s(FRAC_1_PI), rounding);
    let turns = simd.sub_f32s(turns, rounding);
    let mut r = angle;
    for part in PI {
        r = simd.mul_add_f32s(turns, simd.splat_f32s(-part), r);
    }
    let u = simd.mul_f32s(r, r);
    let mut polynomial = simd.splat_f32s(SINE[3]);
    for term in [SINE[2], SINE[1], SINE[0]] {
        polynomial = simd.mul_add_f32s(polynomial, u, simd.splat_f32s(term));
    }
    [simd.mul_add_f32s(simd.mul_f32s(polynomial, u), r, r), u]
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

    /// Computes `sin^2` of one number, which a curve of frequency and amplitude 1 adds.
    fn squared_sine(angle: f32) -> f32 {
        level::arch().dispatch(Squared(angle))
    }

    struct Squared(f32);

    impl WithSimd for Squared {
        type Output = f32;

        fn with_simd<S: Simd>(self, simd: S) -> f32 {
            let squared = super::squared_sine(simd, simd.splat_f32s(self.0));
            bytemuck::cast_slice::<_, f32>(&[squared])[0]
        }
    }

    /// Against the sine in double precision.
    #[test]
    fn the_square_of_the_sine_is_exact_to_three_in_ten_million() {
        at_every_level(|| {
            let mut worst = 0.0f64;
            for i in 0..2_000_000 {
                // From a millionth to the largest angle that this code handles, with both signs.
                let angle = 1e-6
                    * (i as f32 / 2_000_000.0 * 25.4).exp()
                    * if i % 2 == 0 { 1.0 } else { -1.0 };
                if angle.abs() < FAR {
                    let exact = f64::from(angle).sin().powi(2);
                    worst = worst.max((f64::from(squared_sine(angle)) - exact).abs());
                }
            }
            assert!(worst < 3.0e-7, "{worst}");
            // Small results are compared relatively.
            let small = f64::from(squared_sine(1e-4)) / f64::from(1e-4f32).sin().powi(2);
            assert!((small - 1.0).abs() < 3e-7, "{small}");
        });
    }

    #[test]
    fn it_is_the_reference_whoever_holds_the_input_and_however_it_lies() {
        at_every_level(|| {
            for (batch, channels, samples) in [(1, 1, 1), (2, 3, 5), (1, 128, 4800), (2, 5, 70_001)]
            {
                let x = random([batch, channels, samples]) * 3.0;
                let (alpha, beta) =
                    (random([1, channels, 1]) * 0.5, random([1, channels, 1]) * 0.5);
                let expected = reference::snake(x.clone(), alpha.clone(), beta.clone());
                let of = |x: Tensor<Flex, 3>| {
                    let [alpha, beta] = [&alpha, &beta].map(|of| primitive(of.clone()));
                    tensor::<Flex, 3>(snake(primitive(x), alpha, beta))
                };
                assert_close(of(x.clone()), expected.clone(), 2e-5);
                // As a view, and as an input that is not shared.
                let turned = x.clone().swap_dims(1, 2).mul_scalar(1.0).swap_dims(1, 2);
                assert_close(of(turned), expected.clone(), 2e-5);
                let y = random([batch, channels, samples]);
                let [alpha, beta] = [&alpha, &beta].map(|of| primitive(of.clone()));
                let [sum, bent] =
                    add_snake(primitive(x.clone() - y.clone()), primitive(y), alpha, beta);
                assert_close(tensor(sum), x, 1e-6);
                assert_close(tensor(bent), expected, 1e-4);
            }
        });
    }

    #[test]
    fn angles_beyond_whole_radians_and_what_is_no_number_are_the_librarys() {
        at_every_level(|| {
            let x = [1e7, -3e9, f32::INFINITY, f32::NAN, 0.5, -0.0];
            let x = Tensor::<Flex, 3>::from_data([[x]], &Default::default());
            let zero = || Tensor::<Flex, 3>::zeros([1, 1, 1], &Default::default());
            let ours = snake(primitive(x.clone()), primitive(zero()), primitive(zero()));
            let ours = values(tensor::<Flex, 3>(ours));
            let reference = values(reference::snake(x, zero(), zero()));
            for (a, b) in ours.iter().zip(&reference) {
                assert!(
                    a == b || (a - b).abs() < 1e-6 || a.is_nan() && b.is_nan(),
                    "{a} is not {b}"
                );
            }
        });
    }
}
