//! Decodes audio codes to latents, as context of songs with codes and of covers.

use std::time::Instant;

use acestep_model::Backend;
use burn::tensor::Tensor;

use crate::{
    Error, Plan,
    audio::loudness::require_finite,
    host::to_host,
    listen::CODES_AT_ONCE,
    observe::{Event, Observe, Stage, check},
    residency::{Network, Networks},
};

/// Decodes the audio codes of a plan, `[1 or B, 5 N, C]`.
pub(super) fn hints<B: Backend>(
    plan: &Plan,
    networks: &Networks<'_, B>,
    observe: &dyn Observe,
) -> Result<Tensor<B, 3>, Error> {
    check(observe)?;
    let start = Instant::now();
    let hints = networks.run_with_f32_retry(Network::AudioCodec, observe, |observe| {
        observe.event(Event::Loading(Stage::Codes));
        let codec = networks.audio_codec()?;
        let advanced = |done| Event::Advanced { stage: Stage::Codes, done, total: 1 };
        observe.event(advanced(0));
        let hints = codec.decode(&plan.codes, networks.device());
        require_finite("the detokenizer of audio codes", &to_host(hints.clone()))?;
        observe.event(advanced(1));
        Ok(hints)
    })?;
    observe.event(Event::Finished { stage: Stage::Codes, elapsed: start.elapsed() });
    Ok(hints)
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
    check(observe)?;
    let start = Instant::now();
    let frames = target.dims()[1];
    let at_once = CODES_AT_ONCE * networks.configs().dit.pool_window_size;
    let starts: Vec<usize> = (0..frames).step_by(at_once).collect();
    let total = starts.len();
    let coded = networks.run_with_f32_retry(Network::AudioCodec, observe, |observe| {
        observe.event(Event::Loading(Stage::Codes));
        let codec = networks.audio_codec()?;
        observe.event(Event::Advanced { stage: Stage::Codes, done: 0, total });
        let mut pieces = Vec::with_capacity(total);
        for (index, &start) in starts.iter().enumerate() {
            check(observe)?;
            let piece = target.clone().narrow(1, start, at_once.min(frames - start));
            pieces.push(codec.round_trip(piece, silence.clone()));
            observe.event(Event::Advanced { stage: Stage::Codes, done: index + 1, total });
        }
        let coded = Tensor::cat(pieces, 1);
        require_finite("the tokenizer of audio codes", &to_host(coded.clone()))?;
        Ok(coded)
    })?;
    observe.event(Event::Finished { stage: Stage::Codes, elapsed: start.elapsed() });
    // The last code may extend beyond the end.
    Ok(coded.narrow(1, 0, frames))
}
