//! The autoencoder: decodes latents to sound and encodes sound, in tiles as `generate` does. A
//! whole long song would not fit into memory.

use acestep_engine::{Unobserved, tiling::Tiling};
use acestep_model::{Backend, LATENT_HZ, Place, oobleck};
use acestep_music::vae;
use anyhow::Result;

use super::{cost, networks::noise, sizes::vae_config};
use crate::measure::{
    Cost, Rate, Run,
    clock::{self, Time, wait},
    weights::random_weights,
};

/// Measures the decoding of latents to sound.
pub(crate) fn decode<B: Backend>(frames: usize, place: &Place<B>) -> Result<Run> {
    let (config, device) = (vae_config()?, &place.device);
    let model =
        random_weights(oobleck::Decoder::<B>::init(&config, device), place.dtype).prepacked();
    let latents = noise([1, frames, config.decoder_input_channels], device);
    let work = || vae::decode(&model, latents.clone(), &config, Tiling::default(), &Unobserved);
    let time = clock::time(work, || wait::<B>(device));
    Ok(run(frames, cost::vae(&config, frames), time))
}

/// Measures the encoding of sound to the mean of its latents.
pub(crate) fn encode<B: Backend>(frames: usize, place: &Place<B>) -> Result<Run> {
    let (config, device) = (vae_config()?, &place.device);
    let model =
        random_weights(oobleck::Encoder::<B>::init(&config, device), place.dtype).prepacked();
    let sound = noise([1, config.audio_channels, frames * config.hop()], device);
    let work = || vae::encode(&model, sound.clone(), None, &config, Tiling::ENCODE, &Unobserved);
    let time = clock::time(work, || wait::<B>(device));
    Ok(run(frames, cost::vae_encode(&config, frames), time))
}

fn run(frames: usize, cost: Cost, time: Time) -> Run {
    let seconds = frames as f64 / f64::from(LATENT_HZ);
    let rate = Rate::new(time.wall_s / seconds, "s per second of audio");
    Run { unit: format!("{seconds} s of sound"), cost, time, rate }
}
