//! Seeded random numbers: one independent stream per concept.
//!
//! Every concept (plan, harmony, melody, ...) has its own stream. So a fixed field of a wish, or a
//! change in one concept, does not change the others.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

/// Subject of a random stream.
#[derive(Debug, Clone, Copy)]
pub(super) enum Stream {
    Style = 1,
    Tempo,
    Key,
    Meter,
    Duration,
    Form,
    Harmony,
    Melody,
    Parts,
    Timbre,
    Caption,
    Lyrics,
    Hiss,
}

/// A portable random generator.
///
/// Only `u32` and `u64` are drawn, since `usize` differs between machines.
#[derive(Debug)]
pub(super) struct Dice(Pcg64);

impl Dice {
    /// Returns the generator of one concept for the piece with this seed.
    pub(super) fn new(seed: u64, stream: Stream) -> Self {
        // The odd constant (2^64 / golden ratio) keeps neighbouring seeds and streams apart.
        let mixed = seed.wrapping_add((stream as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        Self(Pcg64::seed_from_u64(mixed))
    }

    /// Returns a whole number in `lowest..=highest`.
    pub(super) fn between(&mut self, lowest: u32, highest: u32) -> u32 {
        self.0.random_range(lowest..=highest)
    }

    /// Returns true with probability `probability`.
    pub(super) fn chance(&mut self, probability: f64) -> bool {
        self.fraction() < probability
    }

    /// Returns a number in `[lowest, highest)`.
    pub(super) fn real(&mut self, lowest: f32, highest: f32) -> f32 {
        lowest + (highest - lowest) * self.fraction() as f32
    }

    /// Returns one of `items`, all equally likely.
    ///
    /// # Panics
    /// If there are no items; all callers pass constant tables.
    pub(super) fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        assert!(!items.is_empty(), "nothing to pick from");
        items[self.between(0, items.len() as u32 - 1) as usize]
    }

    /// Returns a number in `[0, 1)` with 53 bits.
    fn fraction(&mut self) -> f64 {
        (self.0.random::<u64>() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_one_seed_differ() {
        let draw = |stream| Dice::new(7, stream).between(0, u32::MAX);
        assert_ne!(draw(Stream::Style), draw(Stream::Tempo));
        assert_eq!(draw(Stream::Key), draw(Stream::Key));
    }

    #[test]
    fn chance_has_its_probability() {
        let mut dice = Dice::new(1, Stream::Melody);
        let hits = (0..10_000).filter(|_| dice.chance(0.3)).count();
        assert!((2_800..3_200).contains(&hits), "{hits}");
    }
}
