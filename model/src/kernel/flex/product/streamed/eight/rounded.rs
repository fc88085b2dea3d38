//! Rows of `x` as integers: 32 neighbours share a scale.

use pulp::{Simd, WithSimd};

use super::own;
use crate::kernel::flex::eight::{BLOCK, BLOCKS, GROUP, WHOLE, largest};

/// Rounds rows of `x`.
pub(super) struct Rounding<'a> {
    pub(super) x: &'a [f32],
    pub(super) width: usize,
    /// [`GROUP`] words for each group of each row.
    pub(super) to: &'a mut [f32],
}

impl WithSimd for Rounding<'_> {
    type Output = ();

    // Plain loops: closures given to iterators would not be compiled for the dispatched CPU.
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { x, width, to } = self;
        let groups = width.div_ceil(GROUP);
        let (to, _) = to.as_chunks_mut::<GROUP>();
        for (x, to) in x.chunks(width).zip(to.chunks_mut(groups)) {
            for (x, to) in x.chunks(GROUP).zip(to) {
                let mut numbers = [0.0; GROUP];
                numbers[..x.len()].copy_from_slice(x);
                own::pack(S::F32_LANES, &numbers, to);
            }
        }
    }
}

/// A group of `x` as integers.
pub(super) struct Rounded {
    /// [`BLOCK`] numbers of each block.
    pub(super) numbers: [[i16; BLOCK]; BLOCKS],
    pub(super) scales: [f32; BLOCKS],
}

/// Rounds a group. The largest of a block is `most` times its scale.
#[inline(always)]
pub(super) fn rounded(x: &[f32; GROUP], most: f32) -> Rounded {
    let mut rounded = Rounded { numbers: [[0; BLOCK]; BLOCKS], scales: [0.0; BLOCKS] };
    for (block, x) in x.as_chunks::<BLOCK>().0.iter().enumerate() {
        let largest = largest(x);
        // NaN stays NaN, so that a broken network is detected.
        let scale = if largest.is_finite() { largest / most } else { f32::NAN };
        let is_normal = scale >= f32::MIN_POSITIVE;
        let inverse = if is_normal { most / largest } else { 0.0 };
        rounded.scales[block] = if is_normal || scale.is_nan() { scale } else { 0.0 };
        for (to, x) in rounded.numbers[block].iter_mut().zip(x) {
            *to = (x * inverse + WHOLE).to_bits() as i16;
        }
    }
    rounded
}
