//! Talker and code predictor alone, with stored inputs.

use std::fmt::Arguments;

use acestep_engine::{
    host::to_host,
    sampling::{Scores, TokenMap, softmax},
};
use acestep_model::{
    Backend, Place, Tap,
    speech::qwen3_tts::{Checkpoint, CodePredictor, Files, Talker},
};
use acestep_speech::qwen3_tts::{Filters, restrict};
use anyhow::{Context, Result};
use burn::tensor::Tensor;

use crate::{
    families::GoldenSource,
    golden::sheet::{Activations, Sheet, in_bf16, loaded},
};

/// Compares activations under the names of the goldens.
struct Layers<'s, 'a>(Activations<'s, 'a>);

impl<B: Backend> Tap<B> for Layers<'_, '_> {
    fn tap<const D: usize>(&mut self, name: Arguments<'_>, activation: &Tensor<B, D>) {
        let name = name.to_string().replace(".self_attn.out", ".attn");
        self.0.tap(format_args!("{name}"), activation);
    }
}

/// The networks of one model.
pub(super) fn networks<B: Backend>(
    sheet: &mut Sheet<'_>,
    of: &GoldenSource,
    place: &Place<B>,
) -> Result<()> {
    let name = sheet.golden.file.trim_start_matches("lm_").trim_end_matches(".safetensors");
    let model = of.speech.named(name)?;
    let (config, device) = (model.config(), &place.device);
    let load = |place: &Place<B>| loaded(Checkpoint::<B>::talker(model, place));
    let talker = load(place)?;
    let inputs = ["inputs_embeds", "step_embeds", "text_ids", ".mask", "past_hidden", ".c0"];
    sheet.inputs(|name| inputs.iter().any(|input| name.ends_with(input)));
    let rows = sheet.golden.tensor::<B, 3>("talker.inputs_embeds", device)?;
    let [_, length, width] = rows.dims();
    sheet.attempt("talker.", |sheet| {
        let text = talker.text(&sheet.golden.ids("talker.text_ids")?, device);
        sheet.close("talker.text_projection", text.squeeze_dim::<2>(0));
        let mut tap = Layers(Activations { sheet, prefix: "talker.act".to_owned() });
        let hidden = talker.forward_tapped(rows.clone(), &mut tap);
        sheet.close("talker.logits", talker.scores(hidden.clone()));
        sheet.close("talker.hidden", hidden);
        sheet.skip_all("an activation inside a layer", |name| name.starts_with("talker.act."));

        let mut cache = Talker::cache(config, 1, length + 8, place);
        let _ = talker.read(rows.clone(), 0..1, &mut cache);
        let steps = sheet.golden.tensor::<B, 4>("talker.step_embeds", device)?;
        let steps = steps.iter_dim(0).map(|row| row.reshape([1, 1, width]));
        let hidden: Vec<_> = steps.map(|row| talker.read(row, 0..1, &mut cache)).collect();
        let hidden = Tensor::cat(hidden, 1);
        sheet.close("talker.step_logits", talker.scores(hidden.clone()));
        sheet.close("talker.step_hidden", hidden);
        Ok(())
    })?;
    if sheet.golden.has("pad.logits") {
        sheet.attempt("pad.", |sheet| {
            let rows = sheet.golden.tensor::<B, 3>("pad.inputs_embeds", device)?;
            let mask = sheet.golden.mask("pad.mask")?;
            let mut cache = Talker::cache(config, mask.len(), rows.dims()[1], place);
            let mut last = Vec::new();
            for (row, mask) in mask.iter().enumerate() {
                let first = mask.iter().position(|&is_real| is_real).unwrap_or(0);
                let part = rows.clone().narrow(0, row, 1);
                let part = part.narrow(1, first, mask.len() - first);
                last.push(talker.scores(talker.read(part, row..row + 1, &mut cache)));
            }
            sheet.close("pad.logits", Tensor::cat(last, 0).squeeze_dim::<2>(1));
            Ok(())
        })?;
    }
    sheet.attempt("predictor.", |sheet| {
        let predictor = talker.code_predictor();
        let hidden = sheet.golden.tensor::<B, 3>("predictor.past_hidden", device)?;
        let first = sheet.golden.whole("predictor.c0")?[0] as u32;
        let mut x = Tensor::cat(vec![hidden, talker.codec(&[first], device)], 1);
        let mut tap = Layers(Activations { sheet, prefix: "predictor.act".to_owned() });
        let _ = predictor.forward_tapped(x.clone(), &mut tap);
        let mut cache = CodePredictor::cache(&config.talker_config, 1, place);
        let (mut codes, mut logits) = (Vec::new(), Vec::new());
        for group in 1..predictor.groups() {
            let scores = to_host(predictor.scores(x, group, 0..1, &mut cache));
            let scores = Scores { logits: scores, tokens: TokenMap::All };
            // NaN has no best code; the logits then differ too.
            let code = scores.best().unwrap_or_default();
            logits.extend(scores.logits);
            codes.push(i64::from(code));
            x = predictor.codes(group, &[code], device);
        }
        let shape = [codes.len(), logits.len() / codes.len()];
        sheet.close_values("predictor.logits", &shape, &logits);
        sheet.exact("predictor.codes", &shape[..1], &codes);
        Ok(())
    })?;
    if let Some(place) = in_bf16(place)
        && sheet.golden.has("talker.logits_bf16")
    {
        let talker = load(&place)?;
        let rows = rows.cast(place.computes_in());
        let hidden = talker.forward_tapped(rows, &mut acestep_model::NoTap);
        sheet.near("talker.logits_bf16", talker.scores(hidden));
    }
    Ok(())
}

/// The rules before a draw.
pub(super) fn sampling<B: Backend>(
    sheet: &mut Sheet<'_>,
    of: &GoldenSource,
    _: &Place<B>,
) -> Result<()> {
    let name = sheet.golden.note("model").as_str().unwrap_or_default();
    let end = of.speech.named(name)?.config().talker_config.codec_eos_token_id;
    sheet.inputs(|name| name.ends_with(".logits") || name.ends_with(".history"));
    let cases = sheet.golden.note("cases").clone();
    for case in sheet.golden.tags(".probs") {
        let settings = &cases[case.parse::<usize>().unwrap_or(usize::MAX)];
        let number = |key: &str| settings[key].as_f64().with_context(|| format!("no {key}"));
        let filters = Filters {
            do_sample: true,
            temperature: number("temperature")? as f32,
            top_k: number("top_k")? as usize,
            top_p: number("top_p")? as f32,
        };
        let penalty = number("repetition_penalty")? as f32;
        sheet.attempt(&format!("{case}.probs"), |sheet| {
            let mut logits = sheet.golden.floats(&format!("{case}.logits"))?;
            let history = sheet.golden.ids(&format!("{case}.history"))?;
            restrict(&mut logits, &history, penalty, end);
            let mut scores = Scores { logits, tokens: TokenMap::All };
            filters.filter(&mut scores);
            let probabilities = softmax(&scores.logits, 1.0).unwrap_or_default();
            let name = format!("{case}.probs");
            sheet.close_values(&name, &[probabilities.len()], &probabilities);
            Ok(())
        })?;
    }
    Ok(())
}
