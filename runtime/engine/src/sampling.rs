//! From logits to one token.
//!
//! Repetition penalty, top-k, top-p, temperature, one draw. The functions stand alone, so that a
//! model family can apply them in the order of its reference.

mod draws;
mod filters;
mod scores;
mod twister;

use rayon::prelude::*;

pub use draws::{Draws, uniform53};
pub use filters::{guide, keep_top_k, keep_top_p, penalise};
pub use scores::{ScoreError, Scores, TokenMap};

/// Sampling settings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampler {
    /// Sampling temperature; 0 or less is greedy.
    pub temperature: f32,
    /// Number of most likely tokens to sample from.
    pub top_k: Option<usize>,
    /// Probability mass of the most likely tokens to sample from.
    pub top_p: Option<f32>,
    /// Penalty for tokens that were written before; 1 = none.
    pub repetition_penalty: f32,
}

impl Sampler {
    /// Returns the next token, after all filters of this sampler.
    ///
    /// `history` is the prompt and the tokens written so far.
    ///
    /// # Errors
    /// If a score is NaN or infinite, or all tokens are forbidden.
    pub fn choose(
        &self,
        scores: &mut Scores,
        history: &[u32],
        draws: &mut Draws,
    ) -> Result<u32, ScoreError> {
        // NaN has no order, so check before the filters.
        scores.check()?;
        // ANCHOR: choose
        if self.repetition_penalty != 1.0 {
            penalise(scores, history, self.repetition_penalty);
        }
        if let Some(k) = self.top_k {
            keep_top_k(scores, k);
        }
        if let Some(p) = self.top_p {
            keep_top_p(scores, p);
        }
        self.pick(scores, draws)
        // ANCHOR_END: choose
    }

    /// Returns the next token with temperature only: the draw of `torch.multinomial` on a CPU.
    ///
    /// # Errors
    /// If a score is NaN or infinite, or all tokens are forbidden.
    pub fn pick(&self, scores: &Scores, draws: &mut Draws) -> Result<u32, ScoreError> {
        scores.check()?;
        let best = scores.best().ok_or(ScoreError::NothingAllowed)?;
        if self.temperature <= 0.0 {
            return Ok(best);
        }
        // The filters leave few tokens.
        let allowed = scores.logits.iter().copied().zip(0..);
        let (logits, mut tokens): (Vec<f32>, Vec<u32>) = allowed
            .filter(|&(logit, _)| logit > f32::NEG_INFINITY)
            .map(|(logit, index)| (logit, scores.token(index)))
            .unzip();
        // Fails only for a huge score or a tiny temperature.
        let mut probabilities =
            softmax(&logits, self.temperature).ok_or(ScoreError::Infinite { token: best })?;
        if let TokenMap::CodesAndEnd { end, first_code } = scores.tokens
            && end > first_code
            && tokens.first() == Some(&end)
        {
            tokens.rotate_left(1);
            probabilities.rotate_left(1);
        }
        // The most likely token has a probability above 0, so there is always a winner.
        Ok(draws.race(tokens.into_iter().zip(probabilities)).unwrap_or(best))
    }

    /// [`Self::choose`] for the songs of a batch: scores, history and draws of each.
    pub fn choose_all(
        &self,
        songs: Vec<(&mut Scores, &[u32], &mut Draws)>,
    ) -> Vec<Result<u32, ScoreError>> {
        let choose = |(scores, history, draws): (&mut Scores, &[u32], &mut Draws)| {
            self.choose(scores, history, draws)
        };
        songs.into_par_iter().map(choose).collect()
    }
}

/// Logits of a work item, at least: about 10 us of work.
const LEAST: usize = 1 << 12;

/// Returns the largest of the logits, minus infinity if there are none.
fn largest(logits: &[f32]) -> f32 {
    // A single maximum would wait for the comparison before.
    let (blocks, rest) = logits.as_chunks::<16>();
    let mut most = [f32::NEG_INFINITY; 16];
    for block in blocks {
        for (most, &logit) in most.iter_mut().zip(block) {
            *most = if logit > *most { logit } else { *most };
        }
    }
    most.iter().chain(rest).copied().fold(f32::NEG_INFINITY, f32::max)
}

/// Returns the probabilities of `logits / temperature`; `None` if the largest is not finite.
///
/// Computed in f32 as in torch, but summed in f64: torch's sum depends on the CPU's vector width.
pub fn softmax(logits: &[f32], temperature: f32) -> Option<Vec<f32>> {
    let largest = largest(logits) / temperature;
    if !largest.is_finite() {
        return None;
    }
    let value = |score: f32| {
        // Most tokens are forbidden; this saves their exponential.
        if score == f32::NEG_INFINITY { 0.0 } else { (score / temperature - largest).exp() }
    };
    let logits = logits.par_iter().with_min_len(LEAST);
    let mut values: Vec<f32> = logits.map(|&score| value(score)).collect();
    let sum = values.iter().map(|&value| f64::from(value)).sum::<f64>() as f32;
    values.iter_mut().for_each(|value| *value /= sum);
    Some(values)
}
