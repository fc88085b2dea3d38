//! What the diffusion transformer starts from besides noise: source latents and a mask.
//!
//! `context = [source | mask]`: silence for music from nothing, the latents of audio codes
//! otherwise; the mask is one wherever music is to be made.
//!
//! Source: upstream `handler.py`, `_prepare_batch` and `prepare_condition`.

use acestep_model::Backend;
use burn::tensor::Tensor;

/// The first `frames` frames of silence, begun again where the stored silence ends.
///
/// # Shapes
/// - `silence`: `[1, stored, C]`
/// - output: `[1, frames, C]`
pub fn silence<B: Backend>(silence: &Tensor<B, 3>, frames: usize) -> Tensor<B, 3> {
    let stored = silence.dims()[1];
    let piece = |start: usize| silence.clone().narrow(1, 0, stored.min(frames - start));
    Tensor::cat((0..frames).step_by(stored).map(piece).collect(), 1)
}

/// Appends the start of silence until there are `frames` frames; cuts what is longer.
///
/// Not its continuation: upstream pads with `silence_latent[:pad]`, and the first frames of silence
/// differ from later ones.
///
/// # Shapes
/// - `latents`: `[B, T, C]`, `stored_silence`: `[1, stored, C]`
/// - output: `[B, frames, C]`
pub fn padded<B: Backend>(
    latents: Tensor<B, 3>,
    stored_silence: &Tensor<B, 3>,
    frames: usize,
) -> Tensor<B, 3> {
    let [batch, own, channels] = latents.dims();
    if own >= frames {
        return latents.narrow(1, 0, frames);
    }
    let filler = silence(stored_silence, frames - own).expand([batch, frames - own, channels]);
    Tensor::cat(vec![latents, filler], 1)
}

/// Source and mask side by side, the mask one everywhere.
///
/// # Shapes
/// - `source`: `[B, T, C]`
/// - output: `[B, T, 2 C]`
// ANCHOR: context
pub fn context<B: Backend>(source: Tensor<B, 3>) -> Tensor<B, 3> {
    let mask = Tensor::ones(source.dims(), &source.device());
    Tensor::cat(vec![source, mask], 2)
}
// ANCHOR_END: context

#[cfg(test)]
mod tests {
    use super::*;
    use burn_flex::Flex;

    fn frames(values: &[f32]) -> Tensor<Flex, 3> {
        let device = Default::default();
        Tensor::<Flex, 1>::from_data(values, &device).reshape([1, values.len(), 1])
    }

    fn values(x: Tensor<Flex, 3>) -> Vec<f32> {
        x.into_data().to_vec().expect("f32")
    }

    #[test]
    fn silence_that_is_too_short_begins_again() {
        assert_eq!(values(silence(&frames(&[1.0, 2.0, 3.0]), 7)), [1., 2., 3., 1., 2., 3., 1.]);
        assert_eq!(values(silence(&frames(&[1.0, 2.0, 3.0]), 2)), [1., 2.]);
    }

    #[test]
    fn padding_is_the_start_of_silence() {
        let stored = frames(&[1.0, 2.0, 3.0]);
        assert_eq!(values(padded(frames(&[9.0, 8.0]), &stored, 4)), [9., 8., 1., 2.]);
        assert_eq!(values(padded(frames(&[9.0, 8.0]), &stored, 1)), [9.]);
    }
}
