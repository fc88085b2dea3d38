//! Repaint: regenerates a region of a song and keeps the rest.
//!
//! After each of the first steps, everything outside the region is replaced by the source, noised
//! to the current time. So the new region fits its surroundings. At the end the result is blended
//! with the source: the result inside the region, the source outside. The crossfade ramps lie
//! outside.
//!
//! Source: Lugmayr et al. 2022, "RePaint", arXiv:2201.09865 (the idea); upstream
//! `acestep/core/generation/handler/repaint_step_injection.py`.

use std::ops::Range;

use acestep_model::Backend;
use burn::tensor::{Tensor, TensorData};

use super::noised;

/// The region to generate, and the source to keep around it.
#[derive(Debug, Clone)]
pub struct RepaintRegion<B: Backend> {
    /// Latents of the whole source, without silenced parts, `[B, T, C]`.
    pub clean: Tensor<B, 3>,
    /// Frames to generate.
    pub generated: Range<usize>,
    /// Number of steps after which the rest is replaced by the source; see [`injected_steps`].
    pub injected_steps: usize,
    /// Frames of the final ramp on either side. 0 = no blend: what was generated outside the region
    /// is kept too, unless [`Self::keeps_latents`].
    pub crossfade_frames: usize,
    /// True if the source also replaces the rest when there is no ramp.
    pub keeps_latents: bool,
}

impl<B: Backend> RepaintRegion<B> {
    /// Replaces everything outside the region by the source, noised to time `t`.
    ///
    /// # Shapes
    /// - `x`, `noise`, output: `[B, T, C]`
    // ANCHOR: injected
    pub fn injected(&self, x: Tensor<B, 3>, noise: &Tensor<B, 3>, t: f32) -> Tensor<B, 3> {
        let source = noised(self.clean.clone(), noise.clone(), t);
        let generated = self.mask(&x, 0).greater_elem(0.5).expand(x.dims());
        source.mask_where(generated, x)
    }
    // ANCHOR_END: injected

    /// Blends with the source outside the region, with ramps of [`RepaintRegion::crossfade_frames`];
    /// returns `x` unchanged if there is nothing to blend.
    ///
    /// # Shapes
    /// - `x`, output: `[B, T, C]`
    pub fn blended(&self, x: Tensor<B, 3>) -> Tensor<B, 3> {
        if self.crossfade_frames == 0 && !self.keeps_latents {
            return x;
        }
        let mask = self.mask(&x, self.crossfade_frames);
        x * mask.clone() + self.clean.clone() * (mask.neg() + 1.0)
    }

    /// Returns [`soft_mask`] of the region, `[1, T, 1]`.
    fn mask(&self, x: &Tensor<B, 3>, crossfade: usize) -> Tensor<B, 3> {
        let frames = x.dims()[1];
        let mask = soft_mask(self.generated.clone(), frames, crossfade);
        Tensor::from_data(TensorData::new(mask, [1, frames, 1]), &x.device())
    }
}

/// Returns the number of steps after which the rest is replaced: `round(ratio x steps)`, half to
/// even as in Python.
pub fn injected_steps(ratio: f64, steps: usize) -> usize {
    (ratio * steps as f64).round_ties_even() as usize
}

/// Returns 1 inside `generated`, a ramp of at most `crossfade` entries outside on either side, else 0.
///
/// A ramp of `n` has the values `1 / (n + 1) .. n / (n + 1)`. At an end of the song it is shorter
/// and thus steeper. An empty `generated` gives zeros everywhere.
pub fn soft_mask(generated: Range<usize>, length: usize, crossfade: usize) -> Vec<f32> {
    let (left, right) = (generated.start.min(length), generated.end.min(length));
    let mut mask = vec![0.0; length];
    if left >= right {
        return mask;
    }
    mask[left..right].fill(1.0);
    let rise = &mut mask[left.saturating_sub(crossfade)..left];
    let steps = (rise.len() + 1) as f32;
    rise.iter_mut().enumerate().for_each(|(i, value)| *value = (i + 1) as f32 / steps);
    let fall = &mut mask[right..length.min(right.saturating_add(crossfade))];
    let steps = (fall.len() + 1) as f32;
    fall.iter_mut().rev().enumerate().for_each(|(i, value)| *value = (i + 1) as f32 / steps);
    mask
}

#[cfg(test)]
mod tests {
    use acestep_engine::host::to_host as values;
    use burn_flex::Flex;

    use super::*;
    use crate::test_goldens::frames as song;

    fn region(generated: Range<usize>, crossfade_frames: usize) -> RepaintRegion<Flex> {
        let clean = song(&[10., 11., 12., 13., 14., 15.]);
        let (injected_steps, keeps_latents) = (0, false);
        RepaintRegion { clean, generated, injected_steps, crossfade_frames, keeps_latents }
    }

    #[test]
    fn ramps_lie_outside_and_are_cut_where_the_song_ends() {
        assert_eq!(soft_mask(2..4, 8, 0), [0., 0., 1., 1., 0., 0., 0., 0.]);
        assert_eq!(soft_mask(4..5, 8, 3), [0., 0.25, 0.5, 0.75, 1., 0.75, 0.5, 0.25]);
        assert_eq!(soft_mask(1..6, 8, 3), [0.5, 1., 1., 1., 1., 1., 2. / 3., 1. / 3.]);
        assert_eq!(soft_mask(0..4, 4, 9), [1.; 4]);
        assert_eq!(soft_mask(2..2, 4, 9), [0.; 4]);
        assert_eq!(soft_mask(3..99, 4, 1), [0., 0., 0.5, 1.]);
    }

    #[test]
    fn half_a_step_rounds_to_the_even_one() {
        for (ratio, steps, expected) in [(0.5, 8, 4), (0.5, 5, 2), (0.5, 7, 4), (1.0, 8, 8)] {
            assert_eq!(injected_steps(ratio, steps), expected, "{ratio} x {steps}");
        }
        assert_eq!(injected_steps(0.0, 8), 0);
    }

    #[test]
    fn the_rest_is_the_source_as_noisy_as_the_time_says() {
        let made = song(&[1., 2., 3., 4., 5., 6.]);
        let noise = song(&[-2.; 6]);
        let out = region(1..3, 0).injected(made, &noise, 0.25);
        assert_eq!(values(out), [7., 2., 3., 9.25, 10., 10.75]);
    }

    #[test]
    fn the_blend_is_the_source_far_from_the_stretch() {
        let made = song(&[1.; 6]);
        assert_eq!(values(region(2..4, 1).blended(made.clone())), [10., 6., 1., 1., 7.5, 15.]);
        assert_eq!(values(region(2..4, 0).blended(made)), [1.; 6]);
    }
}
