//! The autoencoder alone: encodes a sound to latents, and decodes latents to a sound.
//!
//! Source: upstream `tiled_encode`, `tiled_decode`; acestep.cpp `neural-codec`.

use acestep_engine::{
    Error,
    allocator::KeepFreed,
    audio::{Audio, loudness::require_finite, resample::to_stereo},
    device::memory::{self, Widths},
    host::{audio_from_sound, from_host, to_host},
    progress::{Observe, check},
    tiling::Tiling,
};
use acestep_model::Backend;
use burn::{module::Module, tensor::Tensor};

use crate::{
    exchange::Array3,
    flow::noise::NoiseSource,
    networks::{Networks, VAE_DECODER},
    stage,
    tokenize::latents_with,
    usable::usable,
    vae,
};

/// Options of [`encode`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Encode {
    /// Tile sizes of the user; otherwise upstream's, or smaller ones if memory is short.
    pub tiling: Option<Tiling>,
    /// Generator and seed to sample from the distribution; otherwise its mean is used.
    pub draw: Option<(NoiseSource, u64)>,
}

/// Encodes a sound of any rate and any number of channels to latents, `[1, T, C]`.
///
/// Samples after the last whole frame get no frame of their own.
///
/// # Errors
/// [`Error::Conflict`] or [`TooShort`](crate::SongError::TooShort) if there is nothing to encode;
/// [`Error::Checkpoint`]; [`Error::NotFinite`]; [`Error::DeviceFailed`]; [`Error::Cancelled`].
pub fn encode<B: Backend>(
    audio: &Audio,
    how: Encode,
    networks: &Networks<'_, B>,
    observe: &dyn Observe,
) -> Result<Array3, Error> {
    let config = &networks.configs().vae;
    let audio = to_stereo(audio, config.sampling_rate, observe)?;
    let (frames, channels) = (audio.samples() / config.hop(), config.decoder_input_channels);
    let noise = match how.draw {
        Some((source, seed)) if frames > 0 => {
            let values = source.initial_noise(seed, frames, channels);
            let tensor = || Ok(from_host(values.clone(), frames, channels, networks.device()));
            Some(networks.catch(stage::VAE_ENCODER, tensor)?)
        }
        _ => None,
    };
    let latents = latents_with(&audio, how.tiling, noise, networks, observe)?;
    Ok(Array3::new(latents.dims(), to_host(latents)))
}

/// Decodes the latents of one song, `[1, T, C]`, without changing the loudness.
///
/// # Errors
/// [`Error::Conflict`] for latents of another model; otherwise the errors of [`encode`].
pub fn decode<B: Backend>(
    latents: &Array3,
    tiling: Option<Tiling>,
    networks: &Networks<'_, B>,
    observe: &dyn Observe,
) -> Result<Audio, Error> {
    check(observe)?;
    let config = &networks.configs().vae;
    let [batch, frames, channels] = latents.shape;
    if batch != 1 || frames == 0 || channels != config.decoder_input_channels {
        return Err(Error::Conflict(format!(
            "latents of {:?} are not one song's for a VAE of {} channels",
            latents.shape, config.decoder_input_channels
        )));
    }
    let latents = networks.upload(latents, stage::VAE)?;
    let mut songs = sounds_of(latents, tiling, networks, observe, |song| {
        song.channels.iter().try_for_each(|channel| require_finite("the VAE", channel))
    })?;
    // The batch size is 1.
    songs.swap_remove(0)
}

/// Decodes latents `[B, T, C]`, and applies `finish` to each song. If `finish` finds values that
/// are not finite, decoding is repeated in f32. At least one song is usable.
///
/// `tiling` defaults to upstream's tiles, or smaller ones if memory is short. If a GPU runs out of
/// memory anyway, the tiles are halved repeatedly.
pub(crate) fn sounds_of<B: Backend>(
    latents: Tensor<B, 3>,
    tiling: Option<Tiling>,
    networks: &Networks<'_, B>,
    observe: &dyn Observe,
    finish: impl Fn(&mut Audio) -> Result<(), Error>,
) -> Result<Vec<Result<Audio, Error>>, Error> {
    let config = &networks.configs().vae;
    let [batch, frames, _] = latents.dims();
    networks.stage(stage::VAE, VAE_DECODER, observe, |steps| {
        let _kept = KeepFreed::new();
        let decoder = networks.vae_decoder()?;
        let widths = Widths::at(&networks.place(VAE_DECODER));
        let parameters = decoder.num_params() as u64;
        let target = networks.target();
        let need = |tiling| {
            crate::memory::vae(config, parameters, batch, frames, tiling, target.device, widths)
        };
        let of_memory = || memory::tiling(Tiling::default(), frames, &target.memory, 0, need);
        let tiling = tiling.unwrap_or_else(of_memory);
        let work = |tiling| {
            let sound = vae::decode(&decoder, latents.clone(), config, tiling, steps.observe)?;
            // A device may fail late: only values that were read back are sure to be computed.
            Ok(audio_from_sound(sound, config.sampling_rate))
        };
        let songs = networks.in_tiles(frames, tiling, steps, work)?;
        let finished = |mut song: Audio| finish(&mut song).map(|()| song);
        usable(songs.into_iter().map(finished).collect(), networks.place(VAE_DECODER).dtype)
    })
}
