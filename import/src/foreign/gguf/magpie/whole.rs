//! One file with model, codec and dictionaries, and all settings.
//!
//! The tensors have their released names, those of the codec after `codec.` and without weight norm.
//! `g2p.<tokenizer>.dict` and `.heteronyms` are texts: see `text`.

use std::path::Path;

use serde_json::{Map, Value as Json, json};

use super::{Parsed, expect, file, put, text, texts};
use crate::{
    Tensors,
    families::magpie::Spelling,
    foreign::gguf::{Header, values::Values},
    single_file::{Codec, Opened},
};

/// Opens a file whose header and tensors are these.
pub(super) fn opened(path: &Path, header: &Header, mut tensors: Tensors) -> Parsed<Opened> {
    let values = Values { header, prefix: "magpie" };
    let config = model_config(&values)?;
    let codec = codec_config(&values)?;
    let mut artefacts = text::vocabularies(&values)?;
    compare_sizes(&values, &tensors)?;
    let names: Vec<_> = tensors.names().map(str::to_owned).collect();
    for name in names.iter().filter(|name| name.starts_with("g2p.")) {
        if let Some(text) = tensors.take_bytes(name) {
            artefacts.insert(name.clone(), text);
        }
    }
    let mut of_codec = tensors.clone();
    of_codec.retain(|name| name.starts_with("codec."));
    tensors.retain(|name| !name.starts_with("codec."));
    let numbers = |key: &str| -> Parsed<Vec<usize>> {
        Ok(values.numbers(key)?.iter().map(|&number| number as usize).collect())
    };
    let (names, indices) = (values.texts("speaker.names")?, numbers("speaker.indices")?);
    if names.len() != indices.len() {
        return Err(format!(
            "it has {} names of voices and {} indices",
            names.len(),
            indices.len()
        ));
    }
    let mut speakers: Vec<_> = names.iter().cloned().zip(indices).collect();
    speakers.sort_by_key(|&(_, index)| index);
    Ok(Opened {
        model: file(path, config, tensors, Vec::new()),
        texts: texts(path, artefacts, Some(speakers)),
        lengths: Some(numbers("baked_context.lengths")?),
        codec: Some(Codec {
            file: file(path, codec, of_codec, Vec::new()),
            spelling: Spelling::Whole,
        }),
    })
}

/// Checks the values that follow from others.
fn compare_sizes(values: &Values<'_>, tensors: &Tensors) -> Parsed<()> {
    let size = |key: &str| text::size(values, key);
    let (width, rows) = (size("d_model")?, size("text.vocab_size")?);
    let head =
        |stack: &str| -> Parsed<u64> { Ok(width / size(&format!("{stack}.n_heads"))?.max(1)) };
    let levels = values.numbers("codec.fsq.num_levels")?.iter();
    let codes = levels.fold(1_u64, |codes, &level| codes.saturating_mul(level));
    for (key, expected) in [
        ("encoder.d_head", head("encoder")?),
        ("decoder.d_head", head("decoder")?),
        ("text.bos_id", rows.saturating_sub(2)),
        ("text.eos_id", rows.saturating_sub(1)),
        ("audio.num_codebooks", size("codec.fsq.num_groups")?),
        ("audio.codebook_size", codes),
        ("baked_context.d", width),
        ("speaker.count", values.texts("speaker.names")?.len() as u64),
    ] {
        expect(values, key, &values.number(key)?, &json!(expected))?;
    }
    let rows = match tensors.shape("baked_context_embedding.weight") {
        Ok(&[_, rows, _]) => Some(rows as u64),
        Ok(&[_, flat]) => (flat as u64).checked_div(width),
        // The model is refused for this.
        _ => None,
    };
    let key = "baked_context.t";
    rows.map_or(Ok(()), |rows| expect(values, key, &values.number(key)?, &json!(rows)))
}

fn model_config(values: &Values<'_>) -> Parsed<Json> {
    for (key, expected) in [
        ("norm_eps", json!(1e-5)),
        ("local_transformer.kernel_size", json!(1)),
        ("prior.sink_skip_threshold", json!(8)),
        ("prior.sink_penalty_threshold", json!(10)),
        ("sampling.argmax_temperature", json!(0.01)),
    ] {
        expect(values, key, &values.float(key)?, &expected)?;
    }
    expect(values, "activation", &values.text("activation")?.into(), &json!("gelu_tanh"))?;
    let key = "local_transformer.apply_norm_out";
    expect(values, key, &values.flag(key)?, &json!(false))?;
    let width = values.number("d_model")?;
    let stack = |name: &str| -> Parsed<Map<String, Json>> {
        let number = |key: &str| values.number(&format!("{name}.{key}"));
        let flag = |key: &str| values.flag(&format!("{name}.{key}"));
        let mut map = Map::new();
        put(&mut map, "n_layers", number("n_layers")?);
        put(&mut map, "d_model", width.clone());
        put(&mut map, "d_ffn", number("d_ffn")?);
        put(&mut map, "sa_n_heads", number("n_heads")?);
        put(&mut map, "kernel_size", number("kernel_size")?);
        put(&mut map, "max_length_causal_mask", number("max_positions")?);
        put(&mut map, "is_causal", flag("is_causal")?);
        put(&mut map, "apply_norm_out", flag("apply_norm_out")?);
        put(&mut map, "use_learnable_pos_emb", flag("learnable_pos_emb")?);
        Ok(map)
    };
    let mut decoder = stack("decoder")?;
    put(&mut decoder, "has_xattn", true);
    put(&mut decoder, "xa_n_heads", values.number("decoder.xattn.n_heads")?);
    put(&mut decoder, "xa_d_head", values.number("decoder.xattn.d_head")?);
    put(&mut decoder, "xa_d_memory", values.number("decoder.xattn.d_memory")?);
    put(&mut decoder, "apply_norm_to_cond", values.flag("decoder.xattn.apply_norm_to_cond")?);
    let local = |key: &str| text::size(values, &format!("local_transformer.{key}"));
    let local_width = local("n_heads")?.saturating_mul(local("d_head")?);
    let four_times = json!(local_width.saturating_mul(4));
    expect(values, "local_transformer.d_ffn", &json!(local("d_ffn")?), &four_times)?;
    Ok(json!({
        "model_type": values.text("model_type")?,
        "embedding_dim": width,
        "frame_stacking_factor": values.number("audio.frame_stacking_factor")?,
        "encoder": stack("encoder")?,
        "decoder": decoder,
        "local_transformer_type": "autoregressive",
        "local_transformer_n_layers": local("n_layers")?,
        "local_transformer_n_heads": local("n_heads")?,
        "local_transformer_hidden_dim": local_width,
        "text_tokenizers": text::tokenizers(values)?,
        "language_to_tokenizer_mapping": text::languages(values)?,
        "codecmodel_path": values.text("codec.name")?,
        "forced_num_all_tokens_per_codebook": values.number("audio.tokens_per_codebook")?,
        "forced_audio_bos_id": values.number("audio.bos_id")?,
        "forced_audio_eos_id": values.number("audio.eos_id")?,
        "inference_parameters": {
            "max_decoder_steps": values.number("sampling.max_decoder_steps")?,
            "temperature": values.float("sampling.temperature")?,
            "topk": values.number("sampling.topk")?,
            "cfg_scale": values.float("sampling.cfg_scale")?,
            "min_generated_frames": values.number("sampling.min_generated_frames")?,
            "eos_detection_method": values.text("sampling.eos_detection_method")?,
            "ignore_finished_sentence_tracking":
                values.flag("sampling.ignore_finished_sentence_tracking")?,
            "apply_attention_prior": values.flag("prior.apply")?,
            "attention_prior_epsilon": values.float("prior.epsilon")?,
            "attention_prior_lookahead_window": values.number("prior.lookahead_window")?,
            "apply_prior_to_layers": values.numbers("prior.apply_to_layers")?,
            "estimate_alignment_from_layers": values.numbers("prior.estimate_from_layers")?,
            "start_prior_after_n_audio_steps": values.number("prior.start_after_n_audio_steps")?,
        },
    }))
}

fn codec_config(values: &Values<'_>) -> Parsed<Json> {
    for (key, expected) in [
        ("codec.dec.snake_eps", json!(1e-9)),
        ("codec.dec.lrelu_slope", json!(0.01)),
        ("codec.fsq.eps", json!(1e-3)),
    ] {
        expect(values, key, &values.float(key)?, &expected)?;
    }
    let key = "codec.dec.causal";
    expect(values, key, &values.flag(key)?, &json!(true))?;
    let rates = values.numbers("codec.dec.up_sample_rates")?;
    let twice: Vec<u64> = rates.iter().map(|rate| rate.saturating_mul(2)).collect();
    let key = "codec.dec.up_kernel_sizes";
    expect(values, key, &json!(values.numbers(key)?), &json!(twice))?;
    let levels = values.numbers("codec.fsq.num_levels")?;
    let bases: Vec<u64> = levels
        .iter()
        .scan(1_u64, |base, &level| {
            let own = *base;
            *base = base.saturating_mul(level);
            Some(own)
        })
        .collect();
    let key = "codec.fsq.dim_base_index";
    expect(values, key, &json!(values.numbers(key)?), &json!(bases))?;
    Ok(json!({
        "sample_rate": values.number("codec.sample_rate")?,
        "samples_per_frame": values.number("codec.samples_per_frame")?,
        "audio_decoder": {
            "up_sample_rates": rates,
            "input_dim": values.number("codec.latent_dim")?,
            "base_channels": values.number("codec.dec.base_channels")?,
            "in_kernel_size": values.number("codec.dec.in_kernel_size")?,
            "out_kernel_size": values.number("codec.dec.out_kernel_size")?,
            "resblock_kernel_sizes": values.numbers("codec.dec.resblock_kernel_sizes")?,
            "resblock_dilation_sizes": values.numbers("codec.dec.resblock_dilation_sizes")?,
            "activation": values.text("codec.dec.activation")?,
            "output_activation": values.text("codec.dec.output_activation")?,
            "pad_mode": values.text("codec.dec.pad_mode")?,
            "n_groups_equal_to_out_channels": values.flag("codec.dec.grouped_upsample")?,
        },
        "vector_quantizer": {
            "num_groups": values.number("codec.fsq.num_groups")?,
            "num_levels_per_group": levels,
        },
    }))
}
