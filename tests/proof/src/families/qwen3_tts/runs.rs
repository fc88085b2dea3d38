//! Whole calls of the reference, from the request to the sound.

use acestep_engine::{Audio, Error, Unobserved, host::to_host};
use acestep_import::Qwen3Tts;
use acestep_model::{
    Backend, Place,
    speech::qwen3_tts::{CodePredictor, Files, Talker},
};
use acestep_speech::qwen3_tts::{
    Frames, Networks, Plan, RefRecording, Request, RunStep, Sampling, TALKER, Voice,
    frames::embedded,
};
use anyhow::Result;
use burn::tensor::{Int, Tensor, TensorData};
use serde_json::Value;

use super::codec::in_chunks;
use crate::{
    families::GoldenSource,
    golden::{set::Golden, sheet::Sheet},
};

/// An argument of a call for one row of its batch.
fn argument<'v>(note: &'v Value, key: &str, row: usize) -> &'v Value {
    match &note["args"][key] {
        Value::Array(values) => &values[row],
        one => one,
    }
}

/// The request of one row of a call.
pub(super) fn request(note: &Value, row: usize) -> Request {
    let text = |key: &str| argument(note, key, row).as_str().map(str::to_owned);
    let number = |key: &str| note[key].as_f64().map(|number| number as f32);
    let whole = |key: &str| note[key].as_u64().map(|number| number as u32);
    Request {
        // The reference speaks every text in one piece.
        max_text_tokens_per_segment: Some(32_768),
        text: text("text").unwrap_or_default(),
        voice: text("speaker"),
        language: text("language"),
        instruct: text("instruct"),
        non_streaming_mode: note["args"]["non_streaming_mode"].as_bool(),
        seed: note["torch_seed"].as_u64(),
        sampling: Sampling {
            do_sample: note["do_sample"].as_bool(),
            top_k: whole("top_k"),
            top_p: number("top_p"),
            temperature: number("temperature"),
            repetition_penalty: number("repetition_penalty"),
            subtalker_dosample: note["subtalker_dosample"].as_bool(),
            subtalker_top_k: whole("subtalker_top_k"),
            subtalker_top_p: number("subtalker_top_p"),
            subtalker_temperature: number("subtalker_temperature"),
            max_new_tokens: whole("max_new_tokens"),
        },
    }
}

/// The index of the reference of one row: one reference may serve all rows.
fn reference(note: &Value, row: usize) -> Option<(String, usize)> {
    let index = if note["args"]["ref"].is_array() { row } else { 0 };
    Some((argument(note, "ref", row).as_str()?.to_owned(), index))
}

/// The stored voice of one row, if the call has one.
pub(super) fn stored_voice(
    golden: &Golden,
    tag: &str,
    note: &Value,
    row: usize,
) -> Result<Option<Voice>> {
    let Some((_, index)) = reference(note, row) else { return Ok(None) };
    let speaker = golden.floats(&format!("{tag}.spk{index}"))?;
    let codes = format!("{tag}.ref_codes{index}");
    let context = match note["ref_texts"][index].as_str() {
        Some(transcript) if golden.has(&codes) => Some(RefRecording {
            transcript: transcript.to_owned(),
            frames: frames_of(golden, &codes)?,
        }),
        _ => None,
    };
    Ok(Some(Voice { speaker, context }))
}

/// Stored codes `[F, G]` as frames.
fn frames_of(golden: &Golden, name: &str) -> Result<Vec<Vec<u32>>> {
    let groups = golden.shape(name)?.last().copied().unwrap_or(1).max(1);
    Ok(golden.ids(name)?.chunks(groups).map(<[u32]>::to_vec).collect())
}

/// All stored calls.
pub(super) fn compare<B: Backend>(
    sheet: &mut Sheet<'_>,
    of: &GoldenSource,
    place: &Place<B>,
) -> Result<()> {
    let inputs = [".mask", ".q_c0", ".q_sub"];
    sheet.inputs(|name| {
        name.starts_with("ref.") || inputs.iter().any(|input| name.ends_with(input))
    });
    for tag in sheet.golden.tags(".inputs_embeds") {
        let note = sheet.golden.note(&tag).clone();
        let model = match of.speech.named(note["model"].as_str().unwrap_or_default()) {
            Ok(model) => model,
            Err(lacks) => {
                sheet.skip_all(&lacks.to_string(), |name| name.starts_with(&format!("{tag}.")));
                continue;
            }
        };
        sheet.attempt(&format!("{tag}."), |sheet| call(sheet, &tag, &note, model, place))?;
    }
    Ok(())
}

fn call<B: Backend>(
    sheet: &mut Sheet<'_>,
    tag: &str,
    note: &Value,
    model: &Qwen3Tts,
    place: &Place<B>,
) -> Result<()> {
    let networks = Networks::<B>::new(model, place.clone());
    let device = &place.device;
    let talker = networks.talker()?;
    let shape = sheet.golden.dims(&format!("{tag}.inputs_embeds"))?;
    let [rows, length, width] = shape;
    let mut prompts = vec![0.0; rows * length * width];
    let (mut logits, mut predicted) = (Vec::new(), Vec::new());
    for row in 0..rows {
        let voice = voice(sheet, tag, note, row, &networks)?;
        let plan = Plan::new(&request(note, row), voice, 0, model)?;
        let prompt = to_host(embedded(&talker, &plan.prompt.rows, plan.voice.as_ref(), device));
        // Shorter rows have zeros on the left.
        let end = (row + 1) * length * width;
        prompts[end - prompt.len()..end].copy_from_slice(&prompt);
        if rows == 1 {
            let trailing = talker.text(&plan.prompt.trailing, device);
            sheet.close(&format!("{tag}.trailing"), trailing);
        }
        let pad = talker.text(&[model.config().tts_pad_token_id], device);
        sheet.close(&format!("{tag}.tts_pad_embed"), pad);
        let frames = frames(&plan, &networks)?;
        let [of_talker, of_predictor] = scores(sheet, tag, &plan, &frames, &networks)?;
        logits.extend(of_talker);
        predicted.extend(of_predictor);
        let codes: Vec<i64> = frames.iter().flatten().map(|&code| code.into()).collect();
        let groups = model.config().talker_config.num_code_groups;
        sheet.exact(&format!("{tag}.codes{row}"), &[frames.len(), groups], &codes);
        sound(sheet, (tag, row), &plan, &frames, &networks)?;
    }
    sheet.close_values(&format!("{tag}.inputs_embeds"), &shape, &prompts);
    let why = "of a batch, whose rows are spoken one by one";
    sheet.skip_all(why, |name| rows > 1 && name == format!("{tag}.trailing"));
    for (kind, values) in [("logits", &logits), ("sub_logits", &predicted)] {
        let name = format!("{tag}.{kind}");
        let shape = sheet.golden.shape(&name)?.to_vec();
        sheet.close_values(&name, &shape, values);
    }
    Ok(())
}

/// Returns the frames of a run.
pub(super) fn frames<B: Backend>(plan: &Plan, networks: &Networks<'_, B>) -> Result<Vec<Vec<u32>>> {
    let mut run = Frames::new(1, networks)?;
    run.begin(0, plan, None);
    let steps = run.collect::<Result<Vec<_>, Error>>()?;
    let frame = |(_, step): (usize, RunStep)| match step {
        RunStep::Frame(frame) => Some(frame),
        RunStep::End(_) => None,
    };
    Ok(steps.into_iter().flatten().filter_map(frame).collect())
}

/// The logits before each of the first codes, as many as are stored, and those of the code predictor
/// for the first frame.
fn scores<B: Backend>(
    sheet: &Sheet<'_>,
    tag: &str,
    plan: &Plan,
    frames: &[Vec<u32>],
    networks: &Networks<'_, B>,
) -> Result<[Vec<f32>; 2]> {
    let (talker, device) = (networks.talker()?, networks.device());
    let config = networks.checkpoint().config();
    let place = networks.place(TALKER);
    let steps = sheet.golden.shape(&format!("{tag}.logits"))?[1];
    let mut cache = Talker::cache(config, 1, plan.prompt.rows.len() + steps, &place);
    let prompt = embedded(&talker, &plan.prompt.rows, plan.voice.as_ref(), device);
    let mut hidden = talker.read(prompt, 0..1, &mut cache);
    let (mut logits, mut predicted) = (to_host(talker.scores(hidden.clone())), Vec::new());
    if let Some(frame) = frames.first() {
        let predictor = talker.code_predictor();
        let mut cache = CodePredictor::cache(&config.talker_config, 1, &place);
        let mut x = Tensor::cat(vec![hidden, talker.codec(&frame[..1], device)], 1);
        for group in 1..predictor.groups() {
            predicted.extend(to_host(predictor.scores(x, group, 0..1, &mut cache)));
            x = predictor.codes(group, &frame[group..=group], device);
        }
    }
    for (step, frame) in frames.iter().enumerate().take(steps - 1) {
        let text = plan.prompt.trailing.get(step).copied().unwrap_or(config.tts_pad_token_id);
        let row = talker.frames(std::slice::from_ref(frame), device) + talker.text(&[text], device);
        hidden = talker.read(row, 0..1, &mut cache);
        logits.extend(to_host(talker.scores(hidden)));
    }
    Ok([logits, predicted])
}

/// Computes the voice of one row, and compares it.
fn voice<B: Backend>(
    sheet: &mut Sheet<'_>,
    tag: &str,
    note: &Value,
    row: usize,
    networks: &Networks<'_, B>,
) -> Result<Option<Voice>> {
    let Some((name, index)) = reference(note, row) else { return Ok(None) };
    let samples = sheet.golden.floats(&format!("ref.{name}.wave"))?;
    let recording = Audio { channels: vec![samples], sample_rate: 24_000 };
    let transcript = note["ref_texts"][index].as_str();
    let mut voice = Voice::of_recording(&recording, transcript, networks, &Unobserved)?;
    sheet.close_values(&format!("{tag}.spk{index}"), &[voice.speaker.len()], &voice.speaker);
    let codes = format!("{tag}.ref_codes{index}");
    if note["args"]["ref"].is_array() && voice.context.is_some() {
        // The reference pads several recordings to one length, which changes the last frame.
        sheet.skip(&codes, "of a padded batch of recordings");
        voice.context = stored_voice(sheet.golden, tag, note, row)?.and_then(|voice| voice.context);
    } else if let Some(RefRecording { frames, .. }) = &voice.context {
        let codes: Vec<i64> = frames.iter().flatten().map(|&code| code.into()).collect();
        let shape = [frames.len(), codes.len() / frames.len().max(1)];
        sheet.exact(&format!("{tag}.ref_codes{index}"), &shape, &codes);
    }
    Ok(Some(voice))
}

/// Decodes frames as the reference does, and compares the sound.
fn sound<B: Backend>(
    sheet: &mut Sheet<'_>,
    (tag, row): (&str, usize),
    plan: &Plan,
    frames: &[Vec<u32>],
    networks: &Networks<'_, B>,
) -> Result<()> {
    let name = format!("{tag}.wave{row}");
    if !sheet.golden.has(&name) {
        return Ok(());
    }
    let context = plan.voice.as_ref().and_then(|voice| voice.context.as_ref());
    let before = context.map_or(&[][..], |context| &context.frames);
    let all: Vec<&Vec<u32>> = before.iter().chain(frames).collect();
    let groups = all.first().map_or(0, |frame| frame.len());
    let codes: Vec<i32> =
        (0..groups).flat_map(|group| all.iter().map(move |frame| frame[group] as i32)).collect();
    let data = TensorData::new(codes, [groups, all.len()]);
    let codes = Tensor::<B, 2, Int>::from_data(data, networks.device());
    let decoder = networks.codec_decoder()?;
    let per_frame = networks.checkpoint().codec_config().decoder_config.samples_per_frame();
    let samples = in_chunks(&decoder, &codes, (300, 25), per_frame);
    // As the reference counts, which may keep one sample of the recording.
    let first = (before.len() as f64 / all.len() as f64 * samples.len() as f64) as usize;
    let samples = &samples[first..];
    let stored = sheet.golden.shape(&name)?.iter().product::<usize>();
    let every = if stored == samples.len() { 1 } else { samples.len().div_ceil(stored.max(1)) };
    let samples: Vec<f32> = samples.iter().copied().step_by(every).collect();
    sheet.close_values(&name, &[samples.len()], &samples);
    Ok(())
}
