//! Logits of tokens that cannot be used.

/// A reason why no token can be chosen from logits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what most fields hold")]
pub enum ScoreError {
    /// A logit is NaN.
    #[error("the score of token {token} is not a number")]
    NotANumber { token: u32 },
    /// A logit is infinite, or becomes infinite when divided by the temperature.
    #[error("the score of token {token} is infinite")]
    Infinite { token: u32 },
    /// Every token is forbidden.
    #[error("no token may come next")]
    NothingAllowed,
}
