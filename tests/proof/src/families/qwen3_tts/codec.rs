//! The codec and the speaker encoder alone, with stored inputs.

use acestep_engine::host::to_host;
use acestep_model::{
    Backend, Place,
    speech::qwen3_tts::{
        Checkpoint, Files,
        codec::{Decoder, DecoderState},
    },
};
use acestep_speech::qwen3_tts::mel;
use anyhow::Result;
use burn::tensor::{Int, Tensor, TensorData};

use crate::{
    families::GoldenSource,
    golden::sheet::{Activations, Sheet, ids, in_bf16, loaded},
};

/// The batch items of codes `[B, G, F]`.
fn items<B: Backend>(
    sheet: &Sheet<'_>,
    name: &str,
    device: &B::Device,
) -> Result<Vec<Tensor<B, 2, Int>>> {
    let values = sheet.golden.whole(name)?;
    let [_, groups, frames] = sheet.golden.dims(name)?;
    let item = |values: &[i64]| ids(values, [groups, frames], device);
    Ok(values.chunks(groups * frames).map(item).collect())
}

/// Decodes frames as the whole signal.
fn whole<B: Backend>(decoder: &Decoder<B>, codes: Tensor<B, 2, Int>) -> Vec<f32> {
    to_host(decoder.forward(codes, &mut DecoderState::default()))
}

/// Decodes as the reference does: chunks of `size` frames, each after up to `context` earlier frames
/// whose samples are dropped.
pub(super) fn in_chunks<B: Backend>(
    decoder: &Decoder<B>,
    codes: &Tensor<B, 2, Int>,
    (size, context): (usize, usize),
    per_frame: usize,
) -> Vec<f32> {
    let frames = codes.dims()[1];
    let mut samples = Vec::new();
    for first in (0..frames).step_by(size) {
        let before = if first > context { context } else { first };
        let count = size.min(frames - first) + before;
        let part = codes.clone().narrow(1, first - before, count);
        samples.extend(&whole(decoder, part)[before * per_frame..]);
    }
    samples
}

/// Compares samples: the golden stores every `n`-th.
fn close_every(sheet: &mut Sheet<'_>, name: &str, samples: &[f32], n: usize) -> Result<()> {
    if !sheet.golden.has(name) {
        return Ok(());
    }
    let shape = sheet.golden.shape(name)?.to_vec();
    let every: Vec<f32> = samples.iter().copied().step_by(n).collect();
    let shape =
        if shape.iter().product::<usize>() == every.len() { shape } else { vec![every.len()] };
    sheet.close_values(name, &shape, &every);
    Ok(())
}

/// The decoder.
pub(super) fn decode<B: Backend>(
    sheet: &mut Sheet<'_>,
    of: &GoldenSource,
    place: &Place<B>,
) -> Result<()> {
    let (model, device) = (of.speech.any()?, &place.device);
    let decoder = loaded(Checkpoint::<B>::codec_decoder(model, place))?;
    let per_frame = model.codec_config().decoder_config.samples_per_frame();
    sheet.inputs(|name| name.contains(".codes"));
    for case in sheet.golden.tags(".wave") {
        let codes = items::<B>(sheet, &format!("{case}.codes"), device)?;
        sheet.attempt(&format!("{case}."), |sheet| {
            let mut samples = Vec::new();
            for (index, codes) in codes.into_iter().enumerate() {
                let taps =
                    sheet.golden.names().any(|name| name.starts_with(&format!("{case}.act.")));
                if index == 0 && taps {
                    let prefix = format!("{case}.act");
                    let mut tap = Activations { sheet, prefix };
                    let state = &mut DecoderState::default();
                    samples.extend(to_host(decoder.forward_tapped(codes, state, &mut tap)));
                } else {
                    samples.extend(whole(&decoder, codes));
                }
            }
            close_every(sheet, &format!("{case}.wave"), &samples, 1)
        })?;
        let why = "an activation inside a fused operation";
        sheet.skip_all(why, |name| name.starts_with(&format!("{case}.act.")));
    }
    if sheet.golden.has("chunk.codes") {
        let codes = items::<B>(sheet, "chunk.codes", device)?.remove(0);
        sheet.attempt("chunk.", |sheet| {
            close_every(sheet, "chunk.whole", &whole(&decoder, codes.clone()), 16)?;
            let names: Vec<_> = sheet.golden.names().map(str::to_owned).collect();
            for name in names {
                let sizes = name.strip_prefix("chunk.c").and_then(|rest| rest.split_once("_l"));
                let Some((size, context)) = sizes else { continue };
                let (Ok(size), Ok(context)) = (size.parse(), context.parse()) else { continue };
                let samples = in_chunks(&decoder, &codes, (size, context), per_frame);
                close_every(sheet, &name, &samples, 16)?;
            }
            Ok(())
        })?;
    }
    if sheet.golden.has("long.codes") {
        let codes = items::<B>(sheet, "long.codes", device)?.remove(0);
        sheet.attempt("long.", |sheet| {
            let samples = in_chunks(&decoder, &codes, (300, 25), per_frame);
            let seam = &samples[298 * per_frame..303 * per_frame];
            close_every(sheet, "long.seam", seam, 1)?;
            close_every(sheet, "long.sparse", &samples, 97)
        })?;
    }
    for index in 0.. {
        let name = format!("list.codes{index}");
        if !sheet.golden.has(&name) {
            break;
        }
        let shape = sheet.golden.dims(&name)?;
        let codes = ids::<B>(sheet.golden.whole(&name)?, shape, device).transpose();
        let samples = whole(&decoder, codes);
        sheet.attempt(&format!("list.wave{index}"), |sheet| {
            close_every(sheet, &format!("list.wave{index}"), &samples, 4)
        })?;
    }
    if let Some(place) = in_bf16(place)
        && sheet.golden.has("a.wave_bf16")
    {
        let decoder = loaded(Checkpoint::<B>::codec_decoder(model, &place))?;
        let codes = items::<B>(sheet, "a.codes", &place.device)?.remove(0);
        let samples = decoder.forward(codes, &mut DecoderState::default());
        sheet.near("a.wave_bf16", samples.unsqueeze_dims::<3>(&[0, 0]));
    }
    Ok(())
}

/// The encoder.
pub(super) fn encode<B: Backend>(
    sheet: &mut Sheet<'_>,
    of: &GoldenSource,
    place: &Place<B>,
) -> Result<()> {
    let encoder = loaded(Checkpoint::<B>::codec_encoder(of.speech.any()?, place))?;
    sheet.inputs(|name| name.contains(".wave"));
    // A batch pads its shorter rows, which changes their last frame. Here each is encoded alone.
    sheet.skip_all("a row of a padded batch", |name| name.starts_with("batch.codes"));
    for name in sheet.golden.tags("") {
        let Some((case, rest)) = name.split_once(".wave") else { continue };
        let wave = sheet.golden.tensor::<B, 1>(&name, &place.device)?;
        let kind = if rest.is_empty() { "codes".to_owned() } else { format!("alone{rest}") };
        let prefix = format!("{case}.{kind}");
        let own = if rest.is_empty() { format!("{case}.") } else { prefix.clone() };
        sheet.attempt(&own, |sheet| {
            let mut tap = Activations { sheet, prefix: format!("{case}.act") };
            let codes = encoder.forward_tapped(wave, &mut tap).transpose();
            let shape = codes.dims();
            let codes: Vec<i64> = codes.into_data().iter::<i64>().collect();
            sheet.exact(&prefix, &shape, &codes);
            Ok(())
        })?;
    }
    Ok(())
}

/// The spectrogram and the speaker encoder.
pub(super) fn speaker<B: Backend>(
    sheet: &mut Sheet<'_>,
    of: &GoldenSource,
    place: &Place<B>,
) -> Result<()> {
    let encoder = loaded(Checkpoint::<B>::speaker_encoder(of.speech.base()?, place))?;
    let bands = encoder.bands();
    sheet.inputs(|name| name.ends_with(".wave"));
    if sheet.golden.has("mel_filters") {
        let filters = mel::filterbank(bands);
        let shape = [bands, filters.len() / bands];
        sheet.close_values("mel_filters", &shape, &filters);
    }
    sheet.each(".wave", |sheet, case| {
        let samples = sheet.golden.floats(&format!("{case}.wave"))?;
        let mel = mel::spectrogram(&samples, bands);
        let shape = [1, bands, mel.len() / bands];
        let mel = Tensor::<B, 3>::from_data(TensorData::new(mel, shape), &place.device);
        sheet.close(&format!("{case}.mel"), mel.clone().squeeze_dim::<2>(0).transpose());
        let mut tap = Activations { sheet, prefix: format!("{case}.act") };
        let vector = encoder.forward_tapped(mel, &mut tap);
        sheet.close(&format!("{case}.act.fc"), vector.clone().swap_dims(1, 2));
        sheet.close(&format!("{case}.embedding"), vector.squeeze_dims::<1>(&[0, 1]));
        let why = "an activation inside a block";
        sheet.skip_all(why, |name| name.starts_with(&format!("{case}.act.")));
        Ok(())
    })
}
