//! The encoder, the decoder and the local transformer alone, with stored inputs.

use std::fmt::Arguments;

use acestep_engine::host::to_host;
use acestep_model::{
    Backend, Place, Tap,
    speech::magpie::{Checkpoint, Decoder, Files, Start, Step},
};
use anyhow::{Result, anyhow};
use burn::tensor::Tensor;

use crate::{
    families::GoldenSource,
    golden::sheet::{Activations, Sheet, ids, loaded},
};

/// The encoder.
pub(super) fn encoder<B: Backend, const S: usize>(
    sheet: &mut Sheet<'_>,
    of: &GoldenSource,
    place: &Place<B>,
) -> Result<()> {
    let encoder = loaded(Checkpoint::<B>::encoder(of.magpie.stacking(S)?, place))?;
    sheet.inputs(|name| name.ends_with(".ids") || name.ends_with(".lens"));
    sheet.each(".ids", |sheet, case| {
        let all = sheet.golden.whole(&format!("{case}.ids"))?.to_vec();
        let lengths = sheet.golden.whole(&format!("{case}.lens"))?.to_vec();
        let rows = all.len() / lengths.len().max(1);
        // Each text alone; rows past a length are zeros of the norm, and texts there are not read.
        let (mut out, mut width) = (Vec::new(), 0);
        for (text, &length) in all.chunks(rows).zip(&lengths) {
            let text = &text[..length as usize];
            let text = ids::<B>(text, [1, text.len()], &place.device);
            let memory = if lengths.len() == 1 {
                let mut tap = Activations { sheet, prefix: case.to_owned() };
                encoder.forward_tapped(text, &mut tap)
            } else {
                encoder.forward(text)
            };
            width = memory.dims()[2];
            out.extend(to_host(memory));
            out.resize(out.len().next_multiple_of(rows * width), 0.0);
        }
        sheet.close_values(&format!("{case}.out"), &[lengths.len(), rows, width], &out);
        sheet.skip_all("it has rows after the end of a text", |name| {
            name == format!("{case}.embedded")
        });
        Ok(())
    })
}

/// Adds the attention of the unconditional row, which sees the first position of a text of zeros.
fn with_unconditional(conditional: Vec<f32>, length: usize) -> Vec<f32> {
    let rows = conditional.len() / length;
    let mut both = conditional;
    for _ in 0..rows {
        both.extend((0..length).map(|at| if at == 0 { 1.0 } else { 0.0 }));
    }
    both
}

/// Compares activations; of attention to the text the whole, or the last row.
struct OfDecoder<'s, 'a> {
    sheet: &'s mut Sheet<'a>,
    prefix: &'static str,
}

impl<B: Backend> Tap<B> for OfDecoder<'_, '_> {
    fn tap<const D: usize>(&mut self, name: Arguments<'_>, activation: &Tensor<B, D>) {
        let name = format!("{}.{name}", self.prefix);
        if !name.ends_with(".cross_prob") {
            return self.sheet.close(&name, activation.clone());
        }
        let shape = activation.dims();
        let (heads, rows, length) = (shape[1], shape[2], shape[3]);
        let values = to_host(activation.clone());
        let last: Vec<f32> = values
            .chunks(rows * length)
            .flat_map(|head| head[(rows - 1) * length..].to_vec())
            .collect();
        let both = with_unconditional(values, length);
        self.sheet.close_values(&name, &[2, heads, rows, length], &both);
        let both = with_unconditional(last, length);
        self.sheet.close_values(&format!("{name}_last"), &[2, heads, length], &both);
    }
}

/// A sequence of stored codes, step by step.
struct Forced<'a, B: Backend> {
    decoder: &'a Decoder<B>,
    context: Tensor<B, 3>,
    memory: Tensor<B, 3>,
    /// `[2, n, D]`.
    embedded: Tensor<B, 3>,
    place: &'a Place<B>,
}

impl<B: Backend> Forced<'_, B> {
    /// Runs all steps; `prior` has one for each step.
    fn run(&self, exact: bool, prior: impl Fn(usize) -> Option<Tensor<B, 1>>) -> Vec<Step<B>> {
        let [rows, steps, _] = self.embedded.dims();
        let capacity = self.context.dims()[1] + steps;
        let start = Start { rows, capacity, exact };
        let mut state =
            self.decoder.start(self.context.clone(), self.memory.clone(), start, self.place);
        let step = |step| {
            let embedded = self.embedded.clone().narrow(1, step, 1);
            self.decoder.step(embedded, prior(step).as_ref(), &mut state)
        };
        (0..steps).map(step).collect()
    }
}

/// The decoder, whole and step by step.
pub(super) fn decoder<B: Backend, const S: usize>(
    sheet: &mut Sheet<'_>,
    of: &GoldenSource,
    place: &Place<B>,
) -> Result<()> {
    let (model, device) = (of.magpie.stacking(S)?, &place.device);
    let encoder = loaded(Checkpoint::<B>::encoder(model, place))?;
    let decoder = loaded(Checkpoint::<B>::decoder(model, place))?;
    sheet.inputs(|name| ["text", "codes", "prior"].contains(&name));
    let text = sheet.golden.whole("text")?.to_vec();
    sheet.close("memory", encoder.forward(ids(&text, [1, text.len()], device)));
    // The stored one, so that errors of the encoder are not counted again.
    let memory = sheet.golden.tensor::<B, 3>("memory", device)?;
    let voice = sheet.golden.note("speaker").as_u64();
    let file = &sheet.golden.file;
    let voice = voice.ok_or_else(|| anyhow!("{file}: speaker holds no whole numbers"))?;
    let context = decoder.context(voice as usize, device);
    let [_, codebooks, frames] = sheet.golden.dims("codes")?;
    let (tables, stacking) = (decoder.tables(), decoder.tables() / codebooks);
    let steps = frames / stacking;
    let stored = sheet.golden.whole("codes")?;
    let code = |table: usize, step: usize| {
        let (codebook, frame) = (table % codebooks, table / codebooks);
        stored[codebook * frames + step * stacking + frame]
    };
    let codes: Vec<i64> = (0..tables)
        .flat_map(|table| (0..steps).map(move |step| (table, step)))
        .map(|(t, s)| code(t, s))
        .collect();
    let embedded = decoder.embedded(ids(&codes, [tables, steps], device));
    sheet.close("audio_embedded", embedded.clone());
    let both = Tensor::cat(vec![context.clone(), context.zeros_like()], 0);
    let embedded = Tensor::cat(vec![embedded.clone(), embedded], 0);
    let input = Tensor::cat(vec![both, embedded.clone()], 1);
    sheet.close("input", input.clone());
    let [_, rows, width] = input.dims();
    let whole_prior = sheet.golden.floats("prior")?[..text.len()].to_vec();
    let whole_prior = Tensor::<B, 1>::from_floats(&whole_prior[..], device);
    for (prefix, prior) in [("plain", None), ("prior", Some(&whole_prior))] {
        sheet.attempt(&format!("{prefix}."), |sheet| {
            let mut tap = OfDecoder { sheet, prefix };
            let out = decoder.forward_tapped(input.clone(), &memory, prior, &mut tap);
            sheet.close(&format!("{prefix}.out"), out.clone());
            let last = out.narrow(1, rows - 1, 1).reshape([2, width]);
            sheet.close(&format!("{prefix}.logits_last"), decoder.logits(last));
            // All rows in one step, as after the voice of a later chunk.
            let start = Start { rows: 2, capacity: rows, exact: true };
            let mut state = decoder.start(context.clone(), memory.clone(), start, place);
            let step = decoder.step(embedded.clone(), prior, &mut state);
            let scores = to_host(step.attention.mean_dim(0));
            let both = with_unconditional(scores, text.len());
            sheet.close_values(&format!("{prefix}.alignment_scores"), &[2, text.len()], &both);
            Ok(())
        })?;
    }
    let layers = (0..model.config().decoder.stack.n_layers).collect();
    let decoder = decoder.with_alignment_layers(layers);
    let forced = Forced { decoder: &decoder, context, memory, embedded, place };
    let moving = |step: usize| {
        let factor = |at| if (step..step + 5).contains(&at) { 1.0 } else { 0.1 };
        let factors: Vec<f32> = (0..text.len()).map(factor).collect();
        (step > 0).then(|| Tensor::<B, 1>::from_floats(&factors[..], device))
    };
    let none = |_: usize| None;
    let runs: [(&str, Vec<Step<B>>); 2] =
        [("cached_plain", forced.run(false, none)), ("cached_prior", forced.run(false, moving))];
    for (prefix, run) in runs {
        sheet.attempt(&format!("{prefix}."), |sheet| {
            let rows = run.iter().map(|step| step.hidden.clone().unsqueeze_dim::<3>(1)).collect();
            sheet.close(&format!("{prefix}.out"), Tensor::cat(rows, 1));
            let last = run[run.len() - 2..].iter();
            let last = last.map(|step| decoder.logits(step.hidden.clone()).unsqueeze_dim::<3>(1));
            sheet.close(&format!("{prefix}.logits"), Tensor::cat(last.collect(), 1));
            let seen = run.iter().map(|step| step.attention.clone().unsqueeze_dims::<4>(&[0, 2]));
            sheet.close(&format!("{prefix}.cross_prob"), Tensor::cat(seen.collect(), 0));
            Ok(())
        })?;
    }
    if let Some(last) = forced.run(true, moving).pop() {
        sheet.close("full_prior_laststep.logits_last", decoder.logits(last.hidden));
    }
    Ok(())
}

/// The local transformer: the most probable codes, with and without guidance.
pub(super) fn local<B: Backend, const S: usize>(
    sheet: &mut Sheet<'_>,
    of: &GoldenSource,
    place: &Place<B>,
) -> Result<()> {
    let (model, device) = (of.magpie.stacking(S)?, &place.device);
    let decoder = loaded(Checkpoint::<B>::decoder(model, place))?;
    let local = loaded(Checkpoint::<B>::local_transformer(model, place))?;
    sheet.inputs(|name| name == "latent");
    let latent = sheet.golden.tensor::<B, 2>("latent", device)?;
    let (sizes, scale) = (model.sizes(), model.config().inference_parameters.cfg_scale as f32);
    let stacking = model.config().frame_stacking_factor;
    sheet.each(".codes", |sheet, case| {
        let rows = if case.starts_with("cfg") { 2 } else { 1 };
        let mut input = latent.clone().narrow(0, 0, rows);
        let mut state = local.start(rows, place);
        let (mut all, mut codes) = (Vec::new(), Vec::new());
        for index in 0..local.heads() {
            let hidden = local.step(input, &mut state);
            let logits = to_host(local.logits(index, hidden));
            let width = logits.len() / rows;
            let guided = |code: usize| match rows {
                1 => logits[code],
                _ => scale * logits[code] + (1.0 - scale) * logits[width + code],
            };
            let may = |code: &usize| {
                let is_end = *code == sizes.end();
                *code < sizes.codes || is_end && !case.ends_with("forbid")
            };
            let best = (0..width).filter(may).max_by(|&a, &b| guided(a).total_cmp(&guided(b)));
            let best = best.unwrap_or_default() as i64;
            all.extend(logits);
            codes.push(best);
            let next = ids::<B>(&vec![best; rows], [rows, 1], device);
            let next = decoder.audio_embedding(index, next);
            let width = next.dims()[2];
            input = next.reshape([rows, width]);
        }
        let width = sizes.code_rows();
        sheet.close_values(&format!("{case}.logits"), &[local.heads(), rows, width], &all);
        // Codes of the first frame, then of the second: `[C, S]`.
        let books = sizes.codebooks;
        let turned: Vec<i64> = (0..books)
            .flat_map(|book| (0..stacking).map(move |frame| frame * books + book))
            .map(|at| codes[at])
            .collect();
        sheet.exact(&format!("{case}.codes"), &[1, books, stacking], &turned);
        Ok(())
    })
}
