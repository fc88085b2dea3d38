//! Networks with stored inputs: autoencoder, transformer, encoders, audio codes.

use acestep_engine::{Unobserved, host::to_host, tiling::Tiling};
use acestep_model::{
    Backend, Place,
    acestep::{AudioCodec, ConditionInputs, Padded},
    nn::{scaled_time, timestep_sinusoid},
};
use acestep_music::vae;
use anyhow::Result;
use burn::tensor::{DType, Int, Tensor};

use crate::{
    families::GoldenSource,
    golden::{
        set::Golden,
        sheet::{Activations, Sheet, ids, in_bf16},
    },
};

/// `vae_decode`: latents to sound.
pub(crate) fn vae_decode<B: Backend>(
    sheet: &mut Sheet<'_>,
    of: &GoldenSource,
    place: &Place<B>,
) -> Result<()> {
    let (vae, device) = (of.checkpoints.vae()?, &place.device);
    sheet.inputs(|name| name.ends_with(".latents"));
    let decoder = vae.decoder::<B>(place)?;
    sheet.each(".latents", |sheet, case| {
        let latents = sheet.golden.tensor(&format!("{case}.latents"), device)?;
        let mut tap = Activations { sheet, prefix: format!("{case}.act") };
        let wave = decoder.forward_tapped(latents, &mut tap);
        sheet.close(&format!("{case}.wave"), wave);
        Ok(())
    })?;
    let Some(narrow) = in_bf16(place) else { return Ok(()) };
    let decoder = vae.decoder::<B>(&narrow)?;
    sheet.each(".wave_bf16", |sheet, case| {
        let latents = sheet.golden.tensor(&format!("{case}.latents"), device)?;
        sheet.near(&format!("{case}.wave_bf16"), decoder.forward(latents));
        Ok(())
    })
}

/// `vae_encode`: sound to a distribution of latents.
pub(crate) fn vae_encode<B: Backend>(
    sheet: &mut Sheet<'_>,
    of: &GoldenSource,
    place: &Place<B>,
) -> Result<()> {
    let (vae, device) = (of.checkpoints.vae()?, &place.device);
    sheet.inputs(|name| name.ends_with(".wave") || name.ends_with(".sample_noise"));
    let encoder = vae.encoder::<B>(place)?;
    sheet.each(".wave", |sheet, case| {
        let posterior = encoder.forward(sheet.golden.tensor(&format!("{case}.wave"), device)?);
        sheet.close(&format!("{case}.std"), posterior.std());
        let noise = format!("{case}.sample_noise");
        if sheet.golden.has(&noise) {
            let noise = sheet.golden.tensor(&noise, device)?;
            sheet.close(&format!("{case}.sample"), posterior.sample(noise));
        }
        sheet.close(&format!("{case}.mean"), posterior.mean);
        sheet.close(&format!("{case}.scale"), posterior.scale);
        Ok(())
    })
}

/// `vae_tiled`: decoding and encoding in tiles.
pub(crate) fn vae_tiled<B: Backend>(
    sheet: &mut Sheet<'_>,
    of: &GoldenSource,
    place: &Place<B>,
) -> Result<()> {
    let (vae, device) = (of.checkpoints.vae()?, &place.device);
    let input = |name: &str| name.ends_with(".latents") || is_encode_wave(name);
    sheet.inputs(input);
    let decoder = vae.decoder::<B>(place)?;
    sheet.each(".latents", |sheet, case| {
        let note = sheet.golden.note(case);
        let number = |key: &str| note[key].as_u64().map(|value| value as usize);
        let wave = format!("{case}.wave");
        let (Some(chunk), Some(overlap)) = (number("chunk_size"), number("overlap")) else {
            sheet.skip(&wave, "the manifest does not say how it was tiled");
            return Ok(());
        };
        let latents: Tensor<B, 3> = sheet.golden.tensor(&format!("{case}.latents"), device)?;
        let (latents, tiling) = (latents.swap_dims(1, 2), Tiling { chunk, overlap });
        let sound = vae::decode(&decoder, latents, vae.config(), tiling, &Unobserved)?;
        let (shape, values) = every_nth(sound, number("wave_stride").unwrap_or(1));
        sheet.close_values(&wave, &shape, &values);
        Ok(())
    })?;
    let encoder = vae.encoder::<B>(place)?;
    sheet.each(".mean", |sheet, case| {
        let (note, hop) = (sheet.golden.note(case), vae.config().hop());
        let frames = |key: &str| note[key].as_u64().map(|samples| samples as usize / hop);
        let names = [format!("{case}.mean"), format!("{case}.mean_nooffload")];
        let (Some(chunk), Some(overlap)) = (frames("chunk_size"), frames("overlap")) else {
            names.iter().for_each(|n| sheet.skip(n, "the manifest does not say how it was tiled"));
            return Ok(());
        };
        let wave: Tensor<B, 3> = sheet.golden.tensor(&format!("{case}.wave"), device)?;
        let tiling = Tiling { chunk, overlap };
        let latents =
            vae::encode(&encoder, wave, None, vae.config(), tiling, &Unobserved)?.swap_dims(1, 2);
        // The reference has two ways of keeping tiles in memory; here there is only one.
        for name in names.iter().filter(|name| sheet.golden.has(name)) {
            sheet.close(name, latents.clone());
        }
        Ok(())
    })
}

fn is_encode_wave(name: &str) -> bool {
    name.starts_with("enc") && name.ends_with(".wave")
}

/// Every `n`-th sample, from the first.
pub(crate) fn every_nth<B: Backend>(sound: Tensor<B, 3>, n: usize) -> (Vec<usize>, Vec<f32>) {
    let [batch, channels, samples] = sound.dims();
    let kept = to_host(sound)
        .chunks(samples)
        .flat_map(|channel| channel.iter().step_by(n).copied().collect::<Vec<_>>())
        .collect();
    (vec![batch, channels, samples.div_ceil(n)], kept)
}

/// `dit_time`: the timestep embeddings.
pub(crate) fn dit_time<B: Backend>(
    sheet: &mut Sheet<'_>,
    of: &GoldenSource,
    place: &Place<B>,
) -> Result<()> {
    let (model, device) = (of.checkpoints.turbo()?, &place.device);
    sheet.inputs(|name| name == "t");
    let t = sheet.golden.floats("t")?;
    let sinusoid = timestep_sinusoid(&t, DType::F32);
    sheet.close_values("sinusoid", &[t.len(), sinusoid.len() / t.len().max(1)], &sinusoid);
    let dit = model.dit::<B>(place)?;
    let embedded = dit.time_embeddings(&t, &t, device);
    for (name, (temb, proj)) in ["time_embed", "time_embed_r"].into_iter().zip(embedded) {
        sheet.close(&format!("{name}.temb"), temb);
        sheet.close(&format!("{name}.proj"), proj);
    }
    Ok(())
}

/// `bf16_time`: the effect of rounding the time, computed in f32, and the embeddings in bf16.
pub(crate) fn bf16_time<B: Backend>(
    sheet: &mut Sheet<'_>,
    of: &GoldenSource,
    place: &Place<B>,
) -> Result<()> {
    let (model, device) = (of.checkpoints.turbo()?, &place.device);
    sheet.inputs(|name| name == "t");
    let t = sheet.golden.floats("t")?;
    let scaled: Vec<f32> = t.iter().map(|&t| scaled_time(t, DType::BF16)).collect();
    sheet.close_values("t1000_bf16", &[t.len()], &scaled);
    sheet.skip("t_bf16", "the rounded input of the case, not a result");
    if let Some(narrow) = in_bf16(place) {
        let [(embedded, projected), _] = model.dit::<B>(&narrow)?.time_embeddings(&t, &t, device);
        sheet.near("temb_bf16", embedded);
        sheet.near("proj_bf16", projected);
    }

    let output = "case0.velocity_f32_teff";
    let Ok(inputs) = of.set.tensors("dit_forward.safetensors") else {
        sheet.skip(output, "its inputs are in dit_forward.safetensors, which is absent");
        return Ok(());
    };
    let effective = |name: &str| -> Result<Vec<f32>> {
        let times = inputs.floats(name)?;
        let round = |&t: &f32| scaled_time(t, DType::BF16) / 1000.0;
        Ok(times.iter().map(round).collect())
    };
    let dit = model.dit::<B>(place)?;
    let heard = dit.attend_to(inputs.tensor("case0.encoder_hidden_states", device)?);
    let velocity = dit.forward(
        inputs.tensor("case0.xt", device)?,
        inputs.tensor("case0.context_latents", device)?,
        [&effective("case0.timestep")?, &effective("case0.timestep_r")?],
        &heard,
    );
    sheet.close(output, velocity);
    Ok(())
}

/// `dit_forward`: velocities, and the activations of the first layers.
pub(crate) fn dit_forward<B: Backend>(
    sheet: &mut Sheet<'_>,
    of: &GoldenSource,
    place: &Place<B>,
) -> Result<()> {
    let (model, device) = (of.checkpoints.turbo()?, &place.device);
    const INPUTS: [&str; 6] = [
        ".xt",
        ".context_latents",
        ".encoder_hidden_states",
        ".encoder_attention_mask",
        ".timestep",
        ".timestep_r",
    ];
    sheet.inputs(|name| INPUTS.iter().any(|input| name.ends_with(input)));
    let dit = model.dit::<B>(place)?;
    sheet.each(".xt", |sheet, case| {
        let name = |part: &str| format!("{case}.{part}");
        let golden = sheet.golden;
        let mut tap = Activations { sheet, prefix: format!("{case}.act") };
        let condition = golden.tensor(&name("encoder_hidden_states"), device)?;
        let heard = dit.attend_to_tapped(condition, &mut tap);
        let velocity = dit.forward_tapped(
            golden.tensor(&name("xt"), device)?,
            golden.tensor(&name("context_latents"), device)?,
            [&golden.floats(&name("timestep"))?, &golden.floats(&name("timestep_r"))?],
            &heard,
            &mut tap,
        );
        sheet.close(&name("velocity"), velocity);
        Ok(())
    })?;
    let Some(narrow) = in_bf16(place) else { return Ok(()) };
    let dit = model.dit::<B>(&narrow)?;
    sheet.each(".velocity_bf16", |sheet, case| {
        let (name, golden) = (|part: &str| format!("{case}.{part}"), sheet.golden);
        let heard = dit.attend_to(golden.tensor(&name("encoder_hidden_states"), device)?);
        let velocity = dit.forward(
            golden.tensor(&name("xt"), device)?,
            golden.tensor(&name("context_latents"), device)?,
            [&golden.floats(&name("timestep"))?, &golden.floats(&name("timestep_r"))?],
            &heard,
        );
        sheet.near(&name("velocity_bf16"), velocity);
        Ok(())
    })
}

/// The condition encoder's inputs stored under `prefix`.
pub(crate) fn condition_inputs<B: Backend>(
    golden: &Golden,
    prefix: &str,
    device: &B::Device,
) -> Result<ConditionInputs<B>> {
    let name = |part: &str| format!("{prefix}.{part}");
    let packed = |kind: &str| -> Result<Padded<B>> {
        Ok(Padded {
            hidden: golden.tensor(&name(&format!("{kind}_hidden_states")), device)?,
            mask: golden.mask(&name(&format!("{kind}_attention_mask")))?,
        })
    };
    let order = golden.whole(&name("refer_audio_order_mask"))?;
    Ok(ConditionInputs {
        text: packed("text")?,
        lyrics: packed("lyric")?,
        timbre: golden.tensor(&name("refer_audio_acoustic_hidden_states_packed"), device)?,
        timbre_item: order.iter().map(|&item| item as usize).collect(),
    })
}

/// `cond_encoder`: text, lyrics and timbre to one packed sequence.
pub(crate) fn cond_encoder<B: Backend>(
    sheet: &mut Sheet<'_>,
    of: &GoldenSource,
    place: &Place<B>,
) -> Result<()> {
    let (model, device) = (of.checkpoints.turbo()?, &place.device);
    const INPUTS: [&str; 4] = ["text_hidden", "text_attention", "lyric_hidden", "lyric_attention"];
    sheet.inputs(|name| INPUTS.iter().any(|i| name.contains(i)) || name.contains("refer_audio"));
    let conditioner = model.conditioner::<B>(place)?;
    sheet.each(".text_hidden_states", |sheet, case| {
        let inputs = condition_inputs(sheet.golden, case, device)?;
        let mut tap = Activations { sheet, prefix: format!("{case}.act") };
        let packed = conditioner.forward_tapped(inputs, &mut tap);
        sheet.close(&format!("{case}.encoder_hidden_states"), packed.hidden);
        sheet.exact_mask(&format!("{case}.encoder_attention_mask"), &packed.mask);
        Ok(())
    })
}

/// `audio_tokenizer`: latents to codes to latents, and the codebook.
pub(crate) fn audio_tokenizer<B: Backend>(
    sheet: &mut Sheet<'_>,
    of: &GoldenSource,
    place: &Place<B>,
) -> Result<()> {
    let (model, device) = (of.checkpoints.turbo()?, &place.device);
    sheet.inputs(|name| name.ends_with(".latents") || name == "fsq.indices" || name == "fsq.pre");
    let codec = model.audio_codec::<B>(place)?;
    let silence = model.silence_latent::<B>(device)?;
    let tokenizer = codec.tokenizer();
    sheet.each(".latents", |sheet, case| {
        let name = |part: &str| format!("{case}.{part}");
        let latents: Tensor<B, 3> = sheet.golden.tensor(&name("latents"), device)?;
        let pooled = tokenizer.pool(latents, silence.clone());
        sheet.close(&name("act.pooled"), pooled.clone());
        let quantizer = tokenizer.quantizer();
        sheet.close(&name("act.project_in"), quantizer.project_in(pooled.clone()));
        let (quantized, indices) = quantizer.forward(pooled);
        sheet.close(&name("quantized"), quantized.clone());
        let [batch, count] = indices.dims();
        sheet.exact(&name("indices"), &[batch, count, 1], &whole(indices));
        sheet.close(&name("detokenized"), codec.detokenizer().forward(quantized));
        sheet.skip(&name("mask"), "codes have no mask in this project: every group is real");
        Ok(())
    })?;

    sheet.attempt("fsq.", |sheet| codebook(sheet, &codec, device))?;
    sheet.attempt("detok.", |sheet| {
        if sheet.golden.has("fsq.indices") {
            let codes = sheet.golden.ids("fsq.indices")?;
            let few = codes[..codes.len().min(20)].to_vec();
            sheet.close("detok.from_codes", codec.decode(&[few], device));
        }
        Ok(())
    })
}

/// The codebook alone: values, vectors and rounding.
fn codebook<B: Backend>(
    sheet: &mut Sheet<'_>,
    codec: &AudioCodec<B>,
    device: &B::Device,
) -> Result<()> {
    let (tokenizer, fsq) = (codec.tokenizer(), codec.fsq());
    if sheet.golden.has("fsq.indices") {
        let codes = sheet.golden.ids("fsq.indices")?;
        let values: Vec<f32> = codes.iter().flat_map(|&code| fsq.values(code)).collect();
        let dimensions = values.len() / codes.len().max(1);
        sheet.close_values("fsq.codes", &[codes.len(), dimensions], &values);
        let vectors = tokenizer.quantizer().vectors(std::slice::from_ref(&codes), device);
        let [_, count, width] = vectors.dims();
        sheet.close("fsq.output", vectors.reshape([count, width]));
    }
    if sheet.golden.has("fsq.pre") {
        let pre: Tensor<B, 2> = sheet.golden.tensor("fsq.pre", device)?;
        let soft = fsq.bound(pre.unsqueeze::<3>());
        let [_, count, dimensions] = soft.dims();
        sheet.close("fsq.soft", soft.clone().reshape([count, dimensions]));
        let (values, indices) = fsq.quantize(soft);
        sheet.close("fsq.pre_codes", values.reshape([count, dimensions]));
        sheet.exact("fsq.pre_indices", &[count], &whole(indices));
    }
    Ok(())
}

/// Copies integers to the host.
fn whole<B: Backend>(x: Tensor<B, 2, Int>) -> Vec<i64> {
    to_host(x.float()).into_iter().map(|value| value as i64).collect()
}

/// `silence`: the first frames of the silence latent.
pub(crate) fn silence<B: Backend>(
    sheet: &mut Sheet<'_>,
    of: &GoldenSource,
    place: &Place<B>,
) -> Result<()> {
    let (model, device) = (of.checkpoints.turbo()?, &place.device);
    let frames = sheet.golden.shape("silence_latent")?.get(1).copied().unwrap_or(0);
    let stored = model.silence_latent::<B>(device)?;
    let frames = frames.min(stored.dims()[1]);
    sheet.close("silence_latent", stored.narrow(1, 0, frames));
    Ok(())
}

/// `text_encoder`: hidden states and embeddings of stored ids.
pub(crate) fn text_encoder<B: Backend>(
    sheet: &mut Sheet<'_>,
    of: &GoldenSource,
    place: &Place<B>,
) -> Result<()> {
    let (text, device) = (of.checkpoints.text_encoder()?, &place.device);
    sheet.inputs(|name| name.ends_with(".input_ids"));
    let ids = |sheet: &Sheet<'_>, case: &str| -> Result<Tensor<B, 2, Int>> {
        let name = format!("{case}.input_ids");
        Ok(ids(sheet.golden.whole(&name)?, sheet.golden.dims(&name)?, device))
    };
    let model = text.model::<B>(place)?;
    sheet.each(".input_ids", |sheet, case| {
        let ids = ids(sheet, case)?;
        sheet.close(&format!("{case}.lyric_embedding"), model.embed(ids.clone()));
        sheet.close(&format!("{case}.last_hidden_state"), model.forward(ids));
        Ok(())
    })?;
    let Some(narrow) = in_bf16(place) else { return Ok(()) };
    let model = text.model::<B>(&narrow)?;
    sheet.each(".last_hidden_state_bf16", |sheet, case| {
        let hidden = model.forward(ids(sheet, case)?);
        sheet.near(&format!("{case}.last_hidden_state_bf16"), hidden);
        Ok(())
    })
}
