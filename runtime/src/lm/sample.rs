//! Scores to one token.
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

/// How a token is chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampler {
    /// Above 1 is wilder, below 1 tamer; 0 or less takes the likeliest.
    pub temperature: f32,
    /// Only the likeliest so many.
    pub top_k: Option<usize>,
    /// Only the likeliest that make up this part of the probability.
    pub top_p: Option<f32>,
    /// Above 1 makes less likely what was written; 1 changes nothing.
    pub repetition_penalty: f32,
}

impl Sampler {
    /// The next token, after everything that this sampler asks for.
    ///
    /// `history` is the prompt and what was written since.
    ///
    /// # Errors
    /// If a score is NaN or infinite, or all tokens are forbidden.
    pub fn choose(
        &self,
        scores: &mut Scores,
        history: &[u32],
        draws: &mut Draws,
    ) -> Result<u32, ScoreError> {
        // NaN has no place among the likeliest, so it is looked for before they are.
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

    /// The next token, by temperature alone: the draw that `torch.multinomial` makes on a CPU.
    ///
    /// # Errors
    /// If a score is NaN or infinite, or all tokens are forbidden.
    pub fn pick(&self, scores: &Scores, draws: &mut Draws) -> Result<u32, ScoreError> {
        scores.check()?;
        let best = scores.best().ok_or(ScoreError::NothingAllowed)?;
        if self.temperature <= 0.0 {
            return Ok(best);
        }
        // Only a huge score or a tiny temperature comes to this.
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
        // The likeliest has a probability above 0, so that someone always wins.
        Ok(drawn.unwrap_or(best))
    }
}

/// Probabilities of `logits / temperature`; none if the largest is not finite.
///
/// Computed in f32 as torch does, but summed in f64: torch's sum depends on the machine's vectors.
pub fn softmax(logits: &[f32], temperature: f32) -> Option<Vec<f32>> {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max) / temperature;
    if !largest.is_finite() {
        return None;
    }
    let value = |score: f32| {
        // Most are forbidden, and the exponential would not be free.
        if score == f32::NEG_INFINITY { 0.0 } else { (score / temperature - largest).exp() }
    };
    let mut values: Vec<f32> = logits.iter().map(|&score| value(score)).collect();
    let sum = values.iter().map(|&value| f64::from(value)).sum::<f64>() as f32;
    values.iter_mut().for_each(|value| *value /= sum);
    Some(values)
}

/// How many tokens an answer may have, at most; upstream's `_compute_max_new_tokens`.
///
/// With a duration: its codes, clamped to 10 s at least and `max_seconds` at most, and room for
/// the plan or, in the codes phase, a little more than the end. Without one: `fallback`, or the
/// model's length, but no more than the longest song has. Never so many that `max_model_len` could
/// not hold them and a short prompt.
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
