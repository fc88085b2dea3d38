//! From logits to one code.
//!
//! Guidance, the state of the text, forbidden ids, top-k, temperature, one draw.
//!
//! Source: NeMo 3.0.0, `magpietts.py`: `sample_codes_from_logits`, `clear_forbidden_logits`;
//! `magpietts_modules.py`, `sample_autoregressive`.

use acestep_engine::sampling::{Draws, ScoreError, Scores, TokenMap, keep_top_k, softmax};

/// Ids behind the codes: begin, end, two of the context, mask, and three without use.
pub const SPECIAL_IDS: usize = 8;

/// Codes that the state of the text forbids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextState {
    /// Nothing.
    Open,
    /// Text is left, so the end is forbidden.
    Unfinished,
    /// The text is spoken, so everything but the end is forbidden.
    Spoken,
}

/// Settings of one draw.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DrawSettings {
    /// Divisor of the logits; 0 for the likeliest code.
    pub temperature: f32,
    /// Number of likeliest codes to draw from; codes equal to the last one count too.
    pub top_k: usize,
}

/// Source of the random numbers.
#[derive(Debug, Clone)]
pub enum RandomSource {
    /// PyTorch's generator on a CPU.
    Seeded(Box<Draws>),
    /// Times of a race, one for each id of each draw in turn: tests follow the reference with them.
    Given(std::vec::IntoIter<f32>),
}

impl RandomSource {
    /// Draws from probabilities; `rows` is the number of rows that the reference draws for.
    fn draw(&mut self, probabilities: &[f32], rows: usize) -> Option<u32> {
        match self {
            Self::Seeded(draws) => {
                let drawn = draws.draw(probabilities);
                (1..rows).for_each(|_| draws.skip());
                drawn
            }
            Self::Given(times) => {
                let raced = probabilities.iter().zip(times).map(|(p, time)| p / time);
                let best =
                    (0..).zip(raced).reduce(|best, next| if next.1 > best.1 { next } else { best });
                best.map(|(code, _)| code)
            }
        }
    }

    /// Skips the draws of the likeliest codes, which the reference makes and does not use.
    pub(crate) fn skip_draws(&mut self, draws: usize) {
        if let Self::Seeded(generator) = self {
            (0..draws).for_each(|_| generator.skip());
        }
    }
}

/// Returns guided logits: `scale conditional + (1 - scale) unconditional`.
pub fn guide(conditional: &[f32], unconditional: &[f32], scale: f32) -> Vec<f32> {
    let pairs = conditional.iter().zip(unconditional);
    pairs.map(|(&with, &without)| scale * with + (1.0 - scale) * without).collect()
}

/// Forbids what the state of the text forbids, and every id that is not a code; the end too if
/// `forbids_end`.
pub fn restrict(logits: &mut [f32], text: TextState, forbids_end: bool) {
    let codes = logits.len() - SPECIAL_IDS;
    let end = codes + 1;
    match text {
        TextState::Open => {}
        TextState::Unfinished => logits[end] = f32::NEG_INFINITY,
        TextState::Spoken => {
            logits.fill(f32::NEG_INFINITY);
            logits[end] = 0.0;
        }
    }
    let score = logits[end];
    logits[codes..].fill(f32::NEG_INFINITY);
    if !forbids_end {
        logits[end] = score;
    }
}

/// Returns the likeliest code of restricted logits, the first one of equals.
///
/// # Errors
/// If a score is NaN or infinite, or nothing is allowed.
pub fn likeliest(logits: Vec<f32>) -> Result<u32, ScoreError> {
    let scores = Scores { logits, tokens: TokenMap::All };
    scores.check()?;
    scores.best().ok_or(ScoreError::NothingAllowed)
}

impl DrawSettings {
    /// Returns one code of restricted logits; `rows` is the number of rows that the reference draws
    /// for.
    ///
    /// # Errors
    /// If a score is NaN or infinite, or nothing is allowed.
    pub fn choose(
        self,
        logits: Vec<f32>,
        source: &mut RandomSource,
        rows: usize,
    ) -> Result<u32, ScoreError> {
        let mut scores = Scores { logits, tokens: TokenMap::All };
        scores.check()?;
        let best = scores.best().ok_or(ScoreError::NothingAllowed)?;
        if self.temperature <= 0.0 {
            return Ok(best);
        }
        keep_top_k(&mut scores, self.top_k);
        let infinite = ScoreError::Infinite { token: best };
        let probabilities = softmax(&scores.logits, self.temperature).ok_or(infinite)?;
        // The likeliest code has a probability above 0, so there is always a winner.
        Ok(source.draw(&probabilities, rows).unwrap_or(best))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::magpie::golden::logic;

    #[test]
    fn ids_that_are_no_codes_are_forbidden_as_in_the_reference() {
        let golden = logic("eos.json");
        for (forbids_end, name) in [(false, "False"), (true, "True")] {
            let mut logits = vec![0.0; 2024];
            restrict(&mut logits, TextState::Open, forbids_end);
            let forbidden = (0..2024).filter(|&id| logits[id] == f32::NEG_INFINITY);
            let forbidden: Vec<usize> = forbidden.collect();
            let expected = golden["forbidden_ids_at_2016"][name].clone();
            assert_eq!(serde_json::json!(forbidden), expected);
        }
    }

    #[test]
    fn the_state_of_the_text_forbids_the_end_or_everything_else() {
        let of = |text, forbids_end| {
            let mut logits = vec![1.0; 2 + SPECIAL_IDS];
            restrict(&mut logits, text, forbids_end);
            (0..logits.len()).filter(|&id| logits[id].is_finite()).collect::<Vec<_>>()
        };
        assert_eq!(of(TextState::Open, false), [0, 1, 3]);
        assert_eq!(of(TextState::Unfinished, false), [0, 1]);
        assert_eq!(of(TextState::Spoken, false), [3]);
        // As in the reference: nothing is left before the least length.
        assert_eq!(of(TextState::Spoken, true), [0; 0]);
    }

    #[test]
    fn codes_equal_to_the_last_of_top_k_can_be_drawn() {
        let sampling = DrawSettings { temperature: 1.0, top_k: 2 };
        let logits = vec![1.0, 3.0, 1.0, 0.0];
        let draw = |times: [f32; 4]| {
            let mut source = RandomSource::Given(Vec::from(times).into_iter());
            sampling.choose(logits.clone(), &mut source, 1).expect("a code")
        };
        // Probabilities 0.11, 0.79, 0.11 and none; the shortest time wins.
        assert_eq!(draw([1.0, 100.0, 0.1, 1e-9]), 2);
        assert_eq!(draw([0.1, 100.0, 0.1, 1e-9]), 0);
        assert_eq!(draw([1.0, 1.0, 1.0, 1e-9]), 1);
        let greedy = DrawSettings { temperature: 0.0, top_k: 2 };
        let mut nothing = RandomSource::Given(Vec::new().into_iter());
        assert_eq!(greedy.choose(logits.clone(), &mut nothing, 1), Ok(1));
    }

    #[test]
    fn guidance_goes_away_from_the_unconditional_logits() {
        assert_eq!(guide(&[1.0, -2.0], &[0.5, -1.0], 2.5), [1.75, -3.5]);
    }
}
