//! The autoencoder in tiles: equal results with bounded memory.
//!
//! Frames are split into cores. Each core is decoded with `overlap` extra frames on either side,
//! whose sound is discarded. A sample depends on nine frames on each side, so an overlap of nine or
//! more gives the same result up to rounding. Encoding works the same way: a frame depends on about
//! seven frames of sound on each side.
//!
//! Source: upstream `tiled_decode`, `tiled_encode`.

use std::ops::Range;

use acestep_model::{
    Backend,
    oobleck::{Decoder, Encoder, Posterior},
};
use burn::tensor::Tensor;

use crate::{
    Error,
    observe::{Event, Observe, Stage, check},
};

/// Tile size and overlap, in frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tiling {
    /// Frames decoded or encoded at once; more than twice `overlap`.
    pub chunk: usize,
    /// Frames on either side whose result is discarded.
    pub overlap: usize,
}

impl Default for Tiling {
    /// Upstream's: 512 frames (20 s) with 64 on each side.
    fn default() -> Self {
        Self { chunk: 512, overlap: 64 }
    }
}

impl Tiling {
    /// Upstream's for encoding: 750 frames (30 s) with 50 (2 s) on each side.
    pub const ENCODE: Self = Self { chunk: 750, overlap: 50 };

    /// Minimum tile size that is chosen automatically; smaller tiles would be audible at their
    /// borders.
    pub const LEAST: usize = 64;

    /// Returns tiles of half the size for `frames` frames, or `None` if they would be smaller than
    /// [`Self::LEAST`].
    pub fn smaller(self, frames: usize) -> Option<Self> {
        // Half of a tile larger than the whole song could still cover the whole song.
        let chunk = self.chunk.min(frames) / 2;
        if chunk < Self::LEAST {
            return None;
        }
        Self { chunk, ..self }.fitted().ok()
    }
}

/// One tile: its core, and the window of frames that the network reads for it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Tile {
    core: Range<usize>,
    window: Range<usize>,
}

impl Tiling {
    /// Halves the overlap until a core is left, as upstream does.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if `chunk` is 0.
    pub fn fitted(self) -> Result<Self, Error> {
        let Self { chunk, mut overlap } = self;
        if chunk == 0 {
            let range = "at least 1 frame".into();
            return Err(Error::OutOfRange { flag: "vae-chunk", value: "0".into(), range });
        }
        while 2 * overlap >= chunk {
            overlap /= 2;
        }
        Ok(Self { chunk, overlap })
    }

    /// Returns the window length of each tile of `frames` frames.
    ///
    /// # Errors
    /// The errors of [`Self::fitted`].
    pub fn windows(self, frames: usize) -> Result<Vec<usize>, Error> {
        Ok(self.fitted()?.tiles(frames).iter().map(|tile| tile.window.len()).collect())
    }

    /// Returns the tiles of `frames` frames; one tile if they fit into a chunk.
    fn tiles(self, frames: usize) -> Vec<Tile> {
        if frames <= self.chunk {
            return vec![Tile { core: 0..frames, window: 0..frames }];
        }
        // ANCHOR: tiles
        let stride = self.chunk - 2 * self.overlap;
        let tile = |start: usize| {
            let core = start..(start + stride).min(frames);
            let window =
                core.start.saturating_sub(self.overlap)..(core.end + self.overlap).min(frames);
            Tile { core, window }
        };
        (0..frames).step_by(stride).map(tile).collect()
        // ANCHOR_END: tiles
    }
}

/// Decodes latents in tiles.
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
    hop: usize,
    tiling: Tiling,
    observe: &dyn Observe,
) -> Result<Tensor<B, 3>, Error> {
    let latents = latents.swap_dims(1, 2);
    let tiles = tiling.fitted()?.tiles(latents.dims()[2]);
    let total = tiles.len();
    observe.event(Event::Advanced { stage: Stage::Vae, done: 0, total });
    let mut sounds = Vec::with_capacity(total);
    for (index, Tile { core, window }) in tiles.into_iter().enumerate() {
        check(observe)?;
        let seen = latents.clone().narrow(2, window.start, window.len());
        let sound = decoder.forward(seen);
        sounds.push(sound.narrow(2, (core.start - window.start) * hop, core.len() * hop));
        observe.event(Event::Advanced { stage: Stage::Vae, done: index + 1, total });
    }
    Ok(Tensor::cat(sounds, 2))
}

/// Encodes sound in tiles, to the mean of the distribution.
///
/// The mean makes the result reproducible; upstream samples the distribution with unseeded noise.
/// (The reference results of `tests/goldens` use the mean as well.)
///
/// # Shapes
/// - `sound`: `[B, 2, S]`, at least one frame
/// - output: `[B, T, C]` with `T = S / hop`; samples after the last whole frame get none
///
/// # Errors
/// [`Error::Cancelled`], or [`Error::OutOfRange`] for a chunk of 0.
pub fn encode<B: Backend>(
    encoder: &Encoder<B>,
    sound: Tensor<B, 3>,
    hop: usize,
    tiling: Tiling,
    observe: &dyn Observe,
) -> Result<Tensor<B, 3>, Error> {
    encode_with(encoder, sound, None, hop, tiling, observe)
}

/// Like [`encode`], but samples the distribution if `noise` is given: `mean + std noise`. The noise
/// covers the whole song, so tiles do not change the result.
///
/// # Shapes
/// - `noise`: `[B, T, C]`
///
/// # Errors
/// The errors of [`encode`].
pub fn encode_with<B: Backend>(
    encoder: &Encoder<B>,
    sound: Tensor<B, 3>,
    noise: Option<Tensor<B, 3>>,
    hop: usize,
    tiling: Tiling,
    observe: &dyn Observe,
) -> Result<Tensor<B, 3>, Error> {
    let samples = sound.dims()[2];
    let tiling = tiling.fitted()?;
    let tiles = tiling.tiles(samples / hop);
    let total = tiles.len();
    observe.event(Event::Advanced { stage: Stage::VaeEncoder, done: 0, total });
    let mut latents = Vec::with_capacity(total);
    for (index, Tile { core, window }) in tiles.into_iter().enumerate() {
        check(observe)?;
        // The last frames also depend on the samples after them.
        let is_last = index + 1 == total;
        let overlap_end = (core.end + tiling.overlap) * hop;
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
        observe.event(Event::Advanced { stage: Stage::VaeEncoder, done: index + 1, total });
    }
    Ok(Tensor::cat(latents, 2).swap_dims(1, 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_cover_every_frame_once_and_windows_stay_inside() {
        for frames in 1..70 {
            let tiling = Tiling { chunk: 16, overlap: 4 };
            let tiles = tiling.tiles(frames);
            let covered: Vec<usize> = tiles.iter().flat_map(|tile| tile.core.clone()).collect();
            assert_eq!(covered, (0..frames).collect::<Vec<_>>(), "{frames} frames");
            assert!(tiles.iter().all(|tile| tile.window.len() <= 16 && tile.window.end <= frames));
        }
    }

    /// 30 s: cores of 384 frames, and 64 more on each side that has a neighbour.
    #[test]
    fn a_window_is_its_core_and_what_is_left_and_right_of_it() {
        let windows = Tiling::default().windows(750).expect("a tiling");
        assert_eq!(windows, [384 + 64, 64 + 366]);
        assert_eq!(Tiling::default().windows(512).expect("a tiling"), [512]);
    }

    /// Golden `vae_tiled.dec3`: a chunk of 10 reduces the overlap from 64 to 4.
    #[test]
    fn an_overlap_that_does_not_fit_is_halved() {
        let fitted = Tiling { chunk: 10, overlap: 64 }.fitted().expect("a tiling");
        assert_eq!(fitted, Tiling { chunk: 10, overlap: 4 });
    }
}
