//! The language model: prefill of a prompt, and decoding of audio codes with and without guidance.

use acestep_engine::{
    host::to_host,
    sampling::{Draws, Sampler, ScoreError, Scores, TokenMap, guide},
};
use acestep_model::{Backend, Place, qwen3};
use anyhow::Result;
use burn::tensor::Tensor;

use super::{cost, sizes::LanguageSizes};
use crate::measure::{
    Rate, Run,
    clock::{self, wait},
    weights::random_weights,
};

/// Tokens of a typical prompt with lyrics and a plan.
pub(crate) const PROMPT: usize = 256;

const CODES_PER_SECOND: f64 = 5.0;

/// Tokens that can be sampled while codes are written: the end token, and the codes.
const END: usize = 151_645;
pub(crate) const CODES: std::ops::Range<usize> = 151_669..215_669;

/// The default settings of a plan.
const SAMPLER: Sampler =
    Sampler { temperature: 0.85, top_k: None, top_p: Some(0.9), repetition_penalty: 1.0 };
const GUIDANCE: f32 = 2.0;

/// Measures a prompt of [`PROMPT`] tokens.
pub(crate) fn prefill<B: Backend>(sizes: LanguageSizes, place: &Place<B>) -> Result<Run> {
    let (config, device) = (sizes.config()?, &place.device);
    let model = random_weights(qwen3::Causal::<B>::init(&config, device), place.dtype);
    let mut cache = config.cache(1, PROMPT, place);
    let work = || {
        cache.truncate(0, 0);
        let hidden = model.read(&prompt(PROMPT), 0, &mut cache, device);
        finish(&model, hidden);
    };
    let time = clock::time(work, || wait::<B>(device));
    Ok(Run {
        unit: format!("{PROMPT} tokens"),
        cost: cost::qwen3(&config, 1, PROMPT, 0) + cost::head(&config, 1, CODES.len() + 1),
        time,
        rate: Rate::per_second(PROMPT, "tokens/s", time),
    })
}

/// Measures one more code in the middle of the song, with its draw, for `rows` sequences in one pass: the
/// second one is unconditional.
pub(crate) fn decode<B: Backend>(
    sizes: LanguageSizes,
    rows: usize,
    seconds: f64,
    place: &Place<B>,
) -> Result<Run> {
    let (config, device) = (sizes.config()?, &place.device);
    let model = random_weights(qwen3::Causal::<B>::init(&config, device), place.dtype);
    let before = middle(seconds);
    let mut cache = config.cache(rows, before + 1, place);
    for row in 0..rows {
        model.read(&prompt(before), row, &mut cache, device);
    }
    let tokens = vec![CODES.start as u32; rows];
    let mut draws = Draws::new(0, model.vocabulary());
    let mut work = || {
        (0..rows).for_each(|row| cache.truncate(row, before));
        let hidden = model.step(&tokens, 0..rows, &mut cache, device);
        draw(&to_host(model.scores(hidden, &[END..END + 1, CODES])), &mut draws)
    };
    work()?;
    let time = clock::time(work, || wait::<B>(device));
    Ok(Run {
        unit: format!("1 code after {before} tokens x {rows}"),
        cost: cost::qwen3(&config, rows, 1, before) + cost::head(&config, rows, CODES.len() + 1),
        time,
        rate: Rate::per_second(1, "codes/s", time),
    })
}

/// Returns the number of tokens before the code in the middle of the song.
pub(crate) fn middle(seconds: f64) -> usize {
    PROMPT + (seconds * CODES_PER_SECOND / 2.0) as usize
}

/// Draws a code from the logits of one sequence, or of a second one without the condition, as a plan does.
fn draw(logits: &[f32], draws: &mut Draws) -> Result<u32, ScoreError> {
    let tokens = TokenMap::CodesAndEnd { end: END as u32, first_code: CODES.start as u32 };
    let (first, second) = logits.split_at(CODES.len() + 1);
    let of = |row: &[f32]| Scores { logits: row.to_vec(), tokens };
    let mut scores = of(first);
    if !second.is_empty() {
        guide(&mut scores, &of(second), GUIDANCE);
    }
    scores.check()?;
    scores.forbid(END as u32);
    SAMPLER.choose(&mut scores, &[], draws)
}

/// Copies the logits to the host, as the sampling of a token does.
fn finish<B: Backend>(model: &qwen3::Causal<B>, hidden: Tensor<B, 2>) {
    drop(model.scores(hidden, &[END..END + 1, CODES]).into_data());
}

fn prompt(length: usize) -> Vec<u32> {
    (0..length as u32).map(|i| i * 389 % 150_000).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Guidance at scale 2 gives code 5 `0 + 2 (30 - 0) = 60`, and code 7 `40 + 2 (40 - 40) = 40`.
    #[test]
    fn a_code_is_drawn_with_guidance_and_is_not_the_end() {
        let row = |five: f32| {
            let mut logits = vec![0.0; CODES.len() + 1];
            (logits[0], logits[1 + 5], logits[1 + 7]) = (100.0, five, 40.0);
            logits
        };
        let mut draws = Draws::new(0, CODES.end);
        let code = |number: usize| Ok((CODES.start + number) as u32);
        assert_eq!(draw(&row(30.0), &mut draws), code(7));
        assert_eq!(draw(&[row(30.0), row(0.0)].concat(), &mut draws), code(5));
    }
}
