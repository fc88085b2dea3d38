//! Random draws, equal to `torch.multinomial` on a CPU.
//!
//! One draw from probabilities `p` is the largest `p / q`, where each `q` is exponentially
//! distributed: a race in which token `i` runs at speed `p_i` on a track of random length.
//!
//! Source: ATen `multinomial` (its path for one sample) and `exponential_distribution<double>`.
//! Measured with torch 2.15 on x86: each token of the vocabulary, even a forbidden one, consumes 53
//! bits, that is two numbers of the generator, with any number of threads.

use super::twister::Twister;

/// Random generator of one answer.
#[derive(Debug, Clone)]
pub struct Draws {
    generator: Twister,
    vocabulary: u32,
}

impl Draws {
    /// Starts as `torch.manual_seed(seed)`, which uses the low 32 bits.
    ///
    /// `vocabulary` is the number of all tokens of the network. A draw among fewer tokens skips the
    /// numbers of the others, so the network need not score forbidden tokens.
    pub fn new(seed: u64, vocabulary: usize) -> Self {
        Self { generator: Twister::new(seed as u32), vocabulary: vocabulary as u32 }
    }

    /// Skips a whole draw, for a token that is certain.
    pub fn skip(&mut self) {
        self.discard(self.vocabulary);
    }

    /// Draws the winner of `runners`, which are tokens and speeds in ascending order of tokens; the
    /// first one on a tie. A token with speed 0 never wins.
    pub fn race(&mut self, runners: impl Iterator<Item = (u32, f32)>) -> Option<u32> {
        let mut best = (0.0, None);
        let mut drawn = 0;
        for (token, speed) in runners.filter(|&(_, speed)| speed > 0.0) {
            self.discard(token.saturating_sub(drawn));
            drawn = token.saturating_add(1);
            // The time -ln(1 - u) is at least u, so most runners are too late without a logarithm.
            // The margin exceeds the effect of the two roundings to f32 below.
            let u = uniform53(self.generator.next_u32(), self.generator.next_u32());
            if u * f64::from(best.0) > f64::from(speed) * (1.0 + 1e-6) {
                continue;
            }
            let time = exponential(u);
            if speed / time > best.0 {
                best = (speed / time, Some(token));
            }
        }
        self.discard(self.vocabulary.saturating_sub(drawn));
        best.1
    }

    /// Draws from `probabilities`, one for each of all tokens; `None` if all are 0. One generator may
    /// draw from lists of different lengths in turn.
    pub fn draw(&mut self, probabilities: &[f32]) -> Option<u32> {
        self.vocabulary = probabilities.len() as u32;
        self.race(probabilities.iter().zip(0..).map(|(&speed, token)| (token, speed)))
    }

    /// Fills `times` with the exponential numbers `q` of a whole draw among as many tokens, for a device that compares
    /// `p / q` itself.
    pub fn exponentials(&mut self, times: &mut [f32]) {
        for time in times {
            *time = exponential(uniform53(self.generator.next_u32(), self.generator.next_u32()));
        }
    }

    /// Skips the numbers of `tokens` tokens.
    fn discard(&mut self, tokens: u32) {
        self.generator.discard(2 * u64::from(tokens));
    }
}

/// Returns an exponentially distributed number from a uniform one.
fn exponential(u: f64) -> f32 {
    -(-u).ln_1p() as f32
}

/// Returns a 53-bit uniform number in `[0, 1)` from two 32-bit ones, as `torch.rand` in f64.
pub fn uniform53(high: u32, low: u32) -> f64 {
    let bits = (u64::from(high) << 32 | u64::from(low)) & ((1 << 53) - 1);
    bits as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponentials_decide_as_draws_and_use_as_many_numbers() {
        let (mut drawn, mut listed) = (Draws::new(3, 9), Draws::new(3, 9));
        let probabilities: Vec<f32> = (1..=9).map(|i| i as f32 / 45.0).collect();
        let mut winners = Vec::new();
        for _ in 0..50 {
            let (mut times, mut best) = ([0.0; 9], (0.0, None));
            listed.exponentials(&mut times);
            for ((p, q), id) in probabilities.iter().zip(times).zip(0..) {
                if p / q > best.0 {
                    best = (p / q, Some(id));
                }
            }
            assert_eq!(drawn.draw(&probabilities), best.1);
            winners.push(best.1);
        }
        winners.sort_unstable();
        winners.dedup();
        assert!(winners.len() > 3, "{winners:?}");
    }
}
