//! From logits to one code, in upstream's order.
//!
//! Repetition penalty, no end before the second code, no id that is not a code; then, only when
//! sampling: temperature, top-k, top-p, one draw. Penalty and bans apply to the likeliest code too.
//!
//! Source: transformers 4.57 `generation/logits_process.py`, with upstream's `suppress_tokens`.

use acestep_engine::sampling::{
    Draws, ScoreError, Scores, TokenMap, keep_top_k, penalise, softmax,
};
use acestep_model::speech::qwen3_tts::{GenerationConfig, SPECIAL_IDS};

/// First codes that are written before the end is allowed.
const LEAST_TOKENS: usize = 2;

/// Settings of one draw.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Filters {
    /// False: the likeliest code.
    pub do_sample: bool,
    /// Divisor of the logits.
    pub temperature: f32,
    /// Number of likeliest codes to draw from; 0 for all.
    pub top_k: usize,
    /// Probability mass of the likeliest codes to draw from; 1 or more for all.
    pub top_p: f32,
}

impl Filters {
    /// The settings of the talker.
    pub fn of_talker(config: &GenerationConfig) -> Self {
        Self {
            do_sample: config.do_sample,
            temperature: config.temperature,
            top_k: config.top_k,
            top_p: config.top_p,
        }
    }

    /// The settings of the code predictor.
    pub fn of_predictor(config: &GenerationConfig) -> Self {
        Self {
            do_sample: config.subtalker_dosample,
            temperature: config.subtalker_temperature,
            top_k: config.subtalker_top_k,
            top_p: config.subtalker_top_p,
        }
    }

    /// Returns temperature and top-k for [`acestep_model::kernel::draw`]; `None` with top-p, which it lacks. The
    /// likeliest code is a draw from one code, with equal exponentials.
    pub fn on_device(&self) -> Option<(f32, usize)> {
        match self.do_sample {
            true if self.top_p >= 1.0 => Some((self.temperature, self.top_k)),
            true => None,
            false => Some((1.0, 1)),
        }
    }

    /// Returns one code.
    ///
    /// # Errors
    /// If a score is NaN or infinite, or all codes are banned.
    pub fn choose(&self, logits: Vec<f32>, draws: &mut Draws) -> Result<u32, ScoreError> {
        let mut scores = Scores { logits, tokens: TokenMap::All };
        scores.check()?;
        let best = scores.best().ok_or(ScoreError::NothingAllowed)?;
        if !self.do_sample {
            return Ok(best);
        }
        self.filter(&mut scores);
        let likeliest = ScoreError::Infinite { token: best };
        let probabilities = softmax(&scores.logits, 1.0).ok_or(likeliest)?;
        // The likeliest code has a probability above 0, so there is always a winner.
        Ok(draws.draw(&probabilities).unwrap_or(best))
    }

    /// Applies temperature, top-k and top-p.
    pub fn filter(&self, scores: &mut Scores) {
        if self.temperature != 1.0 {
            scores.logits.iter_mut().for_each(|score| *score /= self.temperature);
        }
        keep_top_k(scores, self.top_k);
        keep_top_p(scores, self.top_p);
    }
}

// ANCHOR: restrict
/// Penalises codes that were written before, and bans the end before the second code and every id
/// that is not a code.
pub fn restrict(logits: &mut Vec<f32>, history: &[u32], penalty: f32, end: u32) {
    let mut scores = Scores { logits: std::mem::take(logits), tokens: TokenMap::All };
    if penalty != 1.0 {
        penalise(&mut scores, history, penalty);
    }
    let end_score = match history.len() < LEAST_TOKENS {
        true => f32::NEG_INFINITY,
        false => scores.of(end),
    };
    let codes = scores.logits.len().saturating_sub(SPECIAL_IDS);
    scores.logits[codes..].fill(f32::NEG_INFINITY);
    if let Some(score) = scores.logits.get_mut(end as usize) {
        *score = end_score;
    }
    *logits = scores.logits;
}
// ANCHOR_END: restrict

/// Keeps the likeliest codes: drops a code if it and all less likely ones have at most `1 - p` of the
/// probability. The likeliest code always stays. `p` of 1 or more keeps everything.
///
/// The engine's function of this name has another rule for a code at the edge.
fn keep_top_p(scores: &mut Scores, p: f32) {
    if p >= 1.0 {
        return;
    }
    let Some(probabilities) = softmax(&scores.logits, 1.0) else { return };
    let mut order: Vec<usize> = (0..probabilities.len()).collect();
    order.sort_by(|&a, &b| scores.logits[a].total_cmp(&scores.logits[b]));
    order.pop();
    let mut sum = 0.0;
    for index in order {
        sum += probabilities[index];
        if sum > 1.0 - p {
            break;
        }
        scores.logits[index] = f32::NEG_INFINITY;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(logits: &[f32], filters: &Filters) -> Vec<usize> {
        let mut scores = Scores { logits: logits.to_vec(), tokens: TokenMap::All };
        filters.filter(&mut scores);
        (0..logits.len()).filter(|&i| scores.logits[i] > f32::NEG_INFINITY).collect()
    }

    #[test]
    fn the_end_comes_after_the_second_code_and_other_marks_never() {
        let logits = vec![1.0; 2 + SPECIAL_IDS];
        let end = 5;
        for (history, allowed) in
            [(&[][..], vec![0, 1]), (&[0], vec![0, 1]), (&[0, 0], vec![0, 1, 5])]
        {
            let mut logits = logits.clone();
            restrict(&mut logits, history, 1.0, end);
            let left: Vec<_> = (0..logits.len()).filter(|&i| logits[i].is_finite()).collect();
            assert_eq!(left, allowed, "{history:?}");
        }
    }

    #[test]
    fn a_code_is_penalised_once_in_both_directions() {
        let mut logits = vec![3.0, -1.0, 2.0];
        logits.extend([0.0; SPECIAL_IDS]);
        restrict(&mut logits, &[0, 0, 1], 1.5, 10);
        assert_eq!(logits[..3], [2.0, -1.5, 2.0]);
    }

    /// e^2 and e^1 and e^0 over their sum: 0.665, 0.245, 0.090.
    #[test]
    fn top_p_follows_the_temperature_and_leaves_one() {
        let logits = [1.0, 2.0, 0.0];
        let of = |temperature, top_p| {
            kept(&logits, &Filters { do_sample: true, temperature, top_k: 0, top_p })
        };
        assert_eq!(of(1.0, 0.9), [0, 1]);
        assert_eq!(of(1.0, 0.92), [0, 1, 2]);
        assert_eq!(of(1.0, 0.0), [1]);
        assert_eq!(of(1.0, 1.5), [0, 1, 2]);
        // Half the temperature: 0.867, 0.117, 0.016.
        assert_eq!(of(0.5, 0.8), [1]);
    }
}
