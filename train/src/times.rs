//! Training times of flow matching.
//!
//! Source: upstream `training_v2`; Esser et al. 2024, arXiv:2403.03206.

use acestep_model::acestep::Config;
use rand_pcg::Pcg64;

use crate::random::normal;

/// Distribution of the training times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogitNormal {
    /// Mean before the sigmoid.
    pub mu: f32,
    /// Standard deviation before the sigmoid.
    pub sigma: f32,
}

impl LogitNormal {
    /// Returns a model's distribution, or the released models' if its configuration has none.
    pub fn of(config: &Config) -> Self {
        let [mu, sigma] =
            [config.timestep_mu.unwrap_or(-0.4), config.timestep_sigma.unwrap_or(1.0)];
        Self { mu: mu as f32, sigma: sigma as f32 }
    }

    /// Draws a time: the later of two draws, as upstream does.
    pub fn draw(self, random: &mut Pcg64) -> f32 {
        let n = normal(random, 2).into_iter().fold(f32::NEG_INFINITY, f32::max);
        1.0 / (1.0 + (-self.mu - self.sigma * n).exp())
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn times_are_the_later_of_two_draws() {
        let mut random = Pcg64::seed_from_u64(5);
        // The median of the later draw is the quantile sqrt(1/2) of a single draw: 0.545 sigma above mu.
        for (mu, sigma) in [(-0.4, 1.0), (0.0, 1.6)] {
            let times = LogitNormal { mu, sigma };
            let middle = 1.0 / (1.0 + (-mu - 0.545 * sigma).exp());
            let below = (0..4000).filter(|_| times.draw(&mut random) < middle).count();
            assert!((1900..2100).contains(&below), "{below}");
        }
    }
}
