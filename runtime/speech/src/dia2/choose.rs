//! From logits to one id: guidance as a filter of candidates, then temperature, top-k and one draw.
//!
//! ```text
//! g = u + scale (c - u)       an id stays if g is among the filter_k largest
//! ```
//!
//! The draw is from the conditional logits: guided values only say which ids may be drawn.
//!
//! Source: nari-labs/dia2 at 8687268, `runtime/guidance.py` and `runtime/sampler.py`.

use std::fmt;

use acestep_engine::sampling::{Draws, ScoreError, Scores, TokenMap, guide, keep_top_k, softmax};

/// Lowest temperature of a draw.
const LEAST_TEMPERATURE: f32 = 1e-6;

/// Classifier-free guidance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Guidance {
    /// The scale; 1 needs no unconditional row.
    pub scale: f32,
    /// Number of candidates; 0 for all.
    pub filter_k: usize,
}

impl Guidance {
    /// The number of rows that the networks read: 2 with guidance.
    pub fn rows(&self) -> usize {
        if self.scale == 1.0 { 1 } else { 2 }
    }

    /// Returns the conditional logits, with minus infinity for ids that are no candidates. Ids that
    /// are equal to the last candidate stay.
    ///
    /// # Errors
    /// If a logit is NaN or infinite.
    ///
    /// # Panics
    /// If there are not as many rows as [`Self::rows`].
    pub fn candidates(&self, mut rows: Vec<Vec<f32>>) -> Result<Vec<f32>, ScoreError> {
        assert!(rows.len() >= self.rows(), "{} rows of {}", rows.len(), self.rows());
        rows.truncate(self.rows());
        for row in &rows {
            match row.iter().position(|logit| !logit.is_finite()) {
                None => (),
                Some(at) if row[at].is_nan() => {
                    return Err(ScoreError::NotANumber { token: at as u32 });
                }
                Some(at) => return Err(ScoreError::Infinite { token: at as u32 }),
            }
        }
        let mut rows = rows.into_iter().map(|logits| Scores { logits, tokens: TokenMap::All });
        let conditional = rows.next().expect("at least one row");
        let Some(unconditional) = rows.next() else { return Ok(conditional.logits) };
        let mut guided = conditional.clone();
        guide(&mut guided, &unconditional, self.scale);
        keep_top_k(&mut guided, self.filter_k);
        let keep = |(logit, guided): (f32, f32)| match guided == f32::NEG_INFINITY {
            true => f32::NEG_INFINITY,
            false => logit,
        };
        Ok(conditional.logits.into_iter().zip(guided.logits).map(keep).collect())
    }
}

/// Source of random draws.
pub trait Drawing: fmt::Debug {
    /// Returns the index of one of `probabilities`, which sum to 1.
    fn draw(&mut self, probabilities: &[f32]) -> usize;
}

/// Draws as those of `torch.multinomial` on a CPU.
impl Drawing for Draws {
    fn draw(&mut self, probabilities: &[f32]) -> usize {
        Self::draw(self, probabilities).map_or(0, |index| index as usize)
    }
}

/// Draws by given uniform numbers, to repeat those of the reference.
#[derive(Debug, Clone)]
pub struct Uniforms<I>(pub I);

impl<I: Iterator<Item = f32> + fmt::Debug> Drawing for Uniforms<I> {
    /// Returns the first index whose sum of probabilities is above the next number.
    ///
    /// # Panics
    /// If there are no more numbers.
    fn draw(&mut self, probabilities: &[f32]) -> usize {
        let uniform = self.0.next().expect("a number for each draw");
        let mut sum = 0.0;
        let above = probabilities.iter().position(|probability| {
            sum += probability;
            sum > uniform
        });
        let last = || probabilities.iter().rposition(|&probability| probability > 0.0);
        above.or_else(last).unwrap_or_default()
    }
}

/// Settings of one draw.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DrawSettings {
    /// Divisor of the logits; 0 for the likeliest id.
    pub temperature: f32,
    /// Number of likeliest ids to draw from; 0 for all.
    pub top_k: usize,
}

impl DrawSettings {
    /// Returns one id.
    pub fn choose(&self, logits: &[f32], drawing: &mut dyn Drawing) -> u32 {
        if self.temperature <= 0.0 {
            return likeliest(logits);
        }
        let temperature = self.temperature.max(LEAST_TEMPERATURE);
        // As upstream, logits that are all too low to be divided give id 0.
        let Some(probabilities) = softmax(logits, temperature) else { return 0 };
        if self.top_k == 0 || self.top_k >= logits.len() {
            return drawing.draw(&probabilities) as u32;
        }
        let mut order: Vec<usize> = (0..probabilities.len()).collect();
        order.sort_by(|&a, &b| probabilities[b].total_cmp(&probabilities[a]));
        order.truncate(self.top_k);
        let mut kept: Vec<f32> = order.iter().map(|&index| probabilities[index]).collect();
        let sum: f32 = kept.iter().sum();
        kept.iter_mut().for_each(|probability| *probability /= sum);
        order[drawing.draw(&kept)] as u32
    }
}

/// Returns the first id of the largest logit.
fn likeliest(logits: &[f32]) -> u32 {
    let mut best = 0;
    for (id, &logit) in logits.iter().enumerate() {
        if logit > logits[best] {
            best = id;
        }
    }
    best as u32
}

/// Bans ids of the first codebook that are no codes. As upstream, by the lowest finite number: one of
/// them is drawn if nothing else is a candidate.
pub fn ban(logits: &mut [f32], ids: &[u32]) {
    for &id in ids {
        if let Some(logit) = logits.get_mut(id as usize) {
            *logit = f32::MIN;
        }
    }
}

// `verify` compares candidates and draws with the reference: `tests/proof/src/families/dia2/guidance.rs`.
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_temperature_the_first_of_the_largest_is_chosen_and_nothing_is_drawn() {
        let mut drawing = Uniforms(std::iter::empty());
        let sampling = DrawSettings { temperature: 0.0, top_k: 1 };
        assert_eq!(sampling.choose(&[1.0, 3.0, 3.0, f32::NEG_INFINITY], &mut drawing), 1);
        assert_eq!(sampling.choose(&[f32::NEG_INFINITY, f32::MIN, f32::MIN], &mut drawing), 1);
    }

    #[test]
    fn logits_that_are_nan_are_named() {
        let guidance = Guidance { scale: 2.0, filter_k: 0 };
        let of = |bad: f32| guidance.candidates(vec![vec![0.0, 1.0], vec![0.0, bad]]);
        assert_eq!(of(f32::NAN), Err(ScoreError::NotANumber { token: 1 }));
        assert_eq!(of(f32::INFINITY), Err(ScoreError::Infinite { token: 1 }));
        assert!(of(3.0).is_ok());
    }

    #[test]
    fn a_scale_of_one_takes_the_first_row() {
        let guidance = Guidance { scale: 1.0, filter_k: 1 };
        assert_eq!(guidance.rows(), 1);
        assert_eq!(guidance.candidates(vec![vec![0.0, 1.0]]), Ok(vec![0.0, 1.0]));
        let both = vec![vec![0.0, 1.0], vec![9.0, 9.0]];
        assert_eq!(guidance.candidates(both), Ok(vec![0.0, 1.0]));
    }

    #[test]
    fn a_seed_repeats_and_stays_among_the_likeliest() {
        let logits: Vec<f32> = (0..40).map(|id| (id * 7 % 40) as f32 / 4.0).collect();
        let sampling = DrawSettings { temperature: 1.0, top_k: 4 };
        let picks = |seed| -> Vec<u32> {
            let mut draws = Draws::new(seed, 1);
            (0..60).map(|_| sampling.choose(&logits, &mut draws)).collect()
        };
        assert_eq!(picks(3), picks(3));
        assert_ne!(picks(3), picks(4));
        // 7 * 17 is 39 modulo 40, 7 * 34 is 38, 7 * 11 is 37, 7 * 28 is 36.
        assert!(picks(3).iter().all(|id| [17, 34, 11, 28].contains(id)), "{:?}", picks(3));
    }
}
