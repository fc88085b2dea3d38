//! The autoencoder alone: sound to latents and back.

use acestep_engine::{Audio, Engine, Error, Notice, Observe, Residency, on_engine, tiling::Tiling};
use acestep_import::{AceStep, Network};
use acestep_model::Backend;
use acestep_music::{
    Array3, Encode, Networks, SongError, codec,
    request::{Output, compute, output::OutputPlan},
};

use crate::memory;

/// Returns the samples of `audio` at the rate of the model, and its latent frames.
///
/// # Errors
/// [`SongError::TooShort`].
pub fn length(audio: &Audio, folder: &AceStep) -> Result<(usize, usize), Error> {
    let vae = &folder.configs().vae;
    let rate = u64::from(vae.sampling_rate);
    let samples = audio.samples() as u64 * rate;
    let samples = samples.div_ceil(u64::from(audio.sample_rate)) as usize;
    let frames = samples / vae.hop();
    if frames == 0 {
        let least = vae.hop() as f64 / rate as f64;
        return Err(SongError::TooShort { seconds: audio.seconds(), least }.into());
    }
    Ok((samples, frames))
}

/// Returns the tiles for `frames` if the user sets them: frames at once, and their overlap.
///
/// # Errors
/// [`Error::OutOfRange`].
pub fn tiling(
    asked: (Option<i64>, Option<i64>),
    usual: Tiling,
    frames: usize,
    notices: &mut Vec<Notice>,
) -> Result<Option<Tiling>, Error> {
    match asked {
        (None, None) => Ok(None),
        asked => compute::tiling(asked, usual, frames, notices).map(Some),
    }
}

/// Refuses an encoder, or else a decoder, for `frames` that do not fit into memory.
///
/// # Errors
/// As [`memory::check`]; [`Error::Checkpoint`].
pub fn check_memory(
    folder: &AceStep,
    encodes: bool,
    frames: usize,
    engine: Engine,
) -> Result<(), Error> {
    let sizes = memory::sizes(folder, engine);
    let need = if encodes { sizes.encoder(frames)? } else { sizes.decoder(frames)? };
    memory::check(&[need], false, engine)
}

/// Returns the changes to a decoded sound of `frames`. By default there is none of its loudness.
///
/// # Errors
/// [`Error::OutOfRange`].
pub fn changes(
    output: &mut Output,
    folder: &AceStep,
    frames: usize,
    notices: &mut Vec<Notice>,
) -> Result<OutputPlan, Error> {
    output.enable_normalization.get_or_insert(false);
    let seconds = frames as f64 / folder.configs().vae.frames_per_second();
    output.plan(false, seconds, notices)
}

/// Encodes `audio`.
///
/// # Errors
/// The errors of [`codec::encode`]; [`Error::NoDevice`].
pub fn encode(
    audio: &Audio,
    how: Encode,
    folder: &AceStep,
    engine: Engine,
    observe: &dyn Observe,
) -> Result<Array3, Error> {
    on_engine!(engine,
    for<'a>(audio: &'a Audio, how: Encode, folder: &'a AceStep, observe: &'a dyn Observe)
        -> Result<Array3, Error>,
    |place: B| {
        let networks = Networks::<B>::new(folder, place, Residency::WhileUsed);
        encode_with(audio, how, folder, &networks, observe)
    })?
}

/// As [`encode`], with the caller's networks, which are those of `folder`.
///
/// # Errors
/// The errors of [`codec::encode`].
pub fn encode_with<B: Backend>(
    audio: &Audio,
    how: Encode,
    folder: &AceStep,
    networks: &Networks<'_, B>,
    observe: &dyn Observe,
) -> Result<Array3, Error> {
    folder.check::<B>(networks.device(), &[Network::VaeEncoder]).map_err(Error::checkpoint)?;
    codec::encode(audio, how, networks, observe)
}

/// Decodes `latents`.
///
/// # Errors
/// The errors of [`codec::decode`]; [`Error::NoDevice`].
pub fn decode(
    latents: &Array3,
    tiling: Option<Tiling>,
    folder: &AceStep,
    engine: Engine,
    observe: &dyn Observe,
) -> Result<Audio, Error> {
    on_engine!(engine,
    for<'a>(latents: &'a Array3, tiling: Option<Tiling>, folder: &'a AceStep,
            observe: &'a dyn Observe)
        -> Result<Audio, Error>,
    |place: B| {
        let networks = Networks::<B>::new(folder, place, Residency::WhileUsed);
        decode_with(latents, tiling, folder, &networks, observe)
    })?
}

/// As [`decode`], with the caller's networks, which are those of `folder`.
///
/// # Errors
/// The errors of [`codec::decode`].
pub fn decode_with<B: Backend>(
    latents: &Array3,
    tiling: Option<Tiling>,
    folder: &AceStep,
    networks: &Networks<'_, B>,
    observe: &dyn Observe,
) -> Result<Audio, Error> {
    folder.check::<B>(networks.device(), &[Network::VaeDecoder]).map_err(Error::checkpoint)?;
    codec::decode(latents, tiling, networks, observe)
}
