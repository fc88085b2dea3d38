//! From logits to one token.
//!
//! Guidance, the rules of [`constrain`](super::constrain), repetition penalty, top-k, top-p,
//! temperature, one draw: the order of upstream's PyTorch backend (`_run_pt_single`). Its other
//! backend ignores `top_p`, `repetition_penalty` and seeds.

mod draws;
mod filters;
mod scores;
mod twister;

pub use draws::Draws;
pub use filters::{guide, keep_top_k, keep_top_p, penalise};
pub use scores::{ScoreError, Scores, Tokens};

use super::constrain::Phase;

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
        // Fails only for a huge score or a tiny temperature.
        let probabilities = softmax(&scores.logits, self.temperature)
            .ok_or(ScoreError::Infinite { token: best })?;
        let runner = |(index, &speed): (usize, &f32)| (scores.token(index), speed);
        let drawn = match scores.tokens {
            Tokens::CodesAndEnd { end, first_code } if end > first_code => {
                let (end, codes) = probabilities.split_at(1);
                let codes = codes.iter().zip(first_code..).map(|(&speed, token)| (token, speed));
                draws.race(codes.chain(end.iter().map(|&speed| (scores.token(0), speed))))
            }
            Tokens::All | Tokens::CodesAndEnd { .. } => {
                draws.race(probabilities.iter().enumerate().map(runner))
            }
        };
        // The most likely token has a probability above 0, so there is always a winner.
        Ok(drawn.unwrap_or(best))
    }
}

/// Returns the probabilities of `logits / temperature`; `None` if the largest is not finite.
///
/// Computed in f32 as in torch, but summed in f64: torch's sum depends on the CPU's vector width.
pub fn softmax(logits: &[f32], temperature: f32) -> Option<Vec<f32>> {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max) / temperature;
    if !largest.is_finite() {
        return None;
    }
    let value = |score: f32| {
        // Most tokens are forbidden; this saves their exponential.
        if score == f32::NEG_INFINITY { 0.0 } else { (score / temperature - largest).exp() }
    };
    let mut values: Vec<f32> = logits.iter().map(|&score| value(score)).collect();
    let sum = values.iter().map(|&value| f64::from(value)).sum::<f64>() as f32;
    values.iter_mut().for_each(|value| *value /= sum);
    Some(values)
}

/// Returns the limit on an answer's tokens; upstream's `_compute_max_new_tokens`.
///
/// With a duration: its codes, for 10 s to `max_seconds`, plus room for the plan. In the codes phase
/// there is room for slightly more than the end token instead. Without one: `fallback`, or the
/// model's length, but at most that of the longest song. A short prompt always fits too.
pub fn max_new_tokens(
    target_seconds: Option<f64>,
    phase: Phase,
    fallback: Option<usize>,
    max_model_len: usize,
    max_seconds: u32,
) -> usize {
    const CODES_PER_SECOND: f64 = 5.0;
    const LONGEST_SONG: usize = 600 * 5 + 500;
    let room = max_model_len.saturating_sub(64);
    let wanted = match target_seconds {
        Some(seconds) if seconds > 0.0 => {
            let seconds = seconds.min(f64::from(max_seconds)).max(10.0);
            let codes = (seconds * CODES_PER_SECOND) as usize;
            match phase {
                Phase::Codes => codes + 10,
                Phase::Cot | Phase::Understand => codes + 500,
            }
        }
        Some(_) | None => fallback.unwrap_or(room).min(LONGEST_SONG),
    };
    wanted.min(room)
}

#[cfg(test)]
mod tests;
