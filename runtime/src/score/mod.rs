//! Scores songs with the models themselves, so that the best of a batch can be sorted first.
//!
//! | module | content |
//! |---|---|
//! | [`alignment`] | alignment between words and song, from the transformer's attention |
//! | [`language`] | match between request and audio codes, from the language model |
//!
//! Source: upstream `dit_alignment_score.py` and `core/scoring/lm_score.py`.

pub mod alignment;
pub mod language;
