//! The configurations of the two files, value by value.
//!
//! A value that the network needs and that the file has no key for is one of these:
//!
//! | value | source |
//! |---|---|
//! | sizes of the speaker encoder | the shapes of its tensors |
//! | dilations of the speaker encoder: 1, 2, 3, 4, 1 | the same in all releases, and in qwentts.cpp |
//! | activations, full attention, no biases, unscaled positions, padding of the codec's encoder | the same |
//!
//! A bias would be a tensor that nothing uses, and so an error.
//!
//! Source: qwentts.cpp `convert.py`, `src/*-weights.h`.

use serde_json::{Map, Value as Json, json};

use super::super::{
    Header, Value,
    values::{Values, constants},
};
use crate::{
    Tensors,
    families::qwen3_tts::gguf::{CODEC, TALKER},
};

/// Returns config.json and generation_config.json of a talker's file.
pub(super) fn of_talker(
    header: &Header,
    tensors: &Tensors,
) -> Result<[(&'static str, String); 2], String> {
    let values = Values { header, prefix: TALKER };
    let groups = values.number("num_code_groups")?;
    let mut predictor = values.layers("code_pred")?;
    predictor.insert("vocab_size".into(), values.number("code_pred.vocab_size")?);
    predictor.insert("num_code_groups".into(), groups.clone());
    let mut talker = values.layers("talker")?;
    for (key, from) in [
        ("vocab_size", "talker.vocab_size"),
        ("text_vocab_size", "talker.text_vocab_size"),
        ("text_hidden_size", "talker.text_hidden_size"),
        ("max_position_embeddings", "talker.context_length"),
        ("codec_pad_id", "codec.pad_id"),
        ("codec_bos_id", "codec.bos_id"),
        ("codec_eos_token_id", "codec.eos_id"),
        ("codec_think_id", "codec.think_id"),
        ("codec_nothink_id", "codec.nothink_id"),
        ("codec_think_bos_id", "codec.think_bos_id"),
        ("codec_think_eos_id", "codec.think_eos_id"),
    ] {
        talker.insert(key.into(), values.number(from)?);
    }
    talker.insert("num_code_groups".into(), groups);
    talker.insert("code_predictor_config".into(), predictor.into());
    let languages = values.table("codec.language")?;
    talker.insert("codec_language_id".into(), languages.into());
    let (mut speakers, mut dialects) = (Map::new(), Map::new());
    // Only models with named speakers have the table.
    if values.get("codec.speaker_names").is_some() {
        speakers = values.table("codec.speaker")?;
        dialects = values.dialects()?;
    }
    talker.insert("spk_id".into(), speakers.into());
    talker.insert("spk_is_dialect".into(), dialects.into());
    let mut config = json!({
        "model_type": "qwen3_tts",
        "tokenizer_type": values.text("tokenizer_type")?,
        "tts_model_size": values.text("model_size")?,
        "tts_model_type": values.text("model_type")?,
        "tts_pad_token_id": values.number("text.tts_pad_id")?,
        "tts_bos_token_id": values.number("text.tts_bos_id")?,
        "tts_eos_token_id": values.number("text.tts_eos_id")?,
        "talker_config": talker,
    });
    // A fine-tuned model has the value of its base model, and not the network.
    let has_encoder = values.text("model_type")? == "base" || tensors.has("spk_enc.conv0.weight");
    if has_encoder && values.get("spk_enc.embedding_length").is_some() {
        config["speaker_encoder_config"] = speaker_encoder(&values, tensors)?;
    }
    let generation = generation(header)?;
    Ok([("config.json", config.to_string()), ("generation_config.json", generation.to_string())])
}

/// Returns the configuration of the speaker encoder, whose sizes are those of its tensors.
fn speaker_encoder(values: &Values<'_>, tensors: &Tensors) -> Result<Json, String> {
    let sizes = |name: &str| match tensors.shape(&format!("spk_enc.{name}.weight")) {
        Ok(&[outputs, inputs, taps]) => Ok([outputs, inputs, taps]),
        Ok(other) => Err(format!("tensor `spk_enc.{name}.weight` is {other:?}")),
        Err(_) => Err(format!("it has no tensor `spk_enc.{name}.weight`")),
    };
    let (first, last) = (sizes("conv0")?, sizes("mfa")?);
    let (mut channels, mut taps) = (vec![first[0]], vec![first[2]]);
    for block in 1..4 {
        channels.push(sizes(&format!("blk.{block}.tdnn1"))?[0]);
        taps.push(sizes(&format!("blk.{block}.res2net.0"))?[2]);
    }
    channels.push(last[0]);
    taps.push(last[2]);
    let branch = |branch: &usize| tensors.has(&format!("spk_enc.blk.1.res2net.{branch}.weight"));
    Ok(json!({
        "enc_dim": values.number("spk_enc.embedding_length")?,
        "sample_rate": values.number("spk_enc.sample_rate")?,
        "mel_dim": first[1],
        "enc_channels": channels,
        "enc_kernel_sizes": taps,
        "enc_dilations": [1, 2, 3, 4, 1],
        "enc_attention_channels": sizes("asp.tdnn")?[0],
        "enc_se_channels": sizes("blk.1.se.conv1")?[0],
        "enc_res2net_scale": (0..).take_while(branch).count() + 1,
    }))
}

/// Returns generation_config.json, whose keys may be missing in a release too.
fn generation(header: &Header) -> Result<Json, String> {
    let mut config = Map::new();
    let keys = "
        do_sample top_k top_p temperature repetition_penalty subtalker_dosample subtalker_top_k
        subtalker_top_p subtalker_temperature max_new_tokens";
    for key in keys.split_whitespace() {
        // The only key that the release spells in another way.
        let from = if key == "subtalker_dosample" { "subtalker_do_sample" } else { key };
        let value = match header.values.get(&format!("generation.{from}")) {
            Some(Value::Unsigned(number)) => Json::from(*number),
            Some(Value::Float(number)) => Json::from(*number),
            Some(Value::Bool(is_on)) => Json::from(*is_on),
            None => continue,
            Some(_) => {
                return Err(format!(
                    "`generation.{from}` is neither a number from 0 on nor true or false"
                ));
            }
        };
        config.insert(key.into(), value);
    }
    Ok(config.into())
}

/// Returns config.json of the codec's file.
pub(super) fn of_codec(header: &Header) -> Result<String, String> {
    let values = Values { header, prefix: CODEC };
    let mut config = Map::new();
    for key in [
        "input_sample_rate",
        "output_sample_rate",
        "encode_downsample_rate",
        "decode_upsample_rate",
        "encoder_valid_num_quantizers",
    ] {
        config.insert(key.into(), values.number(key)?);
    }
    let numbers = "
        codebook_size codebook_dim num_quantizers num_semantic_quantizers latent_dim hidden_size
        intermediate_size num_hidden_layers num_attention_heads num_key_value_heads head_dim
        sliding_window decoder_dim";
    let (floats, lists) = ("rope_theta rms_norm_eps", "upsampling_ratios upsample_rates");
    let mut decoder = values.part("decoder", numbers, floats, lists)?;
    decoder.extend(constants(json!({ "attention_bias": false, "hidden_act": "silu" })));
    let numbers = "
        num_filters kernel_size residual_kernel_size last_kernel_size num_residual_layers
        dilation_growth_rate compress hidden_size intermediate_size num_hidden_layers
        num_attention_heads num_key_value_heads head_dim codebook_size codebook_dim num_quantizers
        num_semantic_quantizers";
    let floats = "rope_theta norm_eps";
    let mut encoder = values.part("encoder", numbers, floats, "upsampling_ratios")?;
    let width = values.number("encoder.vector_quantization_hidden_dim")?;
    encoder.insert("vector_quantization_hidden_dimension".into(), width);
    encoder.extend(constants(json!({
        "attention_bias": false, "hidden_act": "gelu", "audio_channels": 1, "normalize": false,
        "pad_mode": "constant", "use_causal_conv": true, "use_conv_shortcut": false,
    })));
    config.insert("model_type".into(), "qwen3_tts_tokenizer_12hz".into());
    config.insert("decoder_config".into(), decoder.into());
    config.insert("encoder_config".into(), encoder.into());
    Ok(Json::Object(config).to_string())
}
