//! Converts an existing song to the language model's input: sound -> latents -> audio codes.
//!
//! Source: upstream `convert_src_audio_to_codes`.

use acestep_engine::{
    Error,
    allocator::KeepFreed,
    audio::{Audio, loudness::require_finite, resample::to_stereo},
    device::memory::{self, Widths},
    host::to_host,
    progress::{Observe, check},
    tiling::Tiling,
};
use acestep_model::{Backend, acestep::AudioTokenizer};
use burn::{
    module::Module,
    tensor::{Tensor, TensorData},
};

use crate::{
    SongError,
    exchange::Array3,
    networks::{AUDIO_CODEC, Networks, VAE_ENCODER},
    stage, vae,
};

/// Number of codes computed at once. Codes are independent, so this only affects memory: about
/// 200 MB for the released networks.
pub const CODES_AT_ONCE: usize = 500;

/// Returns the audio codes of a sound of any rate and any number of channels, five per second.
///
/// As upstream, samples after the last whole frame are dropped, and the last code is padded with
/// the start of the silence latents.
///
/// # Errors
/// [`Error::Conflict`] or [`SongError::TooShort`] if there is nothing to encode;
/// [`Error::Checkpoint`] if a network cannot be read; [`Error::NotFinite`] with the stage whose
/// result is invalid; [`Error::DeviceFailed`] if a GPU fails; [`Error::Cancelled`].
// ANCHOR: codes_of
pub fn codes_of<B: Backend>(
    audio: &Audio,
    networks: &Networks<'_, B>,
    observe: &dyn Observe,
) -> Result<Vec<u32>, Error> {
    let audio = to_stereo(audio, networks.configs().vae.sampling_rate, observe)?;
    let latents = latents_of(&audio, networks, observe)?; // [1, T, C]
    codes_of_latents(latents, networks, observe)
}
// ANCHOR_END: codes_of

/// Encodes a sound with the VAE: `[1, T, C]`.
///
/// The sound must have the VAE's rate and two channels; see [`to_stereo`]. It is encoded in
/// upstream's tiles, or in smaller ones if a GPU has too little memory.
///
/// # Errors
/// The errors of [`codes_of`].
pub fn latents_of<B: Backend>(
    audio: &Audio,
    networks: &Networks<'_, B>,
    observe: &dyn Observe,
) -> Result<Tensor<B, 3>, Error> {
    latents_with(audio, None, None, networks, observe)
}

/// Like [`latents_of`], with the user's tiles, or with a sample of the distribution by `noise`,
/// `[1, T, C]`.
///
/// # Errors
/// The errors of [`codes_of`].
pub fn latents_with<B: Backend>(
    audio: &Audio,
    tiling: Option<Tiling>,
    noise: Option<Tensor<B, 3>>,
    networks: &Networks<'_, B>,
    observe: &dyn Observe,
) -> Result<Tensor<B, 3>, Error> {
    check(observe)?;
    let config = &networks.configs().vae;
    let (samples, hop) = (audio.samples(), config.hop());
    if samples < hop {
        let least = hop as f64 / f64::from(config.sampling_rate);
        return Err(SongError::TooShort { seconds: audio.seconds(), least }.into());
    }
    let values = TensorData::new(audio.channels.concat(), [1, audio.channels.len(), samples]);
    // [1, 2, S]
    let stage = stage::VAE_ENCODER;
    let sound = networks.catch(stage, || Ok(Tensor::from_data(values, networks.device())))?;
    networks.stage(stage, VAE_ENCODER, observe, |steps| {
        let _kept = KeepFreed::new();
        let encoder = networks.vae_encoder()?;
        let (frames, target) = (samples / hop, networks.target());
        let widths = Widths::at(&networks.place(VAE_ENCODER));
        let parameters = encoder.num_params() as u64;
        let need = |tiling| {
            let device = target.device;
            crate::memory::vae_encoder(config, parameters, frames, tiling, device, widths)
        };
        let of_memory = || memory::tiling(Tiling::ENCODE, frames, &target.memory, 0, need);
        let tiling = tiling.unwrap_or_else(of_memory);
        let work = |tiling| {
            let (sound, noise) = (sound.clone(), noise.clone());
            let latents = vae::encode(&encoder, sound, noise, config, tiling, steps.observe)?;
            require_finite("the VAE encoder", &to_host(latents.clone()))?;
            Ok(latents)
        };
        networks.in_tiles(frames, tiling, steps, work)
    })
}

/// Returns the audio codes of latents.
///
/// # Shapes
/// - `latents`: `[1, T, C]`
/// - output: `ceil(T / 5)` codes
///
/// # Errors
/// The errors of [`codes_of`].
pub fn codes_of_latents<B: Backend>(
    latents: Tensor<B, 3>,
    networks: &Networks<'_, B>,
    observe: &dyn Observe,
) -> Result<Vec<u32>, Error> {
    check(observe)?;
    let silence = networks.catch(stage::CODES, || networks.silence_latent())?; // [1, stored, C]
    let at_once = CODES_AT_ONCE * networks.configs().dit.pool_window_size;
    let frames = latents.dims()[1];
    let starts: Vec<usize> = (0..frames).step_by(at_once).collect();
    let total = starts.len();
    networks.stage(stage::CODES, AUDIO_CODEC, observe, |steps| {
        let codec = networks.audio_codec()?;
        steps.advanced(0, total);
        let mut codes = Vec::new();
        for (index, &start) in starts.iter().enumerate() {
            steps.check()?;
            let piece = latents.clone().narrow(1, start, at_once.min(frames - start));
            codes.extend(quantized(codec.tokenizer(), piece, silence.clone())?);
            steps.advanced(index + 1, total);
        }
        Ok(codes)
    })
}

/// Like [`codes_of_latents`], for latents of a file.
///
/// # Errors
/// [`Error::Conflict`] for latents of another model; otherwise the errors of [`codes_of`].
pub fn codes_of_stored<B: Backend>(
    latents: &Array3,
    networks: &Networks<'_, B>,
    observe: &dyn Observe,
) -> Result<Vec<u32>, Error> {
    let channels = networks.configs().dit.audio_acoustic_hidden_dim;
    if latents.shape[0] != 1 || latents.shape[2] != channels {
        let text =
            format!("latents of {:?} are not one song's of {channels} channels", latents.shape);
        return Err(Error::Conflict(text));
    }
    codes_of_latents(networks.upload(latents, stage::CODES)?, networks, observe)
}

fn quantized<B: Backend>(
    tokenizer: &AudioTokenizer<B>,
    latents: Tensor<B, 3>,
    silence: Tensor<B, 3>,
) -> Result<Vec<u32>, Error> {
    let pooled = tokenizer.pool(latents, silence); // [1, N, H]
    // NaN would quantise to a valid code.
    require_finite("the tokenizer of audio codes", &to_host(pooled.clone()))?;
    let (_, indices) = tokenizer.quantizer().forward(pooled);
    let codes = to_host(indices.float());
    // All codes are below 2^24, so f32 is exact.
    Ok(codes.into_iter().map(|code| code as u32).collect())
}
