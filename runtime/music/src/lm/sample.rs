//! The settings with which the language model's tokens are drawn.
//!
//! Guidance, the rules of [`constrain`](super::constrain), then
//! [`Sampler::choose`](acestep_engine::sampling::Sampler::choose): the order of upstream's PyTorch
//! backend (`_run_pt_single`). Its other backend ignores `top_p`, `repetition_penalty` and seeds.

pub use acestep_engine::sampling::{
    Draws, Sampler, ScoreError, Scores, TokenMap, guide, keep_top_k, keep_top_p, penalise, softmax,
};

use super::constrain::Phase;

/// Returns the limit on an answer's tokens; upstream's `_compute_max_new_tokens`.
///
/// With a duration: its codes, for 10 s to `max_seconds`, plus room for the plan. In the codes phase
/// there is room for slightly more than the end token instead. Without one: `fallback`, or the
/// model's length, but at most the longest song's. A short prompt always fits too.
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
