//! Scores (logits) of the tokens that may come next.

use std::ops::Range;

pub use crate::error::ScoreError;

/// Mapping from score index to token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenMap {
    /// Index `i` is token `i`.
    All,
    /// Index 0 is the end token, index `1 + n` is code `n`.
    ///
    /// The network then computes only a third of its last and largest matrix product.
    CodesAndEnd {
        /// The token that ends the answer.
        end: u32,
        /// The token of code 0.
        first_code: u32,
    },
}

/// One score for each token; minus infinity forbids a token.
#[derive(Debug, Clone, PartialEq)]
pub struct Scores {
    /// The scores, in the order of `tokens`.
    pub logits: Vec<f32>,
    /// Mapping from index to token.
    pub tokens: TokenMap,
}

impl Scores {
    /// Returns the token of the score at `index`.
    pub fn token(&self, index: usize) -> u32 {
        match (self.tokens, index as u32) {
            (TokenMap::All, token) => token,
            (TokenMap::CodesAndEnd { end, .. }, 0) => end,
            (TokenMap::CodesAndEnd { first_code, .. }, index) => first_code + (index - 1),
        }
    }

    /// Returns the index of the score of `token`, if it has one.
    pub fn index(&self, token: u32) -> Option<usize> {
        let index = match self.tokens {
            TokenMap::All => token as usize,
            TokenMap::CodesAndEnd { end, .. } if token == end => 0,
            TokenMap::CodesAndEnd { first_code, .. } => token.checked_sub(first_code)? as usize + 1,
        };
        (index < self.logits.len()).then_some(index)
    }

    /// Returns the score of `token`; minus infinity if it has none.
    pub fn of(&self, token: u32) -> f32 {
        self.index(token).map_or(f32::NEG_INFINITY, |index| self.logits[index])
    }

    /// Forbids every token but these.
    pub fn allow_only(&mut self, tokens: &[u32]) {
        let kept: Vec<_> =
            tokens.iter().filter_map(|&t| self.index(t)).map(|i| (i, self.logits[i])).collect();
        self.logits.fill(f32::NEG_INFINITY);
        for (index, score) in kept {
            self.logits[index] = score;
        }
    }

    /// Forbids one token.
    pub fn forbid(&mut self, token: u32) {
        if let Some(index) = self.index(token) {
            self.logits[index] = f32::NEG_INFINITY;
        }
    }

    /// Forbids the tokens of a range.
    pub fn forbid_all(&mut self, tokens: Range<u32>) {
        let last = self.logits.len();
        let (offset, first) = match self.tokens {
            TokenMap::All => (0, 0),
            TokenMap::CodesAndEnd { end, first_code } => {
                if tokens.contains(&end) {
                    self.forbid(end);
                }
                (1, first_code)
            }
        };
        let index = |token: u32| (token.saturating_sub(first) as usize + offset).min(last);
        let range = index(tokens.start)..index(tokens.end);
        self.logits.get_mut(range).unwrap_or_default().fill(f32::NEG_INFINITY);
    }

    /// Returns the most likely token, the first one on a tie; `None` if all are forbidden.
    pub fn best(&self) -> Option<u32> {
        let mut best = (f32::NEG_INFINITY, None);
        for (index, &score) in self.logits.iter().enumerate() {
            if score > best.0 {
                best = (score, Some(index));
            }
        }
        best.1.map(|index| self.token(index))
    }

    /// Checks that no score is NaN or plus infinity.
    ///
    /// Call this on the network's output, because a rule may forbid a token and hide its NaN.
    ///
    /// # Errors
    /// The first invalid score.
    pub fn check(&self) -> Result<(), ScoreError> {
        let is_invalid = |score: f32| score.is_nan() | (score == f32::INFINITY);
        // Without an end at the first, a CPU compares many at a time.
        if !self.logits.iter().fold(false, |any, &score| any | is_invalid(score)) {
            return Ok(());
        }
        match self.logits.iter().position(|&score| is_invalid(score)) {
            None => Ok(()),
            Some(index) if self.logits[index].is_nan() => {
                Err(ScoreError::NotANumber { token: self.token(index) })
            }
            Some(index) => Err(ScoreError::Infinite { token: self.token(index) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes() -> Scores {
        let tokens = TokenMap::CodesAndEnd { end: 7, first_code: 10 };
        Scores { logits: vec![0.5, 1.0, 3.0, 2.0], tokens }
    }

    #[test]
    fn scores_of_codes_know_their_tokens() {
        let scores = codes();
        assert_eq!([0, 1, 2, 3].map(|i| scores.token(i)), [7, 10, 11, 12]);
        for index in 0..4 {
            assert_eq!(scores.index(scores.token(index)), Some(index));
        }
        assert_eq!([0, 8, 9, 13, u32::MAX].map(|t| scores.index(t)), [None; 5]);
        assert_eq!(scores.best(), Some(11));
        assert_eq!(scores.of(12), 2.0);
        assert_eq!(scores.of(6), f32::NEG_INFINITY);
    }

    #[test]
    fn what_is_not_allowed_is_forbidden() {
        let mut scores = codes();
        scores.allow_only(&[12, 7, 99, 12]);
        assert_eq!(scores.logits, [0.5, f32::NEG_INFINITY, f32::NEG_INFINITY, 2.0]);
        scores.forbid_all(11..u32::MAX);
        assert_eq!(scores.best(), Some(7));
        scores.forbid_all(0..8);
        assert_eq!(scores.best(), None);
        let mut scores = codes();
        scores.forbid_all(0..11);
        assert_eq!(scores.logits, [f32::NEG_INFINITY, f32::NEG_INFINITY, 3.0, 2.0]);
        scores.forbid_all(8..10);
        assert_eq!(scores.logits[2..], [3.0, 2.0]);
        scores.allow_only(&[]);
        assert_eq!(scores.best(), None);

        let mut scores = Scores { logits: vec![1.0; 5], tokens: TokenMap::All };
        scores.forbid_all(3..u32::MAX);
        scores.forbid_all(9..12);
        scores.forbid(77);
        assert_eq!(scores.logits.iter().filter(|s| s.is_finite()).count(), 3);
        assert_eq!(scores.best(), Some(0));
    }

    #[test]
    fn nan_and_infinity_are_named() {
        let mut scores = codes();
        assert_eq!(scores.check(), Ok(()));
        scores.logits[0] = f32::NEG_INFINITY;
        assert_eq!(scores.check(), Ok(()));
        scores.logits[3] = f32::INFINITY;
        assert_eq!(scores.check(), Err(ScoreError::Infinite { token: 12 }));
        scores.logits[1] = f32::NAN;
        assert_eq!(scores.check(), Err(ScoreError::NotANumber { token: 10 }));
    }
}
