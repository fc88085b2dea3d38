//! Whole songs with stored noise: prompts to latents to sound.

use std::ops::Range;

use acestep_engine::{
    Residency, Unobserved, audio::loudness::prevent_clipping, host::audio_from_sound,
    tiling::Tiling,
};
use acestep_model::{Backend, Place, acestep::Padded};
use acestep_music::{
    Networks, codes,
    condition::{self, Prompt, Timbre},
    flow::{
        self, Sampling, SamplingStart, Track, Tracks,
        region::{RepaintRegion, injected_steps},
        schedule,
        solver::Solver,
    },
    plan::{LEAST_FRAMES, MaskMode},
    prompt::TEXT_TO_MUSIC,
    source,
    text::{CAPTION_TOKENS, LYRIC_TOKENS, TokenBatch},
    vae,
};
use anyhow::{Context, Result, anyhow};
use burn::tensor::{Tensor, TensorData};
use serde_json::Value;

use super::{networks::every_nth, prompts::prompts_from_metas};
use crate::{families::GoldenSource, golden::sheet::Sheet};

/// `e2e`: every case that the manifest describes.
pub(crate) fn run<B: Backend>(
    sheet: &mut Sheet<'_>,
    of: &GoldenSource,
    place: &Place<B>,
) -> Result<()> {
    sheet.inputs(|name| name.ends_with(".noise") || name == "srcwav_steps");
    let networks = Networks::<B>::new(of.checkpoints.whole()?, place.clone(), Residency::Kept);
    for case in sheet.golden.tags(".noise") {
        let note = sheet.golden.note(&case).clone();
        let prefix = format!("{case}.");
        let skip = |sheet: &mut Sheet<'_>, why| sheet.skip_all(why, |n| n.starts_with(&prefix));
        if note.is_null() {
            skip(sheet, "the manifest does not say how it was made");
        } else {
            sheet.attempt(&prefix, |sheet| song(sheet, &networks, &case, &note))?;
        }
    }
    Ok(())
}

fn song<B: Backend>(
    sheet: &mut Sheet<'_>,
    networks: &Networks<'_, B>,
    case: &str,
    note: &Value,
) -> Result<()> {
    let golden = sheet.golden;
    let name = |part: &str| format!("{case}.{part}");
    let stored_silence = networks.silence_latent()?;
    let noise: Tensor<B, 3> = golden.tensor(&name("noise"), networks.device())?;
    let [batch, frames, _] = noise.dims();
    let strength = note["audio_cover_strength"].as_f64().unwrap_or(1.0);
    let prompts = prompts(note, batch, strength < 1.0)?;
    let timbre = match reference_wave(note, networks)? {
        Some(wave) => {
            let latents = networks.vae_encoder()?.forward(wave).mean.swap_dims(1, 2);
            Timbre::of(vec![latents])
        }
        None => Timbre::of_silence(networks, &stored_silence),
    };
    let texts = condition::encode_text(networks, &prompts, &Unobserved)?;
    let heard = condition::encode_condition(networks, &texts, &timbre, &Unobserved)?;
    tokens(sheet, networks, case, &prompts)?;

    let Source { target, hints } = source_of(sheet, networks, note, frames)?;
    let plain = expanded(source::silence(&stored_silence, frames), batch);
    let target = target.map_or_else(
        || plain.clone(),
        |target| expanded(source::padded(target, &stored_silence, frames), batch),
    );
    let generated = generated(note);
    let shown = match &generated {
        Some(generated) => source::silenced(target.clone(), generated, &stored_silence),
        None => target.clone(),
    };
    let followed = hints.map_or_else(
        || shown.clone(),
        |hints| expanded(source::padded(hints, &stored_silence, frames), batch),
    );
    let marks = source::mask(generated.as_ref(), MaskMode::Explicit, frames);
    let context = source::context(followed, &marks);
    let first_frames = |x: &Tensor<B, 3>, stored: &str| -> Result<Tensor<B, 3>> {
        let most = golden.shape(&name(stored))?.get(1).copied().unwrap_or(0);
        Ok(x.clone().narrow(1, 0, most.min(frames)))
    };
    sheet.close(&name("src_latents"), first_frames(&shown, "src_latents")?);
    let input = name("target_latents_input");
    if sheet.golden.has(&input) {
        sheet.close(&input, first_frames(&target, "target_latents_input")?);
    }
    sheet.close(&name("context_latents"), first_frames(&context, "context_latents")?);
    let Padded { hidden, mask } = heard.first;
    sheet.exact_mask(&name("encoder_attention_mask"), &mask);
    sheet.close(&name("encoder_hidden_states"), hidden.clone());

    let schedule = schedule::turbo(8, note["shift"].as_f64().unwrap_or(3.0));
    let switch = schedule::cover_steps(schedule.timesteps.len(), strength);
    let later = heard.later.map(|later| {
        (switch, Track { condition: later.hidden, context: source::context(plain, &marks) })
    });
    let tracks = Tracks { first: Track { condition: hidden, context }, later, steering: None };
    let sampling = Sampling::new(&schedule, Solver::Euler, true);
    let no_noise = |_| noise.zeros_like();
    let region = generated.map(|generated| RepaintRegion {
        clean: target,
        generated,
        injected_steps: injected_steps(INJECTION, sampling.steps.len()),
        crossfade_frames: CROSSFADE,
        keeps_latents: false,
    });
    let start = SamplingStart { noise: noise.clone(), source: None, region };
    let latents =
        flow::sample(&*networks.dit()?, &tracks, start, &sampling, no_noise, &Unobserved)?;
    sheet.close(&name("latents"), latents.clone());

    let config = &networks.configs().vae;
    let decoder = networks.vae_decoder()?;
    let sound = vae::decode(&decoder, latents, config, Tiling::default(), &Unobserved)?;
    sound_cases(sheet, case, sound, config.sampling_rate)
}

/// The final waveform: its beginning, and every sixteenth sample.
fn sound_cases<B: Backend>(
    sheet: &mut Sheet<'_>,
    case: &str,
    sound: Tensor<B, 3>,
    rate: u32,
) -> Result<()> {
    let [batch, channels, samples] = sound.dims();
    let device = sound.device();
    let mut songs = audio_from_sound(sound, rate);
    for song in &mut songs {
        prevent_clipping(song);
    }
    let values: Vec<f32> = songs.into_iter().flat_map(|song| song.channels.concat()).collect();
    let sound: Tensor<B, 3> =
        Tensor::from_data(TensorData::new(values, [batch, channels, samples]), &device);
    let strided = format!("{case}.wave_strided");
    if sheet.golden.has(&strided) {
        let kept = sheet.golden.shape(&strided)?.last().copied().unwrap_or(1).max(1);
        let (shape, values) = every_nth(sound.clone(), samples.div_ceil(kept));
        sheet.close_values(&strided, &shape, &values);
    }
    let head = format!("{case}.wave_head");
    if sheet.golden.has(&head) {
        let most = sheet.golden.shape(&head)?.last().copied().unwrap_or(0).min(samples);
        sheet.close(&head, sound.narrow(2, 0, most));
    }
    Ok(())
}

/// The token ids of the prompts and the caption's hidden states, if they are stored.
fn tokens<B: Backend>(
    sheet: &mut Sheet<'_>,
    networks: &Networks<'_, B>,
    case: &str,
    prompts: &[Prompt],
) -> Result<()> {
    let lyrics: Vec<&str> = prompts.iter().map(|prompt| prompt.lyrics.as_str()).collect();
    let captions: Vec<&str> = prompts.iter().map(|prompt| prompt.caption.as_str()).collect();
    let lyrics = TokenBatch::new(networks, &lyrics, LYRIC_TOKENS)?;
    let captions = TokenBatch::new(networks, &captions, CAPTION_TOKENS)?;
    let ids = |tokens: &TokenBatch| -> (Vec<usize>, Vec<i64>) {
        let ids = tokens.ids.iter().flatten().map(|&id| i64::from(id)).collect();
        (vec![tokens.ids.len(), tokens.length()], ids)
    };
    let (shape, values) = ids(&lyrics);
    sheet.exact(&format!("{case}.lyric_token_idss"), &shape, &values);
    let (shape, values) = ids(&captions);
    sheet.exact(&format!("{case}.text_token_ids"), &shape, &values);
    let hidden = format!("{case}.text_hidden_states");
    if sheet.golden.has(&hidden) {
        let states = captions.encode(&*networks.text_encoder()?, networks.device())?;
        sheet.close(&hidden, states.hidden);
    }
    Ok(())
}

fn prompts(note: &Value, batch: usize, with_plain: bool) -> Result<Vec<Prompt>> {
    let each = |key: &str, item: usize| match &note[key] {
        Value::Array(values) => values.get(item).cloned().unwrap_or(Value::Null),
        other => other.clone(),
    };
    let text = |key: &str, item: usize| each(key, item).as_str().map(str::to_owned);
    (0..batch)
        .map(|item| {
            let needed = |key: &str| {
                text(key, item).ok_or_else(|| anyhow!("the manifest's `{key}` is no text"))
            };
            let (words, lyrics) = (needed("captions")?, needed("lyrics")?);
            let language = needed("vocal_languages")?;
            let metas = each("metas", item);
            let build = |instruction: Option<&str>| {
                prompts_from_metas(instruction, &words, &lyrics, &metas, &language)
            };
            let instruction = text("instructions", item);
            let (caption, lyrics) = build(instruction.as_deref());
            let plain_caption = with_plain.then(|| build(Some(TEXT_TO_MUSIC)).0);
            Ok(Prompt { caption, lyrics, plain_caption })
        })
        .collect()
}

/// The source of a song.
#[derive(Default)]
struct Source<B: Backend> {
    target: Option<Tensor<B, 3>>,
    /// Latents from audio codes; the song follows them instead of the target.
    hints: Option<Tensor<B, 3>>,
}

/// Default of upstream's `service_generate`; the manifest does not contain it.
const INJECTION: f64 = 0.5;
const CROSSFADE: usize = 10;

/// The frames of the region to repaint, computed as upstream does; `None` without a region.
fn generated(note: &Value) -> Option<Range<usize>> {
    let start = note["repainting_start"][0].as_f64()?;
    let end = note["repainting_end"][0].as_f64()?;
    let frame = |seconds: f64| (seconds * 48_000.0 / 1920.0) as usize;
    Some(frame(start)..frame(end))
}

/// The reference sound of the goldens' generator: one second of 333 Hz.
fn reference_wave<B: Backend>(
    note: &Value,
    networks: &Networks<'_, B>,
) -> Result<Option<Tensor<B, 3>>> {
    if note["refer_audios"].is_null() {
        return Ok(None);
    }
    let samples = 48_000;
    let omega = (2.0 * std::f64::consts::PI * 333.0) as f32;
    let wave = (0..2 * samples).map(|i| 0.3 * (omega * (i % samples) as f32 / 48_000.0).sin());
    let data = TensorData::new(wave.collect::<Vec<f32>>(), [1, 2, samples]);
    Ok(Some(Tensor::from_data(data, networks.device())))
}

fn source_of<B: Backend>(
    sheet: &Sheet<'_>,
    networks: &Networks<'_, B>,
    note: &Value,
    frames: usize,
) -> Result<Source<B>> {
    if let Some(text) = note["audio_code_hints"].as_str() {
        let codes = codes::parse_markup(text);
        let hints = networks.audio_codec()?.decode(&[codes], networks.device());
        return Ok(Source { target: Some(hints.clone()), hints: Some(hints) });
    }
    let instruction = note["instructions"].as_str().unwrap_or_default();
    let is_cover = instruction.contains("audio semantic tokens");
    if !is_cover && note["repainting_start"].is_null() {
        return Ok(Source::default());
    }
    let target =
        networks.vae_encoder()?.forward(source_wave(sheet, networks)?).mean.swap_dims(1, 2);
    if !is_cover {
        return Ok(Source { target: Some(target), hints: None });
    }
    let silence = networks.silence_latent()?;
    let padded = source::padded(target.clone(), &silence, frames.max(LEAST_FRAMES));
    let hints = networks.audio_codec()?.round_trip(padded, silence);
    Ok(Source { target: Some(target), hints: Some(hints) })
}

/// The source sound that the manifest describes: a sine of 180 Hz plus a staircase.
fn source_wave<B: Backend>(sheet: &Sheet<'_>, networks: &Networks<'_, B>) -> Result<Tensor<B, 3>> {
    let text = sheet.golden.note("srcwav").as_str().unwrap_or_default().to_owned();
    let digits = text.split("N=").nth(1).and_then(|rest| rest.split(';').next());
    let samples: usize =
        digits.context("the manifest does not say how long `srcwav` is")?.parse()?;
    let steps = sheet.golden.floats("srcwav_steps")?;
    let [channels, count]: [usize; 2] = sheet.golden.shape("srcwav_steps")?.try_into()?;
    let (hold, omega) = (samples / count + 1, (2.0 * std::f64::consts::PI * 180.0) as f32);
    let wave: Vec<f32> = (0..channels)
        .flat_map(|channel| {
            let steps = &steps[channel * count..(channel + 1) * count];
            (0..samples).map(move |i| {
                let t = i as f32 / 48_000.0;
                0.4 * (omega * t).sin() + steps[i / hold]
            })
        })
        .collect();
    Ok(Tensor::from_data(TensorData::new(wave, [1, channels, samples]), networks.device()))
}

fn expanded<B: Backend>(x: Tensor<B, 3>, batch: usize) -> Tensor<B, 3> {
    let [_, frames, channels] = x.dims();
    x.expand([batch, frames, channels])
}
