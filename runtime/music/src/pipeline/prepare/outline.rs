//! Decodes audio codes to latents, as context of songs with codes and of covers.

use acestep_engine::{Error, audio::loudness::require_finite, host::to_host, progress::Observe};
use acestep_model::Backend;
use burn::tensor::Tensor;

use crate::{
    Plan,
    networks::{AUDIO_CODEC, Networks},
    stage,
    tokenize::CODES_AT_ONCE,
};

/// Decodes the audio codes of a plan, `[1 or B, 5 N, C]`.
pub(super) fn hints<B: Backend>(
    plan: &Plan,
    networks: &Networks<'_, B>,
    observe: &dyn Observe,
) -> Result<Tensor<B, 3>, Error> {
    networks.stage(stage::CODES, AUDIO_CODEC, observe, |steps| {
        let codec = networks.audio_codec()?;
        steps.advanced(0, 1);
        let hints = codec.decode(&plan.source.codes, networks.device());
        require_finite("the detokenizer of audio codes", &to_host(hints.clone()))?;
        steps.advanced(1, 1);
        Ok(hints)
    })
}

/// Quantises latents to audio codes and decodes these again, as the source of a cover.
///
/// # Shapes
/// - `target`, output: `[1, T, C]`
pub(super) fn coded<B: Backend>(
    target: &Tensor<B, 3>,
    silence: &Tensor<B, 3>,
    networks: &Networks<'_, B>,
    observe: &dyn Observe,
) -> Result<Tensor<B, 3>, Error> {
    let frames = target.dims()[1];
    let at_once = CODES_AT_ONCE * networks.configs().dit.pool_window_size;
    let starts: Vec<usize> = (0..frames).step_by(at_once).collect();
    let total = starts.len();
    let coded = networks.stage(stage::CODES, AUDIO_CODEC, observe, |steps| {
        let codec = networks.audio_codec()?;
        steps.advanced(0, total);
        let mut pieces = Vec::with_capacity(total);
        for (index, &start) in starts.iter().enumerate() {
            steps.check()?;
            let piece = target.clone().narrow(1, start, at_once.min(frames - start));
            pieces.push(codec.round_trip(piece, silence.clone()));
            steps.advanced(index + 1, total);
        }
        let coded = Tensor::cat(pieces, 1);
        require_finite("the tokenizer of audio codes", &to_host(coded.clone()))?;
        Ok(coded)
    })?;
    // The last code may extend beyond the end.
    Ok(coded.narrow(1, 0, frames))
}
