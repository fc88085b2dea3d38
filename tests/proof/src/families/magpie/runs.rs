//! Whole runs of the reference, step by step.

use acestep_engine::{host::to_host, sampling::Draws};
use acestep_import::Magpie;
use acestep_model::{Backend, Place, speech::magpie::Files};
use acestep_speech::magpie::{
    Networks, Plan, Request, Sampling, Tools,
    choose::RandomSource,
    frames::{Decided, Frames},
    tokenizers,
    voiced::Voiced,
};
use anyhow::Result;
use serde_json::Value;

use crate::{
    families::GoldenSource,
    golden::{Differs, sheet::Sheet},
};

/// Steps of a run without a limit in its notes.
const STEPS: u64 = 16;

/// All stored runs.
pub(super) fn compare<B: Backend, const S: usize>(
    sheet: &mut Sheet<'_>,
    of: &GoldenSource,
    place: &Place<B>,
) -> Result<()> {
    let model = of.magpie.stacking(S)?;
    sheet.inputs(|name| name.ends_with(".ids") || name.ends_with(".q"));
    let mut tags: Vec<String> = Vec::new();
    for tag in sheet.golden.tags(".ids") {
        let tag = tag.split('.').next().unwrap_or_default().to_owned();
        if !tags.contains(&tag) {
            tags.push(tag);
        }
    }
    for tag in tags {
        sheet.attempt(&format!("{tag}."), |sheet| run(sheet, &tag, model, place))?;
    }
    Ok(())
}

/// The request of a run, as far as its notes say.
fn request(note: &Value, stacking: usize) -> Request {
    let number = |key: &str| note[key].as_f64().map(|number| number as f32);
    let flag = |key: &str| note[key].as_bool();
    let steps = note["max_decoder_steps"].as_u64().unwrap_or(STEPS * stacking as u64);
    let sampling = Sampling {
        use_cfg: flag("use_cfg"),
        temperature: number("temperature"),
        topk: note["topk"].as_u64().map(|number| number as u32),
        max_decoder_steps: Some(steps as u32),
        apply_attention_prior: flag("apply_attention_prior"),
        exact_prior: Some(flag("kv_cache") != Some(true)),
        ignore_finished_sentence_tracking: Some(
            flag("ignore_finished_sentence_tracking").unwrap_or(true),
        ),
        use_local_transformer: flag("local_transformer"),
        ..Sampling::default()
    };
    let voice = note["speaker"].as_u64().map(|voice| voice.to_string());
    let text = note["text"].as_str().unwrap_or_default().to_owned();
    let language = note["language"].as_str().map(str::to_owned);
    Request { text, voice, language, sampling, ..Request::default() }
}

/// The plan of a run. Its positions before a window wrap, as those of the reference.
pub(super) fn plan(note: &Value, ids: Option<Vec<u32>>, model: &Magpie) -> Result<Plan> {
    let mut request = request(note, model.config().frame_stacking_factor);
    if ids.is_some() {
        request.text.clear();
    }
    request.ids = ids;
    let mut plan = Plan::new(&request, 0, model, &tokenizers(model)?, Tools::default())?;
    plan.settings.prior.wraps = true;
    Ok(plan)
}

fn run<B: Backend>(
    sheet: &mut Sheet<'_>,
    tag: &str,
    model: &Magpie,
    place: &Place<B>,
) -> Result<()> {
    let note = sheet.golden.note(tag).clone();
    let chunk = |index: usize| format!("{tag}.chunk{index}");
    let names: Vec<String> = match sheet.golden.has(&format!("{tag}.ids")) {
        true => vec![tag.to_owned()],
        false => (0..).map(chunk).take_while(|n| sheet.golden.has(&format!("{n}.ids"))).collect(),
    };
    let ids = |name: &String| sheet.golden.ids(&format!("{name}.ids"));
    let chunks: Vec<_> = names.iter().map(ids).collect::<Result<_>>()?;
    let plan = plan(&note, Some(vec![0]), model)?;
    let draws = format!("{tag}.q");
    let sizes = model.sizes();
    let mut sources = vec![match sheet.golden.has(&draws) {
        true => RandomSource::Given(sheet.golden.floats(&draws)?.into_iter()),
        false => RandomSource::Seeded(Box::new(Draws::new(0, sizes.code_rows()))),
    }];
    // The stored draws are those of a seed.
    let seed = note["torch_seed_of_q"].as_u64();
    sources.extend(
        seed.map(|seed| RandomSource::Seeded(Box::new(Draws::new(seed, sizes.code_rows())))),
    );
    let networks = Networks::<B>::new(model, place.clone());
    let mut codes_of_first = None;
    for source in sources {
        let voiced = Voiced::new(&networks, plan.options)?;
        let mut frames = Frames::new(voiced, chunks.clone(), sizes.codes, plan.settings, source);
        let mut all = Vec::new();
        for name in &names {
            let (kept, decided) = one(sheet, name, &mut frames, codes_of_first.is_none())?;
            all.extend(kept.concat());
            if codes_of_first.is_none() {
                report(sheet, name, &kept, &decided, sizes.codebooks);
            }
        }
        if codes_of_first.as_ref().is_some_and(|first| *first != all) {
            let why = "the draws of the seed give other codes than the stored draws";
            return Err(Differs(why.to_owned()).into());
        }
        codes_of_first = Some(all);
    }
    Ok(())
}

type ChunkResult = (Vec<Vec<u32>>, Vec<Decided>);

/// Runs one chunk. Compares the tensors that are lost after a step if `reports`.
fn one<B: Backend>(
    sheet: &mut Sheet<'_>,
    name: &str,
    frames: &mut Frames<Voiced<B>>,
    reports: bool,
) -> Result<ChunkResult> {
    let (mut kept, mut decided, mut latents) = (Vec::new(), Vec::new(), Vec::new());
    let latents_of = format!("{name}.latents");
    let stored = match sheet.golden.has(&latents_of) {
        true => sheet.golden.shape(&latents_of)?.to_vec(),
        false => Vec::new(),
    };
    while let Some(stepped) = frames.step()? {
        kept.extend(stepped.frames);
        decided.push(stepped.decided);
        if stored.first().is_some_and(|&steps| decided.len() <= steps) {
            let hidden = frames.network().hidden().cloned();
            latents.extend(hidden.map(to_host).unwrap_or_default());
        }
        if stepped.ended.is_some() {
            break;
        }
    }
    if reports {
        sheet.close_values(&latents_of, &stored, &latents);
        let window: Vec<i64> = frames.window().iter().map(|&id| id.into()).collect();
        sheet.exact(&format!("{name}.window_ids"), &[window.len()], &window);
        if let Some(memory) = frames.memory() {
            sheet.close(&format!("{name}.memory"), memory.clone());
        }
    }
    Ok((kept, decided))
}

/// Codes by frame, `[frames][C]`, as the reference has them, `[C, frames]`.
pub(super) fn by_codebook(frames: &[u32], codebooks: usize) -> ([usize; 2], Vec<i64>) {
    let count = frames.len() / codebooks;
    let of = |codebook: usize| (0..count).map(move |frame| frames[frame * codebooks + codebook]);
    let codes = (0..codebooks).flat_map(of).map(i64::from).collect();
    ([codebooks, count], codes)
}

fn report(
    sheet: &mut Sheet<'_>,
    name: &str,
    kept: &[Vec<u32>],
    decided: &[Decided],
    codebooks: usize,
) {
    let all = |of: fn(&Decided) -> &Vec<u32>| decided.iter().flat_map(of).copied().collect();
    let lists: [(&str, Vec<u32>); 3] = [
        ("codes", kept.concat()),
        ("codes_all", all(|step| &step.drawn)),
        ("argmax_codes", all(|step| &step.likeliest)),
    ];
    for (key, codes) in lists {
        let name = format!("{name}.{key}");
        if key == "codes_all" && sheet.golden.shape(&name).is_ok_and(|shape| shape == [0]) {
            sheet.skip(&name, "the reference has none without a local transformer");
            continue;
        }
        let (shape, codes) = by_codebook(&codes, codebooks);
        sheet.exact(&name, &shape, &codes);
    }
    let attended: Vec<i64> =
        decided.iter().filter_map(|step| Some(step.attended? as i64)).collect();
    sheet.exact(&format!("{name}.attended"), &[attended.len()], &attended);
    let priors: Vec<&Vec<f32>> = decided.iter().filter_map(|step| step.prior.as_ref()).collect();
    let shape = [priors.len(), priors.first().map_or(0, |prior| prior.len())];
    let values: Vec<f32> = priors.into_iter().flatten().copied().collect();
    sheet.close_values(&format!("{name}.prior"), &shape, &values);
    let logits = format!("{name}.logits");
    let stored = sheet.golden.shape(&logits).map(<[usize]>::to_vec).unwrap_or_default();
    let steps = stored.first().copied().unwrap_or(0).min(decided.len());
    let values: Vec<f32> = decided[..steps].iter().flat_map(|step| &step.logits).copied().collect();
    let shape = [steps, 1, values.len() / steps.max(1)];
    sheet.close_values(&logits, &shape, &values);
}
