//! Bias and activation of sums before they are written.

use pulp::{Simd, WithSimd};

use super::{super::snake::Curve, tile::SAMPLES};
use crate::kernel::flex::level;

/// A bias, then a curve, for some rows of a filter.
#[derive(Debug, Clone, Copy)]
pub(super) struct Finish<'a> {
    /// The row of the first sums.
    pub(super) first: usize,
    pub(super) bias: Option<&'a [f32]>,
    pub(super) curves: Option<&'a [Curve]>,
}

impl Finish<'_> {
    pub(super) fn apply(self, sums: &mut [[f32; SAMPLES]]) {
        level::arch().dispatch(Apply(self, sums));
    }
}

struct Apply<'a>(Finish<'a>, &'a mut [[f32; SAMPLES]]);

impl WithSimd for Apply<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self(Finish { first, bias, curves }, sums) = self;
        for (row, sums) in (first..).zip(sums) {
            if let Some(bias) = bias {
                let bias = simd.splat_f32s(bias[row]);
                // Whole vectors: see `SAMPLES`.
                let (vectors, _) = S::as_mut_simd_f32s(sums);
                for sum in vectors {
                    *sum = simd.add_f32s(*sum, bias);
                }
            }
            if let Some(curves) = curves {
                curves[row].bend_with(simd, sums);
            }
        }
    }
}
