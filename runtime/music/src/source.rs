//! Inputs of the diffusion transformer besides noise: source latents and a mask.
//!
//! `context = [source | mask]`:
//!
//! | task | source | mask |
//! |---|---|---|
//! | text2music | silence, or the latents of audio codes | 1 |
//! | cover | the source's latents through its audio codes | 1 |
//! | cover-nofsq, extract, complete | the source's latents | 1 |
//! | repaint | the source's latents, with silence in the region | 1 in the region, else 0 |
//! | lego | the source's latents | 1 in the region, else 0; 1 everywhere without a region |
//!
//! Source: upstream `_prepare_batch`, `_build_chunk_masks_and_src_latents`, `prepare_condition`.

use std::{ops::Range, sync::Arc};

use acestep_engine::{Error, audio::Audio, progress::Observe};
use acestep_model::Backend;
use burn::tensor::Tensor;

use crate::{
    Plan,
    networks::Networks,
    plan::{Added, MaskMode},
    sounds::Sound,
    stage, tokenize,
};

/// Returns the latents of a sound, `[1, T, C]`.
///
/// # Errors
/// The errors of [`tokenize::latents_of`].
pub fn latents<B: Backend>(
    sound: &Sound,
    networks: &Networks<'_, B>,
    observe: &dyn Observe,
) -> Result<Tensor<B, 3>, Error> {
    match sound {
        Sound::Audio(audio) => tokenize::latents_of(audio, networks, observe),
        Sound::Latents(latents) => networks.upload(latents, stage::CONDITION),
    }
}

/// Returns the latents of the plan's source, extended at both ends if planned, `[1, T, C]`; `None`
/// without a source. `T` is the length of the song, without the padding of sampling.
///
/// # Errors
/// The errors of [`latents`].
pub fn target<B: Backend>(
    plan: &Plan,
    stored_silence: &Tensor<B, 3>,
    networks: &Networks<'_, B>,
    observe: &dyn Observe,
) -> Result<Option<Tensor<B, 3>>, Error> {
    let Some(source) = &plan.source.sound else { return Ok(None) };
    let longer = match source {
        // Upstream encodes the added silence together with the sound.
        Sound::Audio(audio) if plan.repaint.added != Added::default() => {
            Sound::Audio(Arc::new(lengthened(audio, plan.repaint.added)))
        }
        source => source.clone(),
    };
    let target = latents(&longer, networks, observe)?;
    let before = match source {
        Sound::Audio(_) => 0,
        Sound::Latents(_) => plan.repaint.added.before / plan.length.hop,
    };
    let target = match before {
        0 => target,
        before => Tensor::cat(vec![silence(stored_silence, before), target], 1),
    };
    Ok(Some(padded(target, stored_silence, plan.length.frames)))
}

/// Adds silence before and after a sound.
fn lengthened(audio: &Audio, added: Added) -> Audio {
    let longer = |channel: &Vec<f32>| {
        let mut samples = vec![0.0; added.before];
        samples.extend(channel);
        samples.resize(samples.len() + added.after, 0.0);
        samples
    };
    Audio { channels: audio.channels.iter().map(longer).collect(), sample_rate: audio.sample_rate }
}

/// Replaces the region to regenerate with silence, as the source of a repaint.
///
/// # Shapes
/// - `target`, output: `[1, T, C]`
// ANCHOR: silenced
pub fn silenced<B: Backend>(
    target: Tensor<B, 3>,
    generated: &Range<usize>,
    stored_silence: &Tensor<B, 3>,
) -> Tensor<B, 3> {
    // Silence of the same frames, because its first frames differ from later ones.
    let silence =
        silence(stored_silence, generated.end).narrow(1, generated.start, generated.len());
    let [batch, _, channels] = target.dims();
    target.slice_assign([0..batch, generated.clone(), 0..channels], silence)
}
// ANCHOR_END: silenced

/// Returns the first `frames` frames of silence; repeats the stored silence if it is too short.
///
/// # Shapes
/// - `silence`: `[1, stored, C]`
/// - output: `[1, frames, C]`
pub fn silence<B: Backend>(silence: &Tensor<B, 3>, frames: usize) -> Tensor<B, 3> {
    let stored = silence.dims()[1];
    let piece = |start: usize| silence.clone().narrow(1, 0, stored.min(frames - start));
    Tensor::cat((0..frames).step_by(stored).map(piece).collect(), 1)
}

/// Appends the start of silence up to `frames` frames; truncates longer latents.
///
/// The padding starts at frame 0 of silence, as upstream's `silence_latent[:pad]`; the first frames
/// of silence differ from later ones.
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

/// Returns the mask of the region to generate, one value per frame.
// ANCHOR: mask
pub fn mask(generated: Option<&Range<usize>>, mode: MaskMode, frames: usize) -> Vec<f32> {
    let inside = |frame| generated.is_none_or(|generated| generated.contains(&frame));
    let value = |frame| match mode {
        MaskMode::Explicit => f32::from(u8::from(inside(frame))),
        MaskMode::Ones => 1.0,
        MaskMode::Twos => 2.0,
    };
    (0..frames).map(value).collect()
}
// ANCHOR_END: mask

/// Concatenates source and mask.
///
/// # Shapes
/// - `source`: `[B, T, C]`, `mask`: `T` values
/// - output: `[B, T, 2 C]`
// ANCHOR: context
pub fn context<B: Backend>(source: Tensor<B, 3>, mask: &[f32]) -> Tensor<B, 3> {
    let mask = Tensor::<B, 1>::from_floats(mask, &source.device());
    let mask = mask.reshape([1, -1, 1]).expand(source.dims());
    Tensor::cat(vec![source, mask], 2)
}
// ANCHOR_END: context

#[cfg(test)]
mod tests {
    use acestep_engine::host::to_host as values;

    use super::*;
    use crate::test_goldens::frames;

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

    #[test]
    fn a_repaint_shows_silence_of_the_same_frames() {
        let stored = frames(&[1.0, 2.0, 3.0, 4.0]);
        let shown = silenced(frames(&[9.0, 8.0, 7.0, 6.0]), &(1..3), &stored);
        assert_eq!(values(shown), [9., 2., 3., 6.]);
    }

    #[test]
    fn a_mask_is_one_where_music_is_made() {
        let generated = 1..3;
        assert_eq!(mask(Some(&generated), MaskMode::Explicit, 4), [0., 1., 1., 0.]);
        assert_eq!(mask(None, MaskMode::Explicit, 2), [1., 1.]);
        assert_eq!(mask(Some(&generated), MaskMode::Ones, 2), [1., 1.]);
        assert_eq!(mask(Some(&generated), MaskMode::Twos, 2), [2., 2.]);
        let context = context(frames(&[5.0, 6.0]), &[0.0, 1.0]);
        assert_eq!(values(context), [5., 0., 6., 1.]);
    }

    #[test]
    fn silence_is_added_before_and_after_a_sound() {
        let audio = Audio { channels: vec![vec![1.0, 2.0]; 2], sample_rate: 48_000 };
        let longer = lengthened(&audio, Added { before: 1, after: 2 });
        assert_eq!(longer.channels, vec![vec![0.0, 1.0, 2.0, 0.0, 0.0]; 2]);
    }
}
