//! The loss of a song: the error of the velocity between noise and a song.
//!
//! As in upstream's training of adapters, the context is silence and times are the ones of
//! inference. For models with guidance the condition is sometimes dropped.

use acestep_model::{Backend, acestep::Dit, nn::Dropout};
use burn::tensor::{Tensor, TensorData, backend::AutodiffBackend};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::{Addition, TrainingSong, song::Common};
use crate::{random::normal, times};

/// The times to train at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Timesteps {
    /// The eight times of a turbo model with shift 3.
    Turbo,
    /// Any time, drawn as in the model's own training.
    Any(times::LogitNormal),
}

/// The schedule of turbo models with shift 3.
const TURBO: [f32; 8] = [1.0, 21.0 / 22.0, 0.9, 5.0 / 6.0, 0.75, 9.0 / 14.0, 0.5, 0.3];

/// Probability to drop the condition, for models with guidance.
const UNCONDITIONAL: f64 = 0.15;

/// The inputs that are the same in all steps.
pub struct Examples<'a, B: Backend> {
    /// The model, which is not trained itself.
    pub dit: &'a Dit<B>,
    /// The songs.
    pub songs: &'a [TrainingSong],
    /// The data that all songs share.
    pub common: &'a Common,
    /// The times to train at.
    pub times: Timesteps,
    /// Probability that a step ignores a value of the adapter's input.
    pub dropout: f64,
    /// The device to compute on.
    pub device: B::Device,
}

impl<B> Examples<'_, B>
where
    B: AutodiffBackend + Backend,
{
    /// The loss of a song, `[1]`: the mean squared error of the velocity.
    pub fn loss(&self, addition: &Addition<B>, seed: u64) -> Tensor<B, 1> {
        let mut random = Pcg64::seed_from_u64(seed);
        let song = &self.songs[random.random_range(0..self.songs.len())];
        let dropout = (self.dropout > 0.0).then_some(Dropout { chance: self.dropout, seed });
        self.of_song(&addition.added_to(self.dit, dropout), song, &mut random)
    }

    fn of_song(&self, dit: &Dit<B>, song: &TrainingSong, random: &mut Pcg64) -> Tensor<B, 1> {
        let Common { channels, width, null, silence } = self.common;
        let frames = song.latents.len() / channels;
        let time = match self.times {
            Timesteps::Turbo => TURBO[random.random_range(0..TURBO.len())],
            Timesteps::Any(times) => times.draw(random),
        };
        let is_told = self.times == Timesteps::Turbo || !random.random_bool(UNCONDITIONAL);
        let noise = normal(random, song.latents.len());
        let pairs = || song.latents.iter().zip(&noise);
        let noisy = pairs().map(|(x, n)| time * n + (1.0 - time) * x).collect();
        let velocity = pairs().map(|(x, n)| n - x).collect();
        let silent = (0..frames * channels).map(|index| silence[index % silence.len()]);
        let silent: Vec<f32> = silent.collect();
        let context = silent
            .chunks_exact(*channels)
            .flat_map(|frame| frame.iter().copied().chain(std::iter::repeat_n(1.0, *channels)))
            .collect();
        let condition = match is_told {
            true => song.condition.clone(),
            false => null.iter().copied().cycle().take(song.condition.len()).collect(),
        };
        let tensor = |values: Vec<f32>, columns: usize| {
            let shape = [1, values.len() / columns, columns];
            Tensor::<B, 3>::from_data(TensorData::new(values, shape), &self.device)
        };
        let condition = dit.attend_to(tensor(condition, *width));
        let (noisy, context) = (tensor(noisy, *channels), tensor(context, 2 * channels));
        let ours = dit.forward(noisy, context, [&[time], &[time]], &condition);
        (ours - tensor(velocity, *channels)).square().mean()
    }
}
