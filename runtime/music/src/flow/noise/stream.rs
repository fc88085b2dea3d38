//! A stream of noise from one seeded generator, as `torch.randn(.., generator=g)` draws it.

use rand_mt::Mt;

use super::{NoiseSource, mt19937_normals_of, philox_normals_of};

/// A seeded generator; its first noise is the initial noise of its seed.
#[derive(Debug, Clone)]
pub struct NoiseStream(State);

#[derive(Debug, Clone)]
enum State {
    Philox {
        seed: u64,
        threads: Option<u64>,
        /// Draws that each thread has already made.
        draws: u64,
    },
    Mt19937(Box<Mt>),
}

impl NoiseSource {
    /// Returns the generator of a seed, at its start.
    pub fn stream(&self, seed: u64) -> NoiseStream {
        NoiseStream(match *self {
            Self::Philox { threads } => State::Philox { seed, threads, draws: 0 },
            Self::Mt19937 => State::Mt19937(Box::new(Mt::new(seed as u32))),
        })
    }
}

impl NoiseStream {
    /// Draws the next noise, row-major.
    ///
    /// # Shapes
    /// output: `[frames, channels]`
    pub fn draw(&mut self, frames: usize, channels: usize) -> Vec<f32> {
        let n = frames * channels;
        match &mut self.0 {
            State::Philox { seed, threads, draws } => {
                let noise = philox_normals_of(*seed, n, *threads, *draws);
                // PyTorch advances the offset by the number of draws of its busiest thread.
                *draws += (n as u64).div_ceil(4 * threads.unwrap_or(n as u64).max(1));
                noise
            }
            State::Mt19937(generator) => mt19937_normals_of(generator, n),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If the noise is a whole number of the generator's blocks, two draws are the halves of a
    /// double one. The goldens compare the double one with PyTorch.
    #[test]
    fn two_draws_are_the_halves_of_one_twice_as_long() {
        for source in [NoiseSource::Mt19937, NoiseSource::Philox { threads: Some(8) }] {
            let mut stream = source.stream(42);
            let two = [stream.draw(4, 16), stream.draw(4, 16)].concat();
            assert_eq!(two, source.initial_noise(42, 8, 16), "{source}");
        }
    }

    #[test]
    fn the_first_draw_is_the_seeds_initial_noise_and_no_draw_is_like_another() {
        for source in [NoiseSource::default(), NoiseSource::Mt19937] {
            let mut stream = source.stream(7);
            let draws = [0; 3].map(|_| stream.draw(5, 7));
            assert_eq!(draws[0], source.initial_noise(7, 5, 7));
            assert!(draws[0] != draws[1] && draws[1] != draws[2] && draws[0] != draws[2]);
        }
    }
}
