//! Whole runs of the reference, from the script and recordings to the sound.

use acestep_engine::{Unobserved, sampling::Draws};
use acestep_import::Dia2;
use acestep_model::{Backend, Place, speech::dia2::BackboneState};
use acestep_speech::{
    Chunks,
    dia2::{
        Chooser, Drawing, Networks, Plan, Recording, Request, Run, RunState, Speakers, Speaking,
        StreamItem, Streams, Uniforms, VoiceKind,
    },
};
use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::{recorded::Recorded, recordings::recordings};
use crate::{
    families::GoldenSource,
    golden::{page::Page, set::Set, sheet::Sheet},
};

/// The runs of `logic/runs.json`, except those of the server.
fn notes(set: &Set) -> Result<Vec<(String, Value)>> {
    let runs = set.json("logic/runs.json")?;
    let runs = runs.as_object().into_iter().flatten();
    Ok(runs
        .filter(|(name, _)| *name != "server")
        .map(|(name, run)| (name.clone(), run.clone()))
        .collect())
}

/// The request of a run.
fn request(note: &Value) -> Request {
    let number = |value: &Value| value.as_f64().map(|number| number as f32);
    let whole = |value: &Value| value.as_u64().map(|number| number as u32);
    Request {
        script: note["script"].as_str().unwrap_or_default().to_owned(),
        cfg_scale: number(&note["cfg_scale"]),
        cfg_filter_k: whole(&note["cfg_filter_k"]),
        text_temperature: number(&note["text"][0]),
        text_top_k: whole(&note["text"][1]),
        audio_temperature: number(&note["audio"][0]),
        audio_top_k: whole(&note["audio"][1]),
        initial_padding: whole(&note["initial_padding"]),
        include_prefix: note["include_prefix"].as_bool(),
        seed: note["torch_manual_seed"].as_u64(),
        ..Request::default()
    }
}

/// The plan of a run, with its recordings.
fn plan<B: Backend>(set: &Set, note: &Value, networks: &Networks<'_, B>) -> Result<Plan> {
    let files: Vec<&str> =
        note["prefix"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let recordings: Vec<Recording> = recordings(set, &files, networks)?;
    let speakers = Speakers::Recorded(&recordings);
    Ok(Plan::new(&request(note), speakers, 0, networks.checkpoint())?)
}

/// The draws of a run.
fn drawing(uniforms: Option<Vec<f32>>, plan: &Plan) -> Box<dyn Drawing> {
    match uniforms {
        Some(uniforms) => Box::new(Uniforms(uniforms.into_iter())),
        None => Box::new(Draws::new(plan.seed, 1)),
    }
}

/// All stored runs.
pub(super) fn generate<B: Backend>(
    sheet: &mut Sheet<'_>,
    of: &GoldenSource,
    place: &Place<B>,
) -> Result<()> {
    sheet.inputs(|name| name.ends_with(".us"));
    let golden = sheet.golden;
    let is_stored = |tag: &str| golden.has(&format!("{tag}.grid"));
    for (tag, note) in notes(&of.set)?.into_iter().filter(|(tag, _)| is_stored(tag)) {
        let model = of.dialogue.of(&tag)?;
        sheet
            .attempt(&format!("{tag}."), |sheet| run(sheet, &tag, &note, &of.set, model, place))?;
    }
    Ok(())
}

fn run<B: Backend>(
    sheet: &mut Sheet<'_>,
    tag: &str,
    note: &Value,
    set: &Set,
    model: &Dia2,
    place: &Place<B>,
) -> Result<()> {
    let networks = Networks::<B>::new(model, place.clone());
    let plan = plan(set, note, &networks)?;
    let us = format!("{tag}.us");
    let uniforms = sheet.golden.has(&us).then(|| sheet.golden.floats(&us)).transpose()?;

    // Both rows, as the reference, also without guidance.
    let recorded = Recorded::new(networks.pair()?);
    let state = beginning(&plan, &networks, &recorded)?;
    recorded.take();
    let Plan { guidance, text, audio, .. } = plan;
    let chooser = Chooser { guidance, text, audio, drawing: drawing(uniforms.clone(), &plan) };
    let mut run = Run::new(state, (0, usize::MAX), chooser, plan.streams.clone(), recorded);
    while run.advance()?.is_some() {}
    let columns = &run.state().grid.columns()[..=run.state().step];
    codes(sheet, &format!("{tag}.grid"), columns);
    let log = run.networks().take();
    for (name, values) in
        [("hidden", &log.hidden), ("action", &log.action), ("cb0", &log.code), ("dep", &log.stages)]
    {
        first(sheet, &format!("{tag}.{name}"), values)?;
    }
    let last = |values: &[Vec<f32>]| values.last().cloned().into_iter().collect::<Vec<_>>();
    for (name, values) in [("last_hidden", &log.hidden), ("last_cb0", &log.code)] {
        first(sheet, &format!("{tag}.{name}"), &last(values))?;
    }
    let tokens = format!("{tag}.tokens");
    let shape = sheet.golden.shape(&tokens)?.to_vec();
    let ids: Vec<i64> = log.tokens.iter().take(shape[0]).flatten().map(|&id| id.into()).collect();
    sheet.exact(&tokens, &shape, &ids);

    // The public front, in chunks.
    let drawing = drawing(uniforms, &plan);
    let chunks = Chunks { first: 1, others: 3 };
    let speaking = Speaking::begin_with(drawing, plan, None, &networks, chunks, &Unobserved)?;
    let mut streamed = Vec::new();
    for made in speaking {
        match made? {
            StreamItem::Samples(samples) => streamed.extend(samples),
            StreamItem::Done(dialogue) => {
                codes(sheet, &format!("{tag}.aligned"), &dialogue.spoken.frames);
                sheet.close_values(&format!("{tag}.wave"), &[streamed.len()], &streamed);
            }
        }
    }
    Ok(())
}

/// The state after the recordings of a plan, with two rows.
fn beginning<B: Backend>(
    plan: &Plan,
    networks: &Networks<'_, B>,
    recorded: &Recorded<B>,
) -> Result<RunState<BackboneState<B>>> {
    let streams = &plan.streams;
    let prefix = match &plan.voice {
        VoiceKind::Recorded(prefix) => Some(prefix),
        VoiceKind::Own | VoiceKind::Kept => None,
    };
    let mut entries = prefix.map_or(Vec::new(), |prefix| prefix.entries.clone());
    entries.extend_from_slice(&plan.entries);
    let machine = streams.machine(entries, plan.initial_padding);
    let grid = streams.grid(streams.ids.audio_pad);
    let empty = networks.pair()?.state(2, streams.most_steps + 1);
    let mut state = RunState::fresh(empty, 2, grid, machine, streams);
    if let Some(prefix) = prefix {
        state.read(prefix, streams, recorded, &|_| Ok(()))?;
    }
    Ok(state)
}

/// Compares values of the first steps, as many as are stored.
pub(super) fn first(sheet: &mut Sheet<'_>, name: &str, values: &[Vec<f32>]) -> Result<()> {
    if !sheet.golden.has(name) {
        return Ok(());
    }
    let shape = sheet.golden.shape(name)?.to_vec();
    let count = shape.iter().product();
    let values: Vec<f32> = values.iter().flatten().copied().take(count).collect();
    let shape = if values.len() == count { shape } else { vec![values.len()] };
    sheet.close_values(name, &shape, &values);
    Ok(())
}

/// Compares codes `[K, F]` with frames or columns.
pub(super) fn codes(sheet: &mut Sheet<'_>, name: &str, frames: &[Vec<u32>]) {
    let groups = frames.first().map_or(0, Vec::len);
    let of = |group: usize| frames.iter().map(move |frame| i64::from(frame[group]));
    let codes: Vec<i64> = (0..groups).flat_map(of).collect();
    sheet.exact(name, &[groups, frames.len()], &codes);
}

/// The state after recordings, their codes, and linear resampling.
pub(super) fn prefix<B: Backend>(
    sheet: &mut Sheet<'_>,
    of: &GoldenSource,
    place: &Place<B>,
) -> Result<()> {
    let set = &of.set;
    sheet.inputs(|name| name.starts_with("wave") || name.ends_with(".in"));
    sheet.attempt("codes2", |sheet| {
        let networks = Networks::<B>::new(of.dialogue.of("")?, place.clone());
        let recordings = recordings(set, &["pre1.wav", "pre2.wav"], &networks)?;
        let frames: Vec<_> = recordings.into_iter().flat_map(|of| of.frames).collect();
        codes(sheet, "codes2", &frames);
        Ok(())
    })?;
    for rate in [16_000, 44_100] {
        let name = format!("resample{rate}");
        sheet.attempt(&format!("{name}."), |sheet| {
            let samples = sheet.golden.floats(&format!("{name}.in"))?;
            let samples = acestep_speech::dia2::linear(&samples, rate, 24_000);
            sheet.close_values(&format!("{name}.out"), &[samples.len()], &samples);
            Ok(())
        })?;
    }
    for (tag, note) in notes(set)?.into_iter().filter(|(_, note)| note["prefix"].is_array()) {
        let model = of.dialogue.of(&tag)?;
        sheet.attempt(&format!("{tag}."), |sheet| {
            let networks = Networks::<B>::new(model, place.clone());
            let plan = plan(set, &note, &networks)?;
            let recorded = Recorded::new(networks.pair()?);
            let state = beginning(&plan, &networks, &recorded)?;
            keys_values(sheet, &format!("{tag}."), &state.networks)?;
            step_tokens(sheet, &format!("{tag}."), &state, &plan.streams);
            let name = format!("{tag}.audio_buf");
            // The reference marks columns that are not written with -2.
            buffer(sheet, &name, state.grid.columns(), -2)
        })?;
    }
    Ok(())
}

/// Compares the first columns of a grid; `unwritten` stands for the columns after them.
pub(super) fn buffer(
    sheet: &mut Sheet<'_>,
    name: &str,
    columns: &[Vec<u32>],
    unwritten: i64,
) -> Result<()> {
    let [groups, count] = sheet.golden.dims(name)?;
    let code = |group: usize, column: usize| {
        columns.get(column).map_or(unwritten, |codes| codes[group].into())
    };
    let codes: Vec<i64> =
        (0..groups).flat_map(|group| (0..count).map(move |at| code(group, at))).collect();
    sheet.exact(name, &[groups, count], &codes);
    Ok(())
}

/// Compares the tokens of the next step, of both rows.
pub(super) fn step_tokens<S>(
    sheet: &mut Sheet<'_>,
    prefix: &str,
    state: &RunState<S>,
    streams: &Streams,
) {
    let row = &state.tokens;
    let both = [&row[..], &[streams.ids.zero, streams.ids.pad], &row[2..]].concat();
    let both: Vec<i64> = both.into_iter().map(i64::from).collect();
    sheet.exact(&format!("{prefix}step_tokens"), &[2, row.len()], &both);
}

/// Compares keys and values of both rows.
pub(super) fn keys_values<B: Backend>(
    sheet: &mut Sheet<'_>,
    prefix: &str,
    state: &BackboneState<B>,
) -> Result<()> {
    let rows: Vec<_> = (0..state.rows()).map(|row| state.row(row)).collect();
    for layer in 0..rows.first().context("a row")?.len() {
        for (part, kind) in ["k", "v"].into_iter().enumerate() {
            let both = rows.iter().map(|row| row[layer][part].clone()).collect();
            let name = format!("{prefix}kv.layer{layer}.{kind}");
            sheet.close(&name, burn::tensor::Tensor::cat(both, 0));
        }
    }
    Ok(())
}

/// The times of the words, and the ends of the runs.
pub(super) fn times<B: Backend>(
    page: Page<'_>,
    _: &Value,
    of: &GoldenSource,
    place: &Place<B>,
) -> Result<()> {
    let set = &of.set;
    for (tag, note) in notes(set)? {
        let Some(model) = page.found(&tag, of.dialogue.of(&tag)) else { continue };
        if note["prefix"].is_array() && !set.names().any(|name| name == "prefix.safetensors") {
            page.skip(tag, "no recordings among the goldens");
            continue;
        }
        page.attempt(vec![tag.clone()], || {
            let networks = Networks::<B>::new(model, place.clone());
            let plan = plan(set, &note, &networks)?;
            let us = set
                .tensors("generate.safetensors")
                .and_then(|all| all.floats(&format!("{tag}.us")));
            let drawing = drawing(us.ok(), &plan);
            let chunks = Chunks { first: 64, others: 64 };
            let speaking =
                Speaking::begin_with(drawing, plan, None, &networks, chunks, &Unobserved)?;
            for made in speaking {
                let StreamItem::Done(dialogue) = made? else { continue };
                let time = |seconds: f64| (seconds * 1e6).round() / 1e6;
                let words: Vec<_> = dialogue
                    .spoken
                    .words
                    .iter()
                    .map(|word| json!([word.text, time(word.start)]))
                    .collect();
                let ours = json!({
                    "timestamps": words,
                    "entries_left": dialogue.left,
                    "aligned_frames": dialogue.spoken.frames.len(),
                    "samples": dialogue.spoken.audio.samples(),
                });
                let keys = ["timestamps", "entries_left", "aligned_frames", "samples"];
                let stored: serde_json::Map<String, Value> =
                    keys.map(|key| (key.to_owned(), note[key].clone())).into_iter().collect();
                page.equal(tag.clone(), &ours, &Value::Object(stored));
            }
            Ok(())
        })?;
    }
    Ok(())
}
