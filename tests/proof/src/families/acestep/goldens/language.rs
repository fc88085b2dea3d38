//! The language model: logits of stored tokens, and whole runs of both phases.

use acestep_engine::{Unobserved, host::to_host};
use acestep_import::LanguageModelDir;
use acestep_model::{Backend, Place, Tokenizer, qwen3::Causal};
use acestep_music::lm::{
    compose::{Call, Composed, compose},
    sample::{Scores, TokenMap, guide},
};
use anyhow::{Context, Result, ensure};
use burn::tensor::{Int, Tensor, TensorData};
use serde_json::{Value, json};

use super::replay::{self, Replay};
use crate::{
    families::GoldenSource,
    golden::{
        page::Page,
        sheet::{Activations, Sheet, in_bf16},
    },
};

/// `lm`: logits of the next token, for whole texts and for one token after the other.
pub(crate) fn scores<B: Backend>(
    sheet: &mut Sheet<'_>,
    of: &GoldenSource,
    place: &Place<B>,
) -> Result<()> {
    const INPUTS: [&str; 3] = [".input_ids", ".next_ids", ".attention_mask"];
    let language = of.checkpoints.language_model()?;
    sheet.inputs(|name| INPUTS.iter().any(|input| name.ends_with(input)));
    let model = language.model::<B>(place)?;
    let reader = Reader { model: &model, language, place };
    sheet.each(".input_ids", |sheet, case| {
        if sheet.golden.has(&format!("{case}.attention_mask")) {
            reader.batch(sheet, case)
        } else {
            reader.whole(sheet, case)?;
            let logits = reader.continued(sheet, case)?;
            sheet.close(&format!("{case}.decode_logits"), logits);
            Ok(())
        }
    })?;
    let Some(narrow) = in_bf16(place) else { return Ok(()) };
    let model = language.model::<B>(&narrow)?;
    let reader = Reader { model: &model, language, place: &narrow };
    sheet.each(".decode_logits_bf16", |sheet, case| {
        let logits = reader.continued(sheet, case)?;
        sheet.near(&format!("{case}.decode_logits_bf16"), logits);
        Ok(())
    })
}

struct Reader<'a, B: Backend> {
    model: &'a Causal<B>,
    language: &'a LanguageModelDir,
    place: &'a Place<B>,
}

impl<B: Backend> Reader<'_, B> {
    /// Reads all tokens at once, without a cache.
    fn whole(&self, sheet: &mut Sheet<'_>, case: &str) -> Result<()> {
        let name = format!("{case}.input_ids");
        let shape: [usize; 2] = sheet.golden.shape(&name)?.try_into()?;
        let ids = self.ids(sheet.golden.whole(&name)?)?;
        let ids: Vec<i32> = ids.into_iter().map(|id| id as i32).collect();
        let ids = Tensor::<B, 2, Int>::from_data(TensorData::new(ids, shape), &self.place.device);
        let mut tap = Activations { sheet, prefix: format!("{case}.act") };
        let logits = self.model.forward_tapped(ids, &mut tap);
        sheet.close(&format!("{case}.prefill_logits"), logits);
        Ok(())
    }

    /// Reads the prompt into the cache, then one token after the other.
    fn continued(&self, sheet: &Sheet<'_>, case: &str) -> Result<Tensor<B, 3>> {
        let prompt = self.ids(sheet.golden.whole(&format!("{case}.input_ids"))?)?;
        let next = self.ids(sheet.golden.whole(&format!("{case}.next_ids"))?)?;
        Ok(self.read(&[prompt], &next).narrow(1, 1, next.len()))
    }

    /// Reads two prompts as one batch. The reference pads the shorter one on the left, this program
    /// does not. The result is the same because positions are relative.
    fn batch(&self, sheet: &mut Sheet<'_>, case: &str) -> Result<()> {
        let name = format!("{case}.input_ids");
        let width = sheet.golden.shape(&name)?.last().copied().unwrap_or(1).max(1);
        let mask = sheet.golden.mask(&format!("{case}.attention_mask"))?;
        let stored = sheet.golden.whole(&name)?;
        let of_row = |(row, mask): (&[i64], &Vec<bool>)| {
            let real = row.iter().zip(mask).filter_map(|(&id, &real)| real.then_some(id));
            self.ids(&real.collect::<Vec<_>>())
        };
        let prompts: Vec<Vec<u32>> =
            stored.chunks(width).zip(&mask).map(of_row).collect::<Result<_>>()?;
        let next = self.ids(sheet.golden.whole(&format!("{case}.next_ids"))?)?;
        let logits = self.read(&prompts, &next);
        sheet.close(&format!("{case}.logits"), logits.clone());

        let [rows, positions, vocabulary] = logits.dims();
        if rows == 2 {
            let of_row = |row| Scores {
                logits: to_host(logits.clone().narrow(0, row, 1)),
                tokens: TokenMap::All,
            };
            let (mut conditional, unconditional) = (of_row(0), of_row(1));
            guide(&mut conditional, &unconditional, 2.0);
            let shape = [1, positions, vocabulary];
            sheet.close_values(&format!("{case}.cfg2_logits"), &shape, &conditional.logits);
        }
        Ok(())
    }

    /// The stored token ids. All must be in the model's vocabulary.
    fn ids(&self, stored: &[i64]) -> Result<Vec<u32>> {
        let rows = self.model.vocabulary();
        let known = |&id: &i64| u32::try_from(id).ok().filter(|&id| (id as usize) < rows);
        let ids: Option<Vec<u32>> = stored.iter().map(known).collect();
        let ids = ids.with_context(|| format!("token ids below {rows}, the model's vocabulary"))?;
        ensure!(!ids.is_empty(), "token ids");
        Ok(ids)
    }

    /// Logits after each prompt and after each token of `next`. All rows read the same `next`.
    ///
    /// # Shapes
    /// - output: `[rows, 1 + next, vocabulary]`
    fn read(&self, prompts: &[Vec<u32>], next: &[u32]) -> Tensor<B, 3> {
        let rows = prompts.len();
        let longest = prompts.iter().map(Vec::len).max().unwrap_or(0);
        let mut cache = self.language.config().cache(rows, longest + next.len(), self.place);
        let read = prompts.iter().enumerate();
        let read = read.map(|(row, ids)| self.model.read(ids, row, &mut cache, &self.place.device));
        let mut hidden = vec![Tensor::cat(read.collect(), 0)];
        for &id in next {
            hidden.push(self.model.step(&vec![id; rows], 0..rows, &mut cache, &self.place.device));
        }
        let all = 0..self.model.vocabulary();
        let scores = |hidden| self.model.scores(hidden, std::slice::from_ref(&all));
        Tensor::stack(hidden.into_iter().map(scores).collect(), 1)
    }
}

/// `lm_e2e`: greedy runs from prompts to tokens to metadata and codes.
pub(crate) fn runs<B: Backend>(
    page: Page<'_>,
    content: &Value,
    of: &GoldenSource,
    place: &Place<B>,
) -> Result<()> {
    for (i, entry) in content["cases"].as_array().into_iter().flatten().enumerate() {
        let name = entry["name"].as_str().map_or_else(|| i.to_string(), str::to_owned);
        let language = match of.checkpoints.language_model() {
            Ok(language) => language,
            Err(lacks) => {
                let skip = |case| page.skip(case, &lacks.to_string());
                names(&name, entry).into_iter().for_each(skip);
                continue;
            }
        };
        page.attempt(names(&name, entry), || {
            let replay = Replay::new(&entry["args"]);
            let composed = compose::<B>(&replay.composing(), language, place, &Unobserved)?;
            run(page, &name, entry, &composed, language.tokenizer()?);
            Ok(())
        })?;
    }
    Ok(())
}

/// The names of the cases of one stored run.
fn names(name: &str, entry: &Value) -> Vec<String> {
    let calls = entry["calls"].as_array().map_or(0, Vec::len);
    let of_call = |k| ["prompt_ids", "generated"].map(|part| format!("{name}.call{k}.{part}"));
    (0..calls).flat_map(of_call).chain([format!("{name}.result")]).collect()
}

/// Compares a run with the stored one.
fn run(page: Page<'_>, name: &str, entry: &Value, composed: &Composed, tokenizer: &impl Tokenizer) {
    let calls = &entry["calls"];
    let stored = calls.as_array().map_or(0, Vec::len);
    for k in 0..stored.max(composed.calls.len()) {
        let call = composed.calls.get(k);
        let prompts = call.map(|call| padded(call, tokenizer));
        let written = call.map(|call| call.written.first());
        page.equal(format!("{name}.call{k}.prompt_ids"), &json!(prompts), &calls[k]["prompt_ids"]);
        page.equal(format!("{name}.call{k}.generated"), &json!(written), &calls[k]["generated"]);
    }
    let result = replay::result(composed, |ids| tokenizer.decode(ids));
    page.equal(format!("{name}.result"), &result, &entry["result"]);
}

/// The prompts of a call as the reference records them: the shorter one padded on the left.
fn padded(call: &Call, tokenizer: &impl Tokenizer) -> Vec<Vec<u32>> {
    let longest = call.prompts.iter().map(Vec::len).max().unwrap_or(0);
    let pad = tokenizer.id_of("<|endoftext|>").unwrap_or_default();
    let padded = |ids: &Vec<u32>| [vec![pad; longest - ids.len()], ids.clone()].concat();
    call.prompts.iter().map(padded).collect()
}
