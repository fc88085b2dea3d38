//! Effect of narrow weight types: single networks in each type, compared with f32 and bf16.

use std::{ops::Range, path::Path};

use acestep_engine::{
    BackendWork, Engine, Error,
    device::dtype::{Supported, name},
    host::to_host,
};
use acestep_import::{AceStep, LanguageModelDir, Layout};
use acestep_model::{Backend, LATENT_HZ, Place};
use acestep_music::flow::noise::NoiseSource;
use anyhow::{Context, Result};
use burn::tensor::{DType, Tensor, TensorData};

use super::songs;
use crate::{
    Host,
    rows::{Item, Line, Rounded, Tell},
};

/// Tokens of the condition, and of the prompt.
const HEARD: usize = 200;
const PROMPT: usize = 48;

/// Tokens that are sampled after the prompt.
const DRAWN: usize = 100;

pub(crate) fn items() -> Vec<Item> {
    let item = |name: &str| Item { name: name.to_owned(), group: 0 };
    vec![item("the diffusion transformer"), item("the language model")]
}

/// Compares one network in every type of the device.
///
/// # Errors
/// If it cannot be read, or the device fails.
pub(crate) fn run(
    index: usize,
    quick: bool,
    models: Option<&Path>,
    engine: Engine,
    host: &dyn Host,
    tell: &Tell,
) -> Result<()> {
    let network = items()[index].name.clone();
    // The widest type runs first: it determines the sampled tokens.
    let mut all = Supported::of(engine.device)?.all;
    all.sort_by_key(|dtype| std::cmp::Reverse(dtype.size()));
    if index == 0 {
        let folder = songs::model(models)?;
        let frames = if quick { 2 } else { 10 } * LATENT_HZ as usize;
        let of = |dtype| engine.device.run(dtype, Velocity { folder: &folder, frames });
        return compare(&network, &all, host, tell, |dtype| Ok((of(dtype)??, None)));
    }
    let folder = match models {
        None => acestep_import::open_tiny_language_model()?,
        Some(models) => {
            match acestep_import::open_language_model(None, &Layout::new([models.to_owned()])) {
                Ok(folder) => folder,
                Err(error) => {
                    tell(Line::Skipped(format!("{network}: {error}")));
                    return Ok(());
                }
            }
        }
    };
    let mut drawn = Vec::new();
    compare(&network, &all, host, tell, |dtype| {
        let writing = Writing { folder: &folder, tokens: drawn.clone() };
        let (scores, best) = engine.device.run(dtype, writing)??;
        if drawn.is_empty() {
            drawn.clone_from(&best);
        }
        let same = best.iter().zip(&drawn).filter(|(a, b)| a == b).count();
        Ok((scores, Some(same as f64 / best.len() as f64)))
    })
}

/// `compute` returns the results in a type, and the share of likeliest tokens that match f32.
fn compare(
    network: &str,
    types: &[DType],
    host: &dyn Host,
    tell: &Tell,
    mut compute: impl FnMut(DType) -> Result<(Vec<f32>, Option<f64>)>,
) -> Result<()> {
    let mut known: Vec<(DType, Vec<f32>)> = Vec::new();
    for &dtype in types {
        if host.is_cancelled() {
            return Err(Error::Cancelled.into());
        }
        let (values, same_tokens) = compute(dtype)?;
        let from = |other: DType| {
            let (_, expected) = known.iter().find(|(known, _)| *known == other)?;
            Some(songs::share(expected, &values))
        };
        if dtype == DType::F32 {
            if !values.iter().all(|value| value.is_finite()) {
                tell(Line::Problem("its results are not finite in f32".into()));
            }
        } else {
            tell(Line::Rounded(Rounded {
                network: network.to_owned(),
                dtype: name(dtype).to_owned(),
                from_f32: from(DType::F32),
                from_bf16: from(DType::BF16),
                same_tokens,
            }));
        }
        known.push((dtype, values));
    }
    Ok(())
}

/// Computes a velocity in the middle of a song.
struct Velocity<'a> {
    folder: &'a AceStep,
    frames: usize,
}

impl BackendWork for Velocity<'_> {
    type Output = Result<Vec<f32>>;

    fn run<B: Backend>(self, place: Place<B>) -> Self::Output {
        let dit = self.folder.dit_dir().dit(&place)?;
        let config = &self.folder.configs().dit;
        let noise = |seed: u64, rows: usize, width: usize| -> Tensor<B, 3> {
            let values = NoiseSource::default().initial_noise(seed, rows, width);
            Tensor::from_data(TensorData::new(values, [1, rows, width]), &place.device)
        };
        let channels = config.audio_acoustic_hidden_dim;
        let heard = noise(1, HEARD, config.encoder_shape().hidden());
        let condition = dit.attend_to(heard);
        let (x, context) = (noise(2, self.frames, channels), noise(3, self.frames, 2 * channels));
        // 500 after scaling, which every type can represent.
        Ok(to_host(dit.forward(x, context, [&[0.5], &[0.5]], &condition)))
    }
}

/// Computes the logits after each token of a text.
struct Writing<'a> {
    folder: &'a LanguageModelDir,
    /// Tokens after the prompt; if empty, the likeliest ones.
    tokens: Vec<u32>,
}

impl BackendWork for Writing<'_> {
    /// The logits, and the likeliest tokens.
    type Output = Result<(Vec<f32>, Vec<u32>)>;

    fn run<B: Backend>(self, place: Place<B>) -> Self::Output {
        let Self { folder, tokens } = self;
        let model: acestep_model::qwen3::Causal<B> = folder.model(&place)?;
        let config = folder.config();
        let all: Range<usize> = 0..config.vocab_size;
        let prompt: Vec<u32> =
            (0..PROMPT).map(|i| (i * 389 % config.vocab_size.min(150_000)) as u32).collect();
        let mut cache = config.cache(1, PROMPT + DRAWN, &place);
        let mut hidden = model.read(&prompt, 0, &mut cache, &place.device);
        let (mut scores, mut best) = (Vec::new(), Vec::new());
        for step in 0..DRAWN {
            let row = to_host(model.scores(hidden, std::slice::from_ref(&all)));
            let likeliest = (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b]));
            best.push(likeliest.context("the language model has no tokens")? as u32);
            scores.extend(row);
            let next = *tokens.get(step).unwrap_or(&best[step]);
            hidden = model.step(&[next], 0..1, &mut cache, &place.device);
        }
        Ok((scores, best))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use acestep_engine::Device;

    use super::*;
    use crate::host::QUIET;

    #[test]
    fn int8_is_further_from_f32_than_bf16_in_both_networks() {
        let engine = Engine { device: Device::Cpu, dtype: DType::F32 };
        for (index, bound) in [(0, 0.03), (1, 0.03)] {
            let rows = RefCell::new(Vec::new());
            let tell = |line| match line {
                Line::Rounded(row) => rows.borrow_mut().push(row),
                other => panic!("{other:?}"),
            };
            run(index, true, None, engine, &QUIET, &tell).expect("rows");
            let rows = rows.take();
            let types: Vec<&str> = rows.iter().map(|row| row.dtype.as_str()).collect();
            assert_eq!(types, ["bf16", "q8"]);
            let far = |row: &Rounded| row.from_f32.expect("compared");
            let [bf16, q8] = &rows[..] else { panic!("{rows:?}") };
            assert!(far(bf16) > 1e-4 && far(q8) > far(bf16) && far(q8) < bound, "{rows:?}");
            assert_eq!(bf16.from_bf16, None);
            assert!(q8.from_bf16.is_some_and(|share| share > 1e-3 && share < 2.0 * bound));
            assert_eq!(q8.same_tokens.is_some(), index == 1);
            assert!(q8.same_tokens.is_none_or(|share| (0.5..=1.0).contains(&share)), "{rows:?}");
        }
    }

    #[test]
    fn what_differs_from_bf16_is_said_beside_f32() {
        let rows = RefCell::new(Vec::new());
        let tell = |line| match line {
            Line::Rounded(row) => rows.borrow_mut().push(row),
            other => panic!("{other:?}"),
        };
        let values = |dtype| match dtype {
            DType::F32 => vec![3.0, 4.0],
            DType::BF16 => vec![3.0, 0.0],
            _ => vec![0.0, 0.0],
        };
        let types = [DType::F32, DType::BF16, DType::I8];
        compare("a network", &types, &QUIET, &tell, |dtype| Ok((values(dtype), None)))
            .expect("rows");
        let shares: Vec<_> = rows.take().iter().map(|row| (row.from_f32, row.from_bf16)).collect();
        assert_eq!(shares, [(Some(0.8), None), (Some(1.0), Some(1.0))]);
    }
}
