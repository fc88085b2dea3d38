//! The audio codes learn: five frames to one code and back, as close as so few bits allow.
//!
//! `mean (y - x)^2`, gradients passing the rounding; a codebook that is implied by its levels needs no
//! commitment.
//!
//! Source: Mentzer et al. 2023, arXiv:2309.15505.

use acestep_model::acestep::AudioCodec;
use burn::tensor::{Tensor, TensorData, backend::AutodiffBackend};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use crate::corpus::Example;

/// Frames of a stretch that is learned from; groups of five do not see each other.
const FRAMES: usize = 25;

/// The loss of `items` stretches of the corpus.
pub fn loss<B>(
    codec: &AudioCodec<B>,
    corpus: &[Example],
    channels: usize,
    items: usize,
    seed: u64,
    device: &B::Device,
) -> Tensor<B, 1>
where
    B: AutodiffBackend + acestep_model::Backend,
{
    let mut random = Pcg64::seed_from_u64(seed);
    let mut latents: Vec<f32> = Vec::with_capacity(items * FRAMES * channels);
    for _ in 0..items {
        let example = &corpus[random.random_range(0..corpus.len())];
        // Codes begin with the song and every five frames.
        let groups = (example.latents.len() / channels - FRAMES) / 5;
        let first = 5 * random.random_range(0..=groups);
        latents.extend(&example.latents[first * channels..][..FRAMES * channels]);
    }
    let latents = TensorData::new(latents, [items, FRAMES, channels]);
    let latents = Tensor::<B, 3>::from_data(latents, device);
    (codec.round_trip_straight(latents.clone()) - latents).square().mean()
}
