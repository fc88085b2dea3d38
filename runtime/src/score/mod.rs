//! How good a song is, as far as the models themselves can tell, so that the best of a batch comes
//! first.
//!
//! | module | what |
//! |---|---|
//! | [`alignment`] | whether the words can be followed in it, by the transformer's attention |
//! | [`language`] | whether the language model hears in its outline what was asked for |
//!
//! Source: upstream `dit_alignment_score.py` and `core/scoring/lm_score.py`.

pub mod alignment;
pub mod language;
