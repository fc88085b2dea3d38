//! The autoencoder in tiles: equal results with bounded memory.
//!
//! Frames are split into cores. Each core is decoded with `overlap` extra frames on either side,
//! whose sound is discarded. A sample depends on nine frames on each side. So an overlap of nine or
//! more gives the same result up to rounding, and no frame further away is decoded. Encoding works the
//! same way: a frame depends on seven frames of sound on each side.
//!
//! Source: upstream `tiled_decode`, `tiled_encode`.

use acestep_engine::{
    Device, Error,
    host::to_host,
    progress::{AudioChunk, Event, Observe, check},
    tiling::{Tile, Tiling},
};
use acestep_model::{
    Backend,
    oobleck::{Config, Decoder, Encoder, Posterior},
};
use burn::tensor::Tensor;

use crate::stage;

/// Maximum number of frames of a slice on a CPU: 126 MB for a tensor of the released models. Slices of 32 frames
/// took 7 to 9 % more time than whole tiles, because cores wait for each other more often; these took 2 to 3 %.
const SLICE: usize = 128;

/// Returns the most frames of a slice of the decoder's last blocks on `device`; `None` if whole tiles are
/// computed.
pub(crate) fn slice(device: Device) -> Option<usize> {
    (!device.is_gpu()).then_some(SLICE)
}

/// Returns the frames that are decoded on `device`, of a song of `frames` in latents of `padded` frames. A CPU
/// leaves out the padding that no sample depends on: the samples are the same for any padding. A GPU keeps all
/// of it: its kernels are chosen and tuned by length, and round differently.
pub(crate) fn decoded_frames(
    frames: usize,
    padded: usize,
    config: &Config,
    device: Device,
) -> usize {
    if device.is_gpu() { padded } else { padded.min(frames + config.decoder_reach()) }
}

/// Decodes latents in tiles. An observer that listens gets each tile of the first sound as soon as it is
/// decoded.
///
/// # Shapes
/// - `latents`: `[B, T, C]`
/// - output: `[B, 2, hop T]`
///
/// # Errors
/// [`Error::Cancelled`], or [`Error::OutOfRange`] for a chunk of 0.
pub fn decode<B: Backend>(
    decoder: &Decoder<B>,
    latents: Tensor<B, 3>,
    config: &Config,
    tiling: Tiling,
    observe: &dyn Observe,
) -> Result<Tensor<B, 3>, Error> {
    let (latents, hop, reach) = (latents.swap_dims(1, 2), config.hop(), config.decoder_reach());
    let tiles = tiling.fitted()?.tiles(latents.dims()[2]);
    let total = tiles.len();
    let slice = slice(Device::of_backend::<B>(&latents.device()));
    observe.event(Event::Advanced { stage: stage::VAE, done: 0, total });
    let mut sounds = Vec::with_capacity(total);
    for (index, tile) in tiles.into_iter().enumerate() {
        check(observe)?;
        let Tile { core, window } = tile.within(reach);
        let seen = latents.clone().narrow(2, window.start, window.len());
        let sound = match slice {
            Some(frames) => decoder.forward_in_slices(seen, frames),
            None => decoder.forward(seen),
        };
        let sound = sound.narrow(2, (core.start - window.start) * hop, core.len() * hop);
        if observe.listens() {
            let values = to_host(sound.clone().narrow(0, 0, 1));
            let channels: Vec<_> = values.chunks(core.len() * hop).map(<[f32]>::to_vec).collect();
            observe.sound(AudioChunk { start: core.start * hop, channels: &channels });
        }
        sounds.push(sound);
        observe.event(Event::Advanced { stage: stage::VAE, done: index + 1, total });
    }
    Ok(Tensor::cat(sounds, 2))
}

/// Encodes sound in tiles, to the mean of the distribution; with `noise` to a sample, `mean + std noise`.
/// The noise covers the whole song, so tiles do not change the result.
///
/// The mean makes the result reproducible; upstream samples the distribution with unseeded noise.
/// (The reference results of `tests/goldens` use the mean as well.)
///
/// # Shapes
/// - `sound`: `[B, 2, S]`, at least one frame
/// - `noise`: `[B, T, C]`
/// - output: `[B, T, C]` with `T = S / hop`; samples after the last whole frame get none
///
/// # Errors
/// [`Error::Cancelled`], or [`Error::OutOfRange`] for a chunk of 0.
pub fn encode<B: Backend>(
    encoder: &Encoder<B>,
    sound: Tensor<B, 3>,
    noise: Option<Tensor<B, 3>>,
    config: &Config,
    tiling: Tiling,
    observe: &dyn Observe,
) -> Result<Tensor<B, 3>, Error> {
    let (samples, hop, reach) = (sound.dims()[2], config.hop(), config.encoder_reach());
    let tiling = tiling.fitted()?;
    let tiles = tiling.tiles(samples / hop);
    let total = tiles.len();
    observe.event(Event::Advanced { stage: stage::VAE_ENCODER, done: 0, total });
    let mut latents = Vec::with_capacity(total);
    for (index, tile) in tiles.into_iter().enumerate() {
        check(observe)?;
        let Tile { core, window } = tile.within(reach);
        // The last frames also depend on the samples after them.
        let is_last = index + 1 == total;
        let overlap_end = (core.end + tiling.overlap.min(reach)) * hop;
        let end = if is_last { samples } else { overlap_end.min(samples) };
        let start = window.start * hop;
        let seen = encoder.forward(sound.clone().narrow(2, start, end - start));
        let own = |x: Tensor<B, 3>| x.narrow(2, core.start - window.start, core.len());
        latents.push(match &noise {
            Some(noise) => {
                let noise = noise.clone().narrow(1, core.start, core.len()).swap_dims(1, 2);
                Posterior { mean: own(seen.mean), scale: own(seen.scale) }.sample(noise)
            }
            None => own(seen.mean),
        });
        observe.event(Event::Advanced { stage: stage::VAE_ENCODER, done: index + 1, total });
    }
    Ok(Tensor::cat(latents, 2).swap_dims(1, 2))
}
