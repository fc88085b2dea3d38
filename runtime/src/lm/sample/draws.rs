//! Chance, as `torch.multinomial` on a CPU has it.
//!
//! One draw from probabilities `p` is the largest `p / q`, where each `q` is exponentially
//! distributed: the winner of a race in which token `i` runs at speed `p_i` on a track of its own length.
//!
//! Source: ATen `multinomial` (its path for one sample) and `exponential_distribution<double>`.
//! Measured with torch 2.15 on x86: every element of the vocabulary, forbidden ones too, takes 53
//! bits of the generator, that is two of its numbers, whatever the number of threads.

use super::twister::Twister;
use crate::flow::noise::uniform53;

/// The source of chance of one answer.
#[derive(Debug, Clone)]
pub struct Draws {
    generator: Twister,
    vocabulary: u32,
}

impl Draws {
    /// Begins like `torch.manual_seed(seed)`, of which the low 32 bits count.
    ///
    /// `vocabulary` is how many tokens the network scores when it scores all. A draw among fewer
    /// passes over the rest, so that the network may leave out what is forbidden anyway.
    pub fn new(seed: u64, vocabulary: usize) -> Self {
        Self { generator: Twister::new(seed as u32), vocabulary: vocabulary as u32 }
    }

    /// Leaves out a whole draw: one whose outcome is certain.
    pub fn skip(&mut self) {
        self.pass(self.vocabulary);
    }

    /// Which of `runners`, given as token and speed in ascending order of tokens, wins; the first
    /// of equals. Nothing is forbidden to have speed 0, it only does not win.
    pub(super) fn race(&mut self, runners: impl Iterator<Item = (u32, f32)>) -> Option<u32> {
        let mut best = (0.0, None);
        let mut drawn = 0;
        for (token, speed) in runners.filter(|&(_, speed)| speed > 0.0) {
            self.pass(token.saturating_sub(drawn));
            drawn = token.saturating_add(1);
            // A time of -ln(1 - u) is at least u, so most are too late without a logarithm. The
            // margin is above what the two roundings to f32 below can change.
            let u = uniform53(self.generator.next_u32(), self.generator.next_u32());
            if u * f64::from(best.0) > f64::from(speed) * (1.0 + 1e-6) {
                continue;
            }
            let time = -(-u).ln_1p() as f32;
            if speed / time > best.0 {
                best = (speed / time, Some(token));
            }
        }
        self.pass(self.vocabulary.saturating_sub(drawn));
        best.1
    }

    /// Leaves out the numbers of `tokens` tokens.
    fn pass(&mut self, tokens: u32) {
        self.generator.pass(2 * u64::from(tokens));
    }
}
