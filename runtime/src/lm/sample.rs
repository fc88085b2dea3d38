//! Scores to one token.
